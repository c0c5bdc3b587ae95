// Which hardware Halide's runtime computes on, found out without that runtime.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>

#include "runtime/device/opencl/opencl_api.h"
#include "runtime/device/opencl/opencl_device.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

using Object = OpenClApi::Object;

std::string variable(const char *name) {
    const char *value = std::getenv(name);
    return value ? value : "";
}

template <typename T> T number(const OpenClApi &cl, Object device, uint32_t what) {
    T value{};
    cl.get_device_info(device, what, sizeof value, &value, nullptr);
    return value;
}

/// The first platform whose name has HL_OCL_PLATFORM_NAME in it, and its name; null: there is none.
std::pair<Object, std::string> chosen_platform(const OpenClApi &cl) {
    std::array<Object, 8> platforms{};
    uint32_t count = 0;
    cl.get_platforms(uint32_t(platforms.size()), platforms.data(), &count);
    for (Object p : std::span(platforms).first(std::min<size_t>(count, platforms.size()))) {
        char name[256] = "";
        cl.get_platform_info(p, OpenClApi::platform_name, sizeof name - 1, name, nullptr);
        if (std::string(name).find(variable("HL_OCL_PLATFORM_NAME")) != std::string::npos) return {p, name};
    }
    return {nullptr, ""};
}

/// Of the devices of the types that HL_OCL_DEVICE_TYPE names, the one that HL_GPU_DEVICE counts, or else the last with
/// the most cores; null: there is none.
Object chosen_device(const OpenClApi &cl, Object platform) {
    const std::string asked = variable("HL_OCL_DEVICE_TYPE"), index = variable("HL_GPU_DEVICE");
    uint64_t types = 0;
    for (const auto &[name, type] : {std::pair("cpu", OpenClApi::type_processor),
                                     {"gpu", OpenClApi::type_gpu},
                                     {"acc", OpenClApi::type_accelerator}})
        if (asked.find(name) != std::string::npos) types |= type;
    std::array<Object, 128> devices{};
    uint32_t count = 0;
    if (cl.get_devices(platform, types ? types : OpenClApi::any_type, uint32_t(devices.size()), devices.data(), &count))
        return nullptr;
    const std::span found = std::span(devices).first(std::min<size_t>(count, devices.size()));
    if (const size_t at = size_t(std::atoi(index.c_str())); !index.empty() && at < found.size()) return found[at];
    Object best = nullptr;
    for (Object d : found)
        if (!best || number<uint32_t>(cl, d, OpenClApi::cores) >= number<uint32_t>(cl, best, OpenClApi::cores))
            best = d;
    return best;
}

}  // namespace

Hardware opencl_hardware() {
    const OpenClApi cl = OpenClApi::load();
    const auto [platform, name] = chosen_platform(cl);
    const Object device = platform ? chosen_device(cl, platform) : nullptr;
    if (!device)
        fail("--device opencl: no platform has the device that HL_OCL_PLATFORM_NAME and HL_OCL_DEVICE_TYPE ask for");
    char of_hardware[256] = "";
    cl.get_device_info(device, OpenClApi::device_name, sizeof of_hardware - 1, of_hardware, nullptr);
    const auto type = number<uint64_t>(cl, device, OpenClApi::device_type);
    return {.name = fmt::format("{} ({})", of_hardware, name), .processor = (type & OpenClApi::type_processor) != 0};
}

}  // namespace cryolite
