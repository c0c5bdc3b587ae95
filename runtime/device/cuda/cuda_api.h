#pragma once
// The functions of CUDA's driver that are called, looked up when the device is created: building needs no header of
// CUDA, and starting no library.

#include <cstddef>
#include <cstdint>
#include <string>

namespace cryolite {

struct CudaApi {
    using Code = int;
    using Object = void *;     ///< CUcontext, CUstream, CUevent, CUmodule, CUfunction, CUgraph, CUgraphExec
    using Address = uint64_t;  ///< CUdeviceptr

    Code (*init)(unsigned flags);
    Code (*driver_version)(int *version);
    Code (*device_count)(int *count);
    Code (*get_device)(int *device, int ordinal);
    Code (*device_name)(char *name, int most, int device);
    Code (*device_attribute)(int *value, int what, int device);
    Code (*retain_context)(Object *context, int device);
    Code (*release_context)(int device);
    Code (*set_current)(Object context);
    Code (*memory_left)(size_t *free, size_t *total);
    Code (*allocate)(Address *memory, size_t bytes);
    Code (*free)(Address memory);
    Code (*allocate_pinned)(void **memory, size_t bytes, unsigned flags);
    Code (*free_pinned)(void *memory);
    Code (*fill)(Address to, unsigned char byte, size_t bytes, Object stream);
    Code (*to_device)(Address to, const void *from, size_t bytes, Object stream);
    Code (*to_host)(void *to, Address from, size_t bytes, Object stream);
    Code (*within)(Address to, Address from, size_t bytes, Object stream);
    struct Rows {  ///< CUDA_MEMCPY2D: rows of `bytes` bytes, from one place to another
        struct Place {
            size_t x = 0, y = 0;
            unsigned kind = 2;  ///< CU_MEMORYTYPE_DEVICE
            void *host = nullptr;
            Address memory = 0;
            Object array = nullptr;
            size_t stride = 0;
        };
        Place from, to;
        size_t bytes = 0, rows = 0;
    };
    Code (*rows_within)(const Rows *rows, Object stream);
    Code (*create_stream)(Object *stream, unsigned flags);
    Code (*destroy_stream)(Object stream);
    Code (*wait_for_stream)(Object stream);
    Code (*stream_waits)(Object stream, Object event, unsigned flags);
    Code (*create_event)(Object *event, unsigned flags);
    Code (*destroy_event)(Object event);
    Code (*record)(Object event, Object stream);
    Code (*is_done)(Object event);
    Code (*elapsed)(float *milliseconds, Object before, Object after);
    Code (*wait_for_event)(Object event);
    Code (*load_module)(Object *module, const void *ptx, unsigned options, int *option, void **values);
    Code (*unload_module)(Object module);
    Code (*get_function)(Object *function, Object module, const char *name);
    Code (*function_attribute)(int *value, int what, Object function);
    Code (*launch)(Object function, unsigned blocks_x, unsigned blocks_y, unsigned blocks_z, unsigned threads_x,
                   unsigned threads_y, unsigned threads_z, unsigned shared_bytes, Object stream, void **arguments,
                   void **extra);
    Code (*begin_capture)(Object stream, int mode);
    Code (*end_capture)(Object stream, Object *graph);
    Code (*instantiate)(Object *executable, Object graph, unsigned long long flags);
    Code (*launch_graph)(Object executable, Object stream);
    Code (*destroy_graph)(Object graph);
    Code (*destroy_executable)(Object executable);
    Code (*error_name)(Code code, const char **name);
    Code (*error_words)(Code code, const char **words);

    // Constants of CUDA's header.
    static constexpr Code out_of_memory = 2, no_device = 100, not_ready = 600;
    static constexpr int capability_major = 75, capability_minor = 76;  ///< attributes of a device
    static constexpr int multiprocessors = 16, clock = 13, memory_clock = 36, memory_bus = 37;
    static constexpr unsigned stream_apart = 1;  ///< not ordered with the default stream
    static constexpr unsigned event_with_time = 0, event_without_time = 2;
    static constexpr int capture_relaxed = 2;   ///< the calls may allocate
    static constexpr int option_registers = 0;  ///< the most registers of a thread
    static constexpr int option_error_log = 5, option_error_log_bytes = 6;
    static constexpr int most_threads = 0;  ///< attribute of a function: the most threads of a block

    /// Loads the driver's library, or the one that CRYOLITE_CUDA_DRIVER names. Errors: there is none, or it is older
    /// than CUDA 11.4, the first with all of these functions; the message says what to install.
    static CudaApi load();
    /// "CUDA_ERROR_OUT_OF_MEMORY: out of memory"
    std::string words(Code code) const;
    /// Throws where `code` is an error: what failed, and the driver's message.
    void check(Code code, const std::string &what) const;
};

}  // namespace cryolite
