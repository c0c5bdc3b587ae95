// The trainer's part that reads and writes files of weights and optimizer state.

#include <algorithm>
#include <bit>
#include <cmath>

#include "runtime/files/tensor_files.h"
#include "runtime/train/trainer.h"

namespace cryolite {

namespace {
constexpr const char *updates_tensor = "updates";  // done and withheld
constexpr const char *scale_tensor = "loss_scale", *scale_steps_tensor = "loss_scale_steps";

/// The index of the first value that is infinite or NaN; -1: there is none.
int64_t not_finite(std::span<const float> values) {
    uint32_t largest = 0;  // the largest exponent: this loop is vectorized
    for (float x : values) largest = std::max(largest, std::bit_cast<uint32_t>(x) & 0x7f800000u);
    if (largest < 0x7f800000u) return -1;
    for (size_t i = 0;; i++)
        if (!std::isfinite(values[i])) return int64_t(i);
}

}  // namespace

TensorSpec Trainer::spec_of(int buffer) const {
    const PlanBuffer &b = plan().buffers[size_t(buffer)];
    return {b.name, Dtype::f32, TensorShape(b.shape.rbegin(), b.shape.rend())};
}

void Trainer::load_parameters(const fs::path &path, const TensorNames &renamed) {
    flush();
    const TensorFiles files(path);
    std::vector<int> buffers;
    std::vector<TensorSpec> parameters;
    for (int b = 0; b < std::ssize(plan().buffers); b++)
        if (plan().buffers[size_t(b)].role == Role::parameter) buffers.push_back(b), parameters.push_back(spec_of(b));
    const auto found = find_weights(parameters, files, renamed, tensor_parts_);
    for (size_t i = 0; i < buffers.size(); i++) {
        row_major_.resize(parameters[i].elements());
        size_t begin = 0;
        for (const TensorFiles::Tensor &t : found[i]) {
            const auto values = std::span(row_major_).subspan(begin, t.entry->elements());
            t.read_float32(values);
            if (const int64_t at = not_finite(values); at >= 0)
                fail_about(t,
                           "has the value {} at index {}, expected finite numbers; take the weights of an earlier "
                           "checkpoint",
                           values[size_t(at)], at);
            begin += values.size();
        }
        put(buffers[i], row_major_);
    }
    drop_staging();
}

std::string Trainer::write(const fs::path &path, Role role) {
    flush();
    const TraceSpan span("checkpoint", role == Role::state ? "write optimizer state" : "write parameters");
    const bool weights = role == Role::parameter;
    std::vector<TensorSpec> specs;
    std::vector<std::pair<int, std::vector<TensorSpec>>> buffers;
    for (int b = 0; b < std::ssize(plan().buffers); b++) {
        const PlanBuffer &of = plan().buffers[size_t(b)];
        if (of.role != role) continue;
        buffers.emplace_back(b, weights ? tensors_of(spec_of(b), tensor_parts_) : std::vector{spec_of(b)});
        specs.insert(specs.end(), buffers.back().second.begin(), buffers.back().second.end());
    }
    const bool counted = role == Role::state && count_ >= 0, scaled = role == Role::state && scaler_ >= 0;
    if (counted) specs.push_back({updates_tensor, Dtype::i32, {2}});
    if (scaled)
        specs.push_back({scale_tensor, Dtype::f32, {1}}), specs.push_back({scale_steps_tensor, Dtype::i32, {2}});
    SafetensorsWriter file(path, specs, {{"format", "pt"}});
    for (auto &[b, parts] : buffers) {
        const PlanBuffer &w = plan().buffers[size_t(b)];
        row_major_.resize(size_t(w.elements()));
        get(b, row_major_);
        if (const int64_t at = not_finite(row_major_); at >= 0 && weights)
            throw NotFiniteWeight(fmt::format("the weights are not finite any more: '{}' has the value {} at index {}",
                                              w.name, row_major_[size_t(at)], at));
        std::span<const float> left = row_major_;
        for (const TensorSpec &part : parts) {
            file.write(part.name, left.first(part.elements()));
            left = left.subspan(part.elements());
        }
    }
    if (counted) {
        int32_t count[2] = {};
        executor().download(count, count_, sizeof count);
        file.write(updates_tensor, std::span<const int32_t>(count));
    }
    if (scaled) {
        const LossScaler now = loss_scaler();
        file.write(scale_tensor, std::span(&now.scale, 1));
        file.write(scale_steps_tensor, std::span<const int32_t>(now.steps));
    }
    drop_staging();
    return file.finish();
}

void Trainer::send_state() {
    flush();
    for (size_t b = 0; b < plan().buffers.size(); b++) {
        if (plan().buffers[b].role != Role::state) continue;
        row_major_.resize(size_t(plan().buffers[b].elements()));
        get(int(b), row_major_);
    }
    drop_staging();
}

std::string Trainer::write_parameters(const fs::path &path) { return write(path, Role::parameter); }
std::string Trainer::write_state(const fs::path &path) { return write(path, Role::state); }

namespace {

/// Two numbers that kernels count from 0 on.
std::array<int32_t, 2> read_counts(const SafetensorsFile &file, const char *name) {
    const TensorEntry &entry = file.at(name, {2});
    if (entry.dtype != Dtype::i32)
        fail("{}: tensor '{}' is {}, expected I32", file.path().string(), name, name_of(entry.dtype));
    std::array<int32_t, 2> pair{};
    file.read(entry, 0, std::as_writable_bytes(std::span(pair)));
    if (pair[0] < 0 || pair[1] < 0)
        fail("{}: tensor '{}' is [{}, {}], expected two counts from 0 on; go on from another checkpoint",
             file.path().string(), name, pair[0], pair[1]);
    return pair;
}

}  // namespace

Trainer::Counters Trainer::counters_of(const SafetensorsFile &file) const {
    // Everything has to be there before anything is changed.
    Counters c;
    for (int b = 0; b < std::ssize(plan().buffers); b++)
        if (const PlanBuffer &of = plan().buffers[size_t(b)]; of.role == Role::state)
            file.at(of.name, spec_of(b).shape);
    if (count_ >= 0) c.updates = read_counts(file, updates_tensor);
    if (scaler_ < 0) return c;
    c.scaler.steps = read_counts(file, scale_steps_tensor);
    const float &scale = c.scaler.scale;
    file.read_float32(file.at(scale_tensor, {1}), std::span(&c.scaler.scale, 1));
    if (!is_power_of_two(scale) || scale < least_loss_scale || scale > largest_loss_scale)
        fail("{}: tensor '{}' is {}, expected a power of two from 2^-126 to 2^126; go on from another checkpoint",
             file.path().string(), scale_tensor, scale);
    return c;
}

void Trainer::check_state(const fs::path &path) const { counters_of(SafetensorsFile(path)); }

void Trainer::read_state(const fs::path &path) {
    flush();
    const SafetensorsFile file(path);
    const Counters counters = counters_of(file);
    for (int b = 0; b < std::ssize(plan().buffers); b++) {
        const PlanBuffer &of = plan().buffers[size_t(b)];
        if (of.role != Role::state) continue;
        row_major_.resize(size_t(of.elements()));
        file.read_float32(file.at(of.name, spec_of(b).shape), row_major_);
        put(b, row_major_);
    }
    drop_staging();
    if (count_ < 0) return;
    for (auto &e : executors_)  // each worker has its own copy
        e->upload(count_, counters.updates.data(), sizeof counters.updates);
    withheld_ = uint64_t(counters.updates[1]);
    if (scaler_ >= 0) put_loss_scaler(counters.scaler);
}

}  // namespace cryolite
