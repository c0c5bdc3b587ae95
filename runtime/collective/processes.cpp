#include "runtime/collective/processes.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "runtime/io/error.h"

namespace cryolite {

namespace {

/// Whether a launcher of MPI has started this process as one of several.
bool launched() {
    for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"})
        if (const char *text = std::getenv(name)) return std::atoi(text) > 1;
    return false;
}

/// MPI lives in a library of its own beside the command: whoever trains alone neither needs nor loads it.
std::unique_ptr<Processes> of_mpi() {
    std::error_code error;
    const auto path = std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "libcryolite_mpi.so";
    if (!std::filesystem::exists(path, error))
        fail_usage(
            "mpirun started this as one of several processes, but Cryolite was built without MPI: install Open MPI "
            "(libopenmpi-dev and openmpi-bin), and ./cryolite builds with it when mpirun starts it again (configure a "
            "build of your own anew, with cmake --fresh); or use --workers N without mpirun");
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
    if (!library) fail("cannot load {}: {}", path.string(), dlerror());
    auto *open = reinterpret_cast<Processes *(*)()>(dlsym(library, "cryolite_mpi_processes"));
    if (!open) fail("{} is of another version: build again with ./cryolite", path.string());
    return std::unique_ptr<Processes>(open());
}

std::unique_ptr<Processes> known;

}  // namespace

Processes &processes() {
    if (!known) known = launched() ? of_mpi() : std::make_unique<Processes>();
    return *known;
}

Processes &known_processes() {
    static Processes alone;
    return known ? *known : alone;
}

void leave_processes() {
    known_processes().barrier();
    known.reset();
}

}  // namespace cryolite
