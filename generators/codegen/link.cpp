#include "generators/codegen/link.h"

#include <elf.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include "generators/codegen/child.h"
#include "generators/lowering/hash.h"
#include "generators/codegen/kernel_store.h"

namespace cryolite::compiler {

namespace {

void link_library(const std::set<std::string> &objects, const std::string &path) {
    std::vector<std::string> words = {"ld.lld", "-shared", "--allow-shlib-undefined", "-z", "now", "--build-id=none",
                                      "-o",     path};
    words.insert(words.end(), objects.begin(), objects.end());
    std::vector<char *> argv;
    for (std::string &w : words) argv.push_back(w.data());
    argv.push_back(nullptr);
    pid_t pid = fork();
    if (pid == 0) {
        execvp(argv[0], argv.data());
        fmt::print(stderr, "cannot run ld.lld ({}): install the package 'lld'\n", strerror(errno));
        _exit(127);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) < 0 || status != 0)
        fail("linking {} kernels into {} failed; ld.lld's own message is above", objects.size(), path);
}

/// The names that a library expects of the process that loads it.
std::vector<std::string> undefined_names(const std::string &path) {
    const std::string file = read_whole(path);
    auto at = [&]<typename T>(T value, size_t offset) {
        if (offset + sizeof value > file.size()) fail("{}: ld.lld wrote a library that is cut short", path);
        std::memcpy(&value, file.data() + offset, sizeof value);
        return value;
    };
    const Elf64_Ehdr header = at(Elf64_Ehdr{}, 0);
    auto section = [&](size_t s) { return at(Elf64_Shdr{}, header.e_shoff + s * sizeof(Elf64_Shdr)); };
    std::vector<std::string> names;
    for (size_t s = 0; s < header.e_shnum; s++) {
        const Elf64_Shdr symbols = section(s);
        if (symbols.sh_type != SHT_DYNSYM) continue;
        const size_t text = section(symbols.sh_link).sh_offset;
        for (size_t i = 1; i < symbols.sh_size / sizeof(Elf64_Sym); i++)
            if (const auto symbol = at(Elf64_Sym{}, symbols.sh_offset + i * sizeof(Elf64_Sym));
                symbol.st_shndx == SHN_UNDEF)
                names.push_back(file.data() + text + symbol.st_name);
    }
    return names;
}

bool needs_more_of_halide(const std::string &library) {
    static const std::set<std::string> process = {"halide_malloc", "halide_free", "halide_do_par_for", "halide_error"};
    for (const std::string &name : undefined_names(library))
        if (name.starts_with("halide_") && !process.count(name)) return true;
    return false;
}

}  // namespace

void link_kernels(const CompileReport &compiled, const CompileOptions &options, const Halide::Target &target,
                  const std::string &folder) {
    const KernelStore store(options.store);
    std::set<std::string> objects;
    for (const CompiledKernel &k : compiled.kernels)
        if (k.by_halide) objects.insert(store.path(k.key));
    link_library(objects, folder + "/kernels.so");
    if (!needs_more_of_halide(folder + "/kernels.so")) return;
    const Halide::Target with = target.without_feature(Halide::Target::NoRuntime);
    const std::string key = runtime_key(with);
    if (!store.has(key))
        run_children(
            1, 1, options.time_limit,
            [&](int) {
                store.put(key, [&](const std::string &path) { Halide::compile_standalone_runtime(path, with); });
                return "";
            },
            [&](int, const ChildResult &r) {
                if (!r.error.empty()) fail("Halide's runtime for {}: {}", with.to_string(), r.error);
            });
    link_library({store.path(key)}, folder + "/halide_runtime.so");
}

}  // namespace cryolite::compiler
