#pragma once
// An NCCL for tests, beside the recording driver: it writes down what each worker asks of it, waits in the workers'
// streams until all have come to a transfer, and computes that on the host, adding in the tree of the CPU's workers. A
// test program links it and names it in CRYOLITE_NCCL.

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace cryolite::test {

struct NcclRecorder {
    // What it pretends to be.
    int version = 22304;
    std::string fails;  ///< a function that fails, at the n-th call from now on, from 1
    int fails_at = 0;
    int met = 0;           ///< an error that transfers have met in the meantime
    int never_comes = -1;  ///< a worker whose transfers never begin

    // What happened.
    struct Call {
        std::string name;  ///< "ReduceScatter"
        size_t count;      ///< of elements, as the function has it
        int type, root;
        size_t group;  ///< the number of the worker's group
    };
    std::map<int, std::vector<Call>> calls;  ///< by worker: put into a stream
    std::vector<std::string> wrong;          ///< what the library's documents forbid
    int done = 0;                            ///< groups that all workers have done
    int comms = 0;                           ///< that are not destroyed
    int aborted = 0;

    static NcclRecorder &get();
};

}  // namespace cryolite::test
