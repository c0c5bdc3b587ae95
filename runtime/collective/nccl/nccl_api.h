#pragma once
// The functions of NCCL that are called, looked up when several workers have GPUs: no header of it is needed to build,
// and no library of it to start. tests/runtime/test_nccl.cpp holds the numbers against nccl.h where that is found.

#include <cstddef>
#include <string>

namespace cryolite {

struct NcclApi {
    using Code = int;
    using Object = void *;  ///< ncclComm_t, CUstream
    struct Id {             ///< ncclUniqueId
        char bytes[128];
    };

    Code (*version)(int *version);
    Code (*unique_id)(Id *id);
    Code (*join)(Object *comm, int workers, Id id, int worker);
    Code (*destroy)(Object comm);
    Code (*abort)(Object comm);
    Code (*met)(Object comm, Code *error);
    const char *(*words_of)(Code code);
    const char *(*last_error)(Object comm);
    Code (*reduce_scatter)(const void *from, void *to, size_t count, int type, int operation, Object comm,
                           Object stream);
    Code (*reduce)(const void *from, void *to, size_t count, int type, int operation, int root, Object comm,
                   Object stream);
    Code (*all_gather)(const void *from, void *to, size_t count, int type, Object comm, Object stream);
    Code (*broadcast)(const void *from, void *to, size_t count, int type, int root, Object comm, Object stream);
    Code (*begin_group)();
    Code (*end_group)();

    // Numbers of NCCL's header.
    static constexpr Code success = 0, in_progress = 7;
    static constexpr int bytes = 1, float32 = 7;  ///< types of elements
    static constexpr int sum = 0;

    /// The library, and what CRYOLITE_NCCL names instead of it. Errors: there is none, or it is older than 2.13: what
    /// to install.
    static NcclApi load();
    /// Errors: what failed, and the library's words. `comm`: null where there is none yet.
    void check(Code code, const std::string &what, Object comm = nullptr) const;
};

}  // namespace cryolite
