#include "runtime/trainer.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <set>

#include "runtime/error.h"
#include "runtime/layout.h"
#include "runtime/master.h"
#include "runtime/rng.h"

namespace cryolite {

namespace {
constexpr const char *updates_tensor = "updates";  // done and withheld

/// The place of the first value that is infinite or no number; -1: none is.
int64_t not_finite(std::span<const float> values) {
    uint32_t largest = 0;  // of the exponents: a loop that is vectorized
    for (float x : values) largest = std::max(largest, std::bit_cast<uint32_t>(x) & 0x7f800000u);
    if (largest < 0x7f800000u) return -1;
    for (size_t i = 0;; i++)
        if (!std::isfinite(values[i])) return int64_t(i);
}
}  // namespace

Trainer::Trainer(std::shared_ptr<const Bundle> bundle, Device &device)
    : executor_(std::move(bundle), device), scalars_(plan().scalar_values) {
    input_ = plan().find("input", plan().task);
    targets_ = plan().find("input", "targets");
    count_ = plan().find("count");
    if (input_ < 0 || targets_ < 0) fail("the plan has no inputs '{}' and 'targets'", plan().task);
}

int Trainer::batch() const { return plan().buffers[size_t(targets_)].shape.back(); }
int Trainer::rows_per_example() const { return int(plan().buffers[size_t(targets_)].elements() / batch()); }
int Trainer::classes() const { return plan().buffers[size_t(plan().output)].shape.at(0); }

void Trainer::initialise(uint64_t seed) {
    pending_ = false;
    for (size_t b = 0; b < plan().buffers.size(); b++) {
        const PlanBuffer &w = plan().buffers[b];
        if (w.role != "parameter") continue;
        row_major_.assign(size_t(w.elements()), float(w.init_value));
        if (w.init_rule == "normal") fill_normal(row_major_, Rng(seed, w.name), 0, float(w.init_value));
        put(int(b), row_major_);
    }
}

void Trainer::put(int buffer, std::span<const float> row_major) {
    const PlanBuffer &b = plan().buffers[size_t(buffer)];
    storage_.resize(size_t(b.stored_elements()));
    to_storage(b, row_major, storage_);
    const int lower = plan().remainder_of(buffer);
    if (lower < 0) return executor_.upload(buffer, storage_.data(), size_t(b.bytes));
    half_.resize(storage_.size()), remainder_.resize(storage_.size());
    for (size_t i = 0; i < storage_.size(); i++) {
        const Master m = Master::split(storage_[i]);
        half_[i] = m.half, remainder_[i] = m.remainder;
    }
    executor_.upload(buffer, half_.data(), size_t(b.bytes));
    executor_.upload(lower, remainder_.data(), size_t(b.bytes));
}

void Trainer::get(int buffer, std::span<float> row_major) {
    const PlanBuffer &b = plan().buffers[size_t(buffer)];
    storage_.resize(size_t(b.stored_elements()));
    if (const int lower = plan().remainder_of(buffer); lower < 0) {
        executor_.download(storage_.data(), buffer, size_t(b.bytes));
    } else {
        half_.resize(storage_.size()), remainder_.resize(storage_.size());
        executor_.download(half_.data(), buffer, size_t(b.bytes));
        executor_.download(remainder_.data(), lower, size_t(b.bytes));
        for (size_t i = 0; i < storage_.size(); i++) storage_[i] = Master{half_[i], remainder_[i]}.whole();
    }
    to_row_major(b, storage_, row_major);
}

uint64_t Trainer::withheld() {
    if (count_ < 0) return 0;
    int32_t count[2] = {};
    executor_.download(count, count_, sizeof count);
    return uint64_t(count[1]);
}

TensorShape Trainer::shape_of(int buffer) const {
    const std::vector<int> &s = plan().buffers[size_t(buffer)].shape;
    return TensorShape(s.rbegin(), s.rend());
}

void Trainer::read(int buffer, const SafetensorsFile &file, const TensorEntry &entry) {
    const PlanBuffer &b = plan().buffers[size_t(buffer)];
    row_major_.resize(size_t(b.elements()));
    file.read_float32(entry, row_major_);
    put(buffer, row_major_);
}

void Trainer::load_parameters(const fs::path &path,
                              const std::function<std::string(const std::string &)> &renamed) {
    flush();
    SafetensorsFile file(path);
    std::set<int> loaded;
    for (const TensorEntry &e : file.entries()) {
        std::string name = renamed(e.name);
        if (name.empty()) continue;
        int b = plan().find("parameter", name);
        if (b < 0) fail("{}: tensor '{}' is not a parameter of this model", path.string(), e.name);
        if (e.shape != shape_of(b))
            fail("{}: tensor '{}' has shape {}, the model expects {}; check --layers, --width, --vocab and --context", path.string(),
                 e.name, shape_text(e.shape), shape_text(shape_of(b)));
        if (!loaded.insert(b).second) fail("{}: tensor '{}' is there under two names", path.string(), e.name);
        read(b, file, e);
        if (const int64_t at = not_finite(row_major_); at >= 0)
            fail("{}: tensor '{}' has the value {} at index {}, expected finite numbers", path.string(), e.name,
                 row_major_[size_t(at)], at);
    }
    for (size_t b = 0; b < plan().buffers.size(); b++)
        if (plan().buffers[b].role == "parameter" && !loaded.count(int(b)))
            fail("{}: tensor '{}' of shape {} is missing", path.string(), plan().buffers[b].name,
                 shape_text(shape_of(int(b))));
}

bool Trainer::set(const std::string &scalar, double value) {
    int s = plan().scalar(scalar);
    if (s >= 0) scalars_[size_t(s)] = value;
    return s >= 0;
}

void Trainer::feed(const Batch &batch) {
    const PlanBuffer &in = plan().buffers[size_t(input_)];
    bool tokens = plan().task == "tokens";
    size_t have = tokens ? batch.tokens.size() : batch.features.size();
    if (int64_t(have) != in.elements())
        fail("a micro-batch has {} values, the model reads {}", have, in.elements());
    executor_.upload(input_, tokens ? static_cast<const void *>(batch.tokens.data()) : batch.features.data(), size_t(in.bytes));
    executor_.upload(targets_, batch.targets.data(), batch.targets.size() * 4);
}

void Trainer::run(const char *name, size_t &call) {
    const Executor::Line &line = executor_.line(name);
    std::span<double> seconds;
    if (profile_) {
        if (profile_->size() < call + line.calls.size()) profile_->resize(call + line.calls.size());
        seconds = std::span(*profile_).subspan(call, line.calls.size());
    }
    executor_.run(line, seconds);
    call += line.calls.size();
}

double Trainer::loss() {
    float value = 0;
    executor_.download(&value, plan().loss, sizeof value);
    return value;
}

double Trainer::step(const std::function<const Batch &()> &next, int accumulate) {
    set("step", double(steps_ + 1));
    set("loss_scale", 1.0 / accumulate);
    losses_.resize(size_t(accumulate));
    size_t call = 0;
    for (int k = 0; k < accumulate; k++) {
        feed(next());
        // Updates that wait for this pass still read the numbers of the step that they belong to.
        run(pending_ ? "lazy" : "forward", call);
        pending_ = false;
        if (k == 0) executor_.upload(plan().find("scalars"), scalars_.data(), scalars_.size() * sizeof(double));
        bool last = k == accumulate - 1;
        run(last ? "step" : k == 0 ? "first" : "accumulate", call);
        executor_.fetch(&losses_[size_t(k)], plan().loss, sizeof(float));
    }
    executor_.device().finish();  // the only time that a step waits for the device
    steps_++;
    pending_ = executor_.has("lazy");
    return std::accumulate(losses_.begin(), losses_.end(), 0.0) / accumulate;
}

void Trainer::flush() {
    if (!pending_) return;
    executor_.run(executor_.line("flush"));
    executor_.device().finish();
    pending_ = false;
}

double Trainer::evaluate(const Batch &batch, int rows) {
    flush();
    feed(batch);
    executor_.run(executor_.line("forward"));
    if (rows == this->batch()) return loss();
    // The rest of the batch is padding: the loss of the rows that count, from the model's output.
    fetch_output();
    double total = 0;
    int count = rows * rows_per_example(), n = classes();
    for (int r = 0; r < count; r++) {
        const float *x = output_.data() + size_t(r) * size_t(n);
        double top = x[0], sum = 0;
        for (int v = 1; v < n; v++) top = std::max<double>(top, x[v]);
        for (int v = 0; v < n; v++) sum += std::exp(x[v] - top);
        total += top + std::log(sum) - x[batch.targets[size_t(r)]];
    }
    return total / count;
}

std::span<const float> Trainer::predict(const Batch &batch) {
    flush();
    feed(batch);
    executor_.run(executor_.line("forward"));
    fetch_output();
    return output_;
}

void Trainer::fetch_output() {
    output_.resize(size_t(plan().buffers[size_t(plan().output)].elements()));
    executor_.download(output_.data(), plan().output, output_.size() * 4);
}

std::string Trainer::write(const fs::path &path, const std::string &role) {
    flush();
    std::vector<TensorSpec> specs;
    std::vector<int> ids;
    for (size_t b = 0; b < plan().buffers.size(); b++) {
        if (plan().buffers[b].role != role) continue;
        specs.push_back({plan().buffers[b].name, Dtype::f32, shape_of(int(b))});
        ids.push_back(int(b));
    }
    const bool counted = role == "state" && count_ >= 0;
    if (counted) specs.push_back({updates_tensor, Dtype::i32, {2}});
    SafetensorsWriter file(path, specs, {{"format", "pt"}});
    for (int b : ids) {
        const PlanBuffer &w = plan().buffers[size_t(b)];
        row_major_.resize(size_t(w.elements()));
        get(b, row_major_);
        if (const int64_t at = not_finite(row_major_); at >= 0 && role == "parameter")
            fail("the weights are not finite any more: '{}' has the value {} at index {}; a lower --lr, a longer --warmup "
                 "or --clip 1 may help", w.name, row_major_[size_t(at)], at);
        file.write(w.name, std::span<const float>(row_major_));
    }
    if (counted) {
        int32_t count[2] = {};
        executor_.download(count, count_, sizeof count);
        file.write(updates_tensor, std::span<const int32_t>(count));
    }
    return file.finish();
}

std::string Trainer::write_parameters(const fs::path &path) { return write(path, "parameter"); }
std::string Trainer::write_state(const fs::path &path) { return write(path, "state"); }

void Trainer::read_state(const fs::path &path) {
    flush();
    SafetensorsFile file(path);
    for (size_t b = 0; b < plan().buffers.size(); b++)
        if (plan().buffers[b].role == "state")
            read(int(b), file, file.at(plan().buffers[b].name, shape_of(int(b))));
    if (count_ < 0) return;
    const TensorEntry &count = file.at(updates_tensor, {2});
    if (count.dtype != Dtype::i32) fail("{}: tensor '{}' is {}, expected I32", path.string(), updates_tensor, name_of(count.dtype));
    executor_.upload(count_, count.data.data(), count.data.size());
}

}  // namespace cryolite
