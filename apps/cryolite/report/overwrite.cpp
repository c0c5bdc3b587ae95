#include "apps/cryolite/report/overwrite.h"

#include "runtime/io/error.h"

namespace cryolite {

void check_overwrite(const std::string &flag, const fs::path &file, std::string_view heading, const std::string &what) {
    if (file.empty()) return;
    std::error_code ignored;
    if (!fs::is_directory(fs::absolute(file).parent_path(), ignored))
        fail_usage("--{} {}: there is no such folder", flag, file.string());
    if (!is_there(file)) return;
    if (fs::is_directory(file, ignored)) fail_usage("--{} {} is a folder, expected a file", flag, file.string());
    const InputFile there(file);
    std::string begin(std::min<uint64_t>(there.size(), heading.size()), ' ');
    there.read(0, std::as_writable_bytes(std::span(begin)));
    if (begin.empty() || begin == heading) return;
    fail_usage("--{} {}: it is there and is no {}: name another file, or remove it", flag, file.string(), what);
}

}  // namespace cryolite
