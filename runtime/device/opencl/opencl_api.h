#pragma once
// Functions that are looked up when the device is created: those of OpenCL and of Halide's runtime that the device
// calls itself.

#include <HalideRuntimeOpenCL.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace cryolite {

struct OpenClApi {
    using Object = void *;  ///< cl_context, cl_command_queue, cl_mem, cl_platform_id, cl_device_id

    int (*get_platforms)(uint32_t most, Object *platforms, uint32_t *count);
    int (*get_platform_info)(Object platform, uint32_t what, size_t most, void *value, size_t *size);
    int (*get_devices)(Object platform, uint64_t types, uint32_t most, Object *devices, uint32_t *count);
    int (*get_context_info)(Object context, uint32_t what, size_t most, void *value, size_t *size);
    int (*get_device_info)(Object device, uint32_t what, size_t most, void *value, size_t *size);
    int (*write)(Object queue, Object memory, uint32_t blocking, size_t offset, size_t bytes, const void *from,
                 uint32_t, const Object *, Object *);
    int (*read)(Object queue, Object memory, uint32_t blocking, size_t offset, size_t bytes, void *to, uint32_t,
                const Object *, Object *);
    int (*fill)(Object queue, Object memory, const void *pattern, size_t pattern_bytes, size_t offset, size_t bytes,
                uint32_t, const Object *, Object *);
    int (*finish)(Object queue);

    static constexpr uint32_t context_devices = 0x1081, platform_name = 0x0902, device_type = 0x1000, cores = 0x1002,
                              device_name = 0x102B, device_doubles = 0x1032,
                              device_alignment = 0x1019;  ///< the last in bits
    static constexpr uint64_t type_processor = 2, type_gpu = 4, type_accelerator = 8, any_type = 0xffffffff;

    /// Loads the library, so that Halide's runtime finds it too. Errors: what to install.
    static OpenClApi load();
};

/// The functions of Halide's runtime that a bundle for OpenCL brings.
struct HalideOpenCl {
    decltype(&halide_opencl_device_interface) device_interface;
    decltype(&halide_opencl_get_cl_mem) memory;
    decltype(&halide_device_malloc) allocate;
    decltype(&halide_device_free) free;
    decltype(&halide_device_crop) crop;
    decltype(&halide_device_release_crop) release_crop;
    // Halide's runtime has these two; its headers do not declare them.
    int (*acquire_context)(void *user_context, void **context, void **queue, bool create);
    int (*release_context)(void *user_context);

    /// Errors: no bundle for OpenCL has been opened.
    static HalideOpenCl find();
};

}  // namespace cryolite
