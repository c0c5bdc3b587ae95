#pragma once
// The NCCL functions that are called, looked up once several workers have GPUs: building needs no header of NCCL, and
// starting no library. tests/runtime/test_nccl.cpp compares the constants with nccl.h where that is found.

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

    // Constants of NCCL's header.
    static constexpr Code success = 0, in_progress = 7;
    static constexpr int bytes = 1, float32 = 7;  ///< types of elements
    static constexpr int sum = 0;

    /// Loads libnccl.so.2, or the library that CRYOLITE_NCCL names. Errors: there is none, or it is older than 2.13;
    /// the message says what to install.
    static NcclApi load();
    /// Throws where `code` is an error: what failed, and the library's message. `comm`: null where there is none yet.
    void check(Code code, const std::string &what, Object comm = nullptr) const;
};

}  // namespace cryolite
