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

/// The tensors of a file by the model's names for them; each is taken once.
class NamedTensors {
public:
    NamedTensors(const TensorFiles &files, const std::function<std::string(const std::string &)> &renamed)
        : files_(files) {
        for (const TensorFiles::Tensor &t : files.tensors()) {
            const std::string name = renamed(t.name());
            if (name.empty()) continue;
            if (const auto [other, fresh] = left_.emplace(name, &t); !fresh)
                fail_about(t, "is in the file under two names: '{}' is the model's '{}', too", other->second->name(),
                           name);
        }
    }
    bool has(const std::string &name) const { return left_.contains(name); }
    /// Null: there is none.
    const TensorFiles::Tensor *take(const std::string &name) {
        const auto node = left_.extract(name);
        return node ? node.mapped() : nullptr;
    }
    /// The first of those that nobody took, and the model's name for it; null: none is left.
    std::pair<const TensorFiles::Tensor *, std::string> left() const {
        for (const TensorFiles::Tensor &t : files_.tensors())
            for (const auto &[name, tensor] : left_)
                if (tensor == &t) return {tensor, name};
        return {};
    }
    template <typename... Args> [[noreturn]] static void fail_about(const TensorFiles::Tensor &t,
                                                                    fmt::format_string<Args...> text, Args &&...args) {
        fail("{}: tensor '{}' {}", t.file->path().string(), t.name(), fmt::format(text, std::forward<Args>(args)...));
    }

private:
    const TensorFiles &files_;
    std::map<std::string, const TensorFiles::Tensor *> left_;
};

}  // namespace

TensorShape Trainer::shape_of(int buffer) const {
    const std::vector<int> &s = plan().buffers[size_t(buffer)].shape;
    return TensorShape(s.rbegin(), s.rend());
}

/// The tensors in which files store a parameter.
std::vector<TensorSpec> Trainer::parts_of(int buffer) const {
    const std::string &name = plan().buffers[size_t(buffer)].name;
    const TensorShape whole = shape_of(buffer);
    const std::vector<TensorPart> parts = file_names_ ? file_names_(name) : std::vector<TensorPart>{};
    if (parts.empty()) return {{name, Dtype::f32, whole}};
    int64_t total = 0;
    for (const TensorPart &p : parts) total += p.share;
    if (whole.empty() || total < 1 || whole[0] % total)
        fail("'{}' of shape {} cannot be divided into the {} tensors that files store it as", name, shape_text(whole),
             parts.size());
    std::vector<TensorSpec> specs;
    for (const TensorPart &p : parts) {
        specs.push_back({p.name, Dtype::f32, whole});
        specs.back().shape[0] = whole[0] / total * p.share;
    }
    return specs;
}

void Trainer::load_parameters(const fs::path &path, const std::function<std::string(const std::string &)> &renamed) {
    flush();
    const TensorFiles files(path);
    NamedTensors tensors(files, renamed);
    std::map<int, std::vector<const TensorFiles::Tensor *>> found;
    std::optional<TensorSpec> missing;
    for (size_t b = 0; b < plan().buffers.size(); b++) {
        if (plan().buffers[b].role != Role::parameter) continue;
        std::vector<TensorSpec> parts = parts_of(int(b));
        // A file may also have the whole parameter under the model's name.
        if (tensors.has(plan().buffers[b].name)) parts = {{plan().buffers[b].name, Dtype::f32, shape_of(int(b))}};
        for (const TensorSpec &part : parts) {
            const TensorFiles::Tensor *t = tensors.take(part.name);
            if (!t && !missing) missing = part;
            if (!t) continue;
            if (t->entry->shape != part.shape)
                NamedTensors::fail_about(
                    *t,
                    "has shape {}, the model expects {}; check the model's sizes, such as --width, or those in the "
                    "config.json beside it",
                    shape_text(t->entry->shape), shape_text(part.shape));
            found[int(b)].push_back(t);
        }
    }
    if (const auto &[t, name] = tensors.left(); t)
        NamedTensors::fail_about(*t, "{}is not a parameter of this model{}",
                                 name == t->name() ? "" : fmt::format("has the name '{}' here, which ", name),
                                 missing ? fmt::format(", whose '{}' of shape {} is missing there", missing->name,
                                                       shape_text(missing->shape))
                                         : "");
    if (missing)
        fail("{}: tensor '{}' of shape {} is missing; take a file of all the model's weights", path.string(),
             missing->name, shape_text(missing->shape));
    for (auto &[b, parts] : found) {
        row_major_.resize(size_t(plan().buffers[size_t(b)].elements()));
        size_t begin = 0;
        for (const TensorFiles::Tensor *t : parts) {
            const auto values = std::span(row_major_).subspan(begin, t->entry->elements());
            t->read_float32(values);
            if (const int64_t at = not_finite(values); at >= 0)
                NamedTensors::fail_about(*t,
                                         "has the value {} at index {}, expected finite numbers; take the weights of "
                                         "an earlier checkpoint",
                                         values[size_t(at)], at);
            begin += values.size();
        }
        put(b, row_major_);
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
        buffers.emplace_back(b, weights ? parts_of(b) : std::vector<TensorSpec>{{of.name, Dtype::f32, shape_of(b)}});
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
        if (const PlanBuffer &of = plan().buffers[size_t(b)]; of.role == Role::state) file.at(of.name, shape_of(b));
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
        file.read_float32(file.at(of.name, shape_of(b)), row_major_);
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
