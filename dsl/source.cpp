#include "dsl/source.h"

#include <fmt/format.h>

#include <filesystem>

namespace cryolite {

std::string place_of(const std::source_location &where) {
    return fmt::format("{}:{}", std::filesystem::path(where.file_name()).filename().string(), where.line());
}

}  // namespace cryolite
