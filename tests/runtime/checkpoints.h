#pragma once
// Checkpoints as the tests write and find them.

#include "runtime/files/checkpoint.h"
#include "runtime/files/safetensors.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

/// Weights and state as a trainer writes them; the content tells the step.
inline std::vector<CheckpointFile> tensors_of(uint64_t step, size_t values = 100) {
    const auto tensors = [=](const fs::path &path) {
        SafetensorsWriter writer(path, {{"w", Dtype::f32, {static_cast<int64_t>(values)}}});
        writer.write("w", std::span<const float>(std::vector<float>(values, static_cast<float>(step))));
        return writer.finish();
    };
    return {{"model.safetensors", tensors}, {"optimizer.safetensors", tensors}};
}

/// And a third file, which tells it too.
inline std::vector<CheckpointFile> files_of(uint64_t step, size_t values = 100) {
    const auto state = [=](const fs::path &path) {
        FileWriter file(path);
        file.write(as_bytes(fmt::format("{{\"step\":{}}}", step)));
        file.finish();
        return std::string();
    };
    std::vector<CheckpointFile> files = tensors_of(step, values);
    files.push_back({"state.json", state});
    return files;
}

/// 0: there is none. `words`: each that was skipped, and why.
inline uint64_t newest_good_step(const fs::path &run, std::string *words = nullptr) {
    const auto found = newest_good_checkpoint(run, [&](const Checkpoint &c, const std::string &why) {
        if (words) *words += fmt::format("{}: {}\n", c.path.filename().string(), why);
    });
    return found ? found->step : 0;
}

}  // namespace cryolite::test
