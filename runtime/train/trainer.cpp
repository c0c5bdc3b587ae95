#include "runtime/train/trainer.h"

#include <algorithm>
#include <cmath>

#include "runtime/collective/local/local_collective.h"
#include "runtime/collective/nccl/nccl_collective.h"
#include "runtime/collective/sum.h"
#include "runtime/files/safetensors.h"
#include "runtime/io/error.h"
#include "runtime/system/rng.h"
#include "runtime/plan/layout.h"
#include "runtime/train/master.h"

namespace cryolite {

Trainer::Trainer(std::shared_ptr<const Bundle> bundle, const std::vector<Device *> &devices, Processes &processes,
                 double patience)
    : processes_(processes), worker_threads_(int(devices.size())), weights_(bundle->plan) {
    std::vector<std::unique_ptr<HostCollective>> ends;
    if (processes.size() > 1) {
        if (devices.size() > 1)
            fail("under mpirun each process is one worker, not {}: start more processes", devices.size());
        ends.push_back(processes.collective());
    } else if (devices.size() > 1) {
        ends = local_collectives(int(devices.size()), patience, [this] { worker_threads_.alarm(); });
    }
    apart_ = !ends.empty() && devices[0]->gpu();
    if (apart_)
        collectives_ =
            nccl_collectives(std::move(ends), processes, [devices](int w) { devices[size_t(w)]->gpu()->stream(); });
    else
        std::ranges::move(ends, std::back_inserter(collectives_));
    for (size_t w = 0; w < devices.size(); w++)
        executors_.push_back(std::make_unique<Executor>(bundle, *devices[w],
                                                        collectives_.empty() ? nullptr : collectives_[w].get(),
                                                        w == 0 || apart_ ? nullptr : executors_[0].get()));
    for (auto &e : executors_) e->resolve(), upload_constants(*e);
    values_.resize(size_t(plan().batch_parts())), sums_.resize(size_t(workers()));
    share_state();
    const int scalars = plan().find(Role::scalars);
    scalars_.resize(scalars < 0 ? plan().scalar_names.size() : size_t(plan().buffers[size_t(scalars)].elements()));
    for (size_t s = 0; s < plan().scalar_names.size(); s++) set(plan().scalar_names[s], plan().scalar_values[s]);
    input_ = plan().find(Role::input, plan().task);
    targets_ = plan().find(Role::input, "targets");
    count_ = plan().find(Role::count), mode_ = plan().find(Role::input, "mode");
    scaler_ = plan().find(Role::loss_scaler, "loss_scale");
    if (scaler_ >= 0) put_loss_scaler({float(first_scale_)});
    if (input_ < 0 || targets_ < 0) fail("the plan has no inputs '{}' and 'targets'", plan().task);
}

/// Where workers have separate memories: finds who has which part of the optimizer state, from the plan's updates.
void Trainer::share_state() {
    shares_.resize(plan().buffers.size());
    if (processes_.size() == 1 && !apart_) return;
    for (const char *name : {entry::step, entry::flush})
        if (auto at = plan().plans.find(name); at != plan().plans.end())
            for (const PlanCall &c : at->second)
                for (size_t i = 0; c.worker >= 0 && c.kernel >= 0 && i < c.args.size(); i++) {
                    const PlanBuffer &b = plan().buffers[size_t(c.args[i].buffer)];
                    if (b.role != Role::state || !plan().writes(c, i)) continue;
                    const size_t n = size_t(plan().elements(c, i));
                    shares_[size_t(c.args[i].buffer)].push_back(
                        {c.worker, size_t(c.args[i].offset) * sizeof(float), n * sizeof(float)});
                }
}

/// Runs work(w) on every worker of this process.
void Trainer::all(const std::function<void(int)> &work) {
    auto give_up = [this] {
        for (auto &c : collectives_) c->give_up();
    };
    worker_threads_.run(work, give_up, [this](int w) { return collectives_[0]->watch.lost(w); });
    if (collectives_.empty()) return;
    if (worker_threads_.left_behind()) collectives_[0]->watch.check();
    collectives_[0]->settle();
}

bool Trainer::settled() const { return !pending_ && !collectives_.empty() && collectives_[0]->settled(); }

int Trainer::batch() const { return plan().buffers[size_t(targets_)].shape.back() * plan().batch_parts(); }
int Trainer::targets_per_example() const { return int(plan().buffers[size_t(targets_)].elements() / own_batch()); }
int Trainer::rows_per_example() const {
    const PlanBuffer &targets = plan().buffers[size_t(targets_)];
    return targets_per_example() / (predicts_numbers() && targets.shape.size() > 1 ? targets.shape.front() : 1);
}
int Trainer::classes() const { return plan().buffers[size_t(plan().output)].shape.at(0); }

void Trainer::initialise(uint64_t seed) {
    pending_ = false;
    seed_steps(seed);
    for (size_t b = 0; b < plan().buffers.size(); b++) {
        const PlanBuffer &w = plan().buffers[b];
        if (w.role != Role::parameter) continue;
        row_major_.assign(size_t(w.elements()), float(w.init.value));
        if (w.init.rule == "normal") fill_normal(row_major_, Rng(seed, w.name), 0, float(w.init.value));
        put(int(b), row_major_);
    }
    drop_staging();
}

/// Frees the copies that `staging_bytes` (memory_need.h) counts, so that steps need no memory for them.
void Trainer::drop_staging() {
    row_major_ = std::vector<float>(), storage_ = std::vector<float>();
    high_ = std::vector<uint16_t>(), low_ = std::vector<uint16_t>();
}

/// Whether the buffer is a whole fp32 master, not the low half of a split one.
bool Trainer::is_whole_master(int buffer) const { return plan().buffers[size_t(buffer)].role == Role::master; }

void Trainer::put(int buffer, std::span<const float> row_major) {
    const PlanBuffer &b = plan().buffers[size_t(buffer)];
    storage_.resize(size_t(b.stored_elements()));
    to_storage(b, row_major, storage_);
    const int beside = plan().master_of(buffer);
    if (const auto &shares = shares_[size_t(buffer)]; !shares.empty()) {
        // Memory that is never written takes no room: a worker writes its own shard of the optimizer state only.
        for (const Share &s : shares)
            if (Executor *holder = holder_of(s))
                holder->upload(buffer, reinterpret_cast<const char *>(storage_.data()) + s.begin, s.bytes, s.begin);
        return;
    }
    auto upload = [&](int to, const void *from, size_t bytes) {
        for (size_t w = 0; w < (apart_ ? executors_.size() : 1); w++) executors_[w]->upload(to, from, bytes);
    };
    if (beside < 0) return upload(buffer, storage_.data(), size_t(b.bytes));
    high_.resize(storage_.size());
    if (is_whole_master(beside)) {
        std::ranges::transform(storage_, high_.begin(), half_from_float);
        upload(buffer, high_.data(), size_t(b.bytes));
        return upload(beside, storage_.data(), storage_.size() * sizeof(float));
    }
    low_.resize(storage_.size());
    for (size_t i = 0; i < storage_.size(); i++) {
        const Master m = Master::split(storage_[i]);
        high_[i] = m.high, low_[i] = m.low;
    }
    upload(buffer, high_.data(), size_t(b.bytes));
    upload(beside, low_.data(), size_t(b.bytes));
}

/// The executor of this process that has the share; null: another process has it.
Executor *Trainer::holder_of(const Share &share) {
    const int at = share.rank - first();
    return at >= 0 && at < int(executors_.size()) ? executors_[size_t(at)].get() : nullptr;
}

void Trainer::get(int buffer, std::span<float> row_major) {
    const PlanBuffer &b = plan().buffers[size_t(buffer)];
    storage_.resize(size_t(b.stored_elements()));
    if (const int beside = plan().master_of(buffer); beside >= 0 && is_whole_master(beside)) {
        executor().download(storage_.data(), beside, storage_.size() * sizeof(float));
    } else if (const auto &shares = shares_[size_t(buffer)]; !shares.empty()) {
        for (const Share &s : shares)
            if (Executor *holder = holder_of(s))
                holder->download(reinterpret_cast<char *>(storage_.data()) + s.begin, buffer, s.bytes, s.begin);
        if (processes_.size() > 1) processes_.collect(std::as_writable_bytes(std::span(storage_)), shares);
    } else if (beside < 0) {
        executor().download(storage_.data(), buffer, size_t(b.bytes));
    } else {
        high_.resize(storage_.size()), low_.resize(storage_.size());
        executor().download(high_.data(), buffer, size_t(b.bytes));
        executor().download(low_.data(), beside, size_t(b.bytes));
        for (size_t i = 0; i < storage_.size(); i++) storage_[i] = Master{high_[i], low_[i]}.whole();
    }
    to_row_major(b, storage_, row_major);
}

bool Trainer::set(const std::string &scalar, double value, double share) {
    const int s = plan().scalar(scalar);
    if (s < 0) return false;
    scalars_[size_t(s)] = value;
    for (const PlanGroup &g : plan().groups) {
        double &own = scalars_[size_t(g.at + s)] = value;
        for (const PlanGroup::Setting &set : g.settings)
            if (set.scalar == scalar) own = set.times ? set.value * value : set.value * share;
    }
    return true;
}

void Trainer::check_size(const Batch &batch) const {
    const int64_t reads = plan().buffers[size_t(input_)].elements() * plan().batch_parts();
    const size_t have = plan().task == "tokens" ? batch.tokens.size() : batch.features.size();
    if (int64_t(have) != reads) fail("a micro-batch has {} values, the model reads {}", have, reads);
    const int64_t aims = plan().buffers[size_t(targets_)].elements() * plan().batch_parts();
    const size_t given = predicts_numbers() ? batch.numbers.size() : batch.targets.size();
    if (int64_t(given) != aims) fail("a micro-batch has {} targets, the model reads {}", given, aims);
}

/// Uploads part `part` of a micro-batch to a worker of this process.
void Trainer::feed(int worker, const Batch &batch, int part) {
    const PlanBuffer &in = plan().buffers[size_t(input_)], &targets = plan().buffers[size_t(targets_)];
    const auto *values = plan().task == "tokens" ? reinterpret_cast<const char *>(batch.tokens.data())
                                                 : reinterpret_cast<const char *>(batch.features.data());
    executors_[size_t(worker)]->upload(input_, values + part * in.bytes, size_t(in.bytes));
    const auto *aims = predicts_numbers() ? reinterpret_cast<const char *>(batch.numbers.data())
                                          : reinterpret_cast<const char *>(batch.targets.data());
    executors_[size_t(worker)]->upload(targets_, aims + part * targets.bytes, size_t(targets.bytes));
}

void Trainer::run(int worker, const char *name, size_t &call) {
    const TraceSpan span("pass", name);
    const Executor::Line &line = executors_[size_t(worker)]->line(name);
    if (!watches_.empty()) return watches_[size_t(worker)].run(name);
    std::span<double> seconds;
    std::vector<double> unwanted;  // all workers run call by call; only the first one's times are kept
    if (profile_ && worker == 0) {
        if (profile_->size() < call + line.calls.size()) profile_->resize(call + line.calls.size());
        seconds = std::span(*profile_).subspan(call, line.calls.size());
    } else if (profile_) {
        seconds = unwanted = std::vector<double>(line.calls.size());
    }
    executors_[size_t(worker)]->run(line, seconds, busy_);
    call += line.calls.size();
}

/// Runs a plan whose calls are not timed.
void Trainer::run_all(int worker, const char *name) {
    const TraceSpan span("pass", name);
    if (!watches_.empty()) return watches_[size_t(worker)].run(name);
    executors_[size_t(worker)]->run(executors_[size_t(worker)]->line(name));
}

double Trainer::loss(int worker, int buffer) {
    float value = 0;
    executors_[size_t(worker)]->download(&value, buffer, sizeof value);
    return value;
}

/// The sum of `values_` over all processes, in a tree. A worker's parts are a branch of it.
double Trainer::sum_of_parts() {
    for (size_t w = 0; w < executors_.size(); w++)
        sums_[size_t(first()) + w] = tree_sum(std::span(values_).subspan(size_t(part_of(int(w), 0)), size_t(parts())));
    if (processes_.size() > 1) collectives_[0]->all_gather(sums_);
    return tree_sum(sums_);
}

std::vector<double> Trainer::of_all(double here) {
    std::vector<double> values(size_t(processes_.size()), here);
    if (processes_.size() > 1) collectives_[0]->all_gather(values);
    return values;
}

bool Trainer::any(bool here) {
    for (double v : of_all(here))
        if (v != 0) return true;
    return false;
}

double Trainer::step(const std::function<const Batch &()> &next, int accumulate) {
    const TraceSpan span("step", "step", int64_t(steps_) + 1);
    start_step(next, accumulate);
    while (unread_) read_step();
    return result_.loss;
}

const StepResult *Trainer::advance(const std::function<const Batch &()> &next, int accumulate) {
    const TraceSpan span("step", "step", int64_t(steps_) + 1);
    start_step(next, accumulate);
    return executor().device().runs_ahead() && unread_ == 1 ? nullptr : read_step();
}

const StepResult *Trainer::rest() { return unread_ ? read_step() : nullptr; }

void Trainer::start_step(const std::function<const Batch &()> &next, int accumulate) {
    set("step", double(steps_ + 1));
    set("loss_scale", 1.0 / accumulate / plan().batch_parts());
    const size_t terms = 1 + plan().terms.size();
    const int passes = parts() * accumulate;  // of each worker: all micro-batches of a part, then the next part
    Started &s = started_[steps_ % 2];
    s.losses.resize(executors_.size() * size_t(passes) * terms);
    const bool ahead = draw_ahead(next, accumulate);
    const Batch *batch = nullptr;
    size_t begun = 0;
    for (int pass = 0; pass < passes; pass++) {
        const int part = pass / accumulate, k = pass % accumulate;
        if (ahead)
            batch = &held_[size_t(k)];
        else if (part == 0)
            count(*(batch = &next()));
        size_t ended = 0;
        all([&](int w) {
            size_t call = begun;
            feed(w, *batch, part_of(w, part));
            tell_mean_weights(w, weights_);
            tell_mode(w, true, int64_t(k) * plan().batch_parts() + part_of(w, part));
            // Updates that were deferred to this pass still read the scalars of their own step.
            run(w, pending_ ? entry::deferred : entry::forward, call);
            if (pass == 0)
                executors_[size_t(w)]->upload(plan().find(Role::scalars), scalars_.data(),
                                              scalars_.size() * sizeof(double));
            run(w, plan().backward(k, accumulate), call);
            fetch_losses(w, &s.losses[size_t(w * passes + pass) * terms]);
            if (k == accumulate - 1) executors_[size_t(w)]->add_part(part);
            // There is no such plan where all updates are deferred to the next pass and there is nothing to add.
            if (pass == passes - 1 && plan().parts && executors_[size_t(w)]->has(entry::step))
                run(w, entry::step, call);
            if (w == 0) ended = call;
        });
        begun = ended;
        pending_ = false;
    }
    if (count_ >= 0) executor().fetch(s.updates.data(), count_, sizeof s.updates);
    if (scaler_ >= 0) fetch_loss_scaler(s.scaler);
    s.step = ++steps_, s.accumulate = accumulate;
    s.marks.clear();
    for (auto &e : executors_) s.marks.push_back(e->device().mark());
    unread_++;
    pending_ = executor().has(entry::deferred);
}

/// Reads the oldest step that is not read yet. Only here a step waits for its devices.
const StepResult *Trainer::read_step() {
    const Started &s = started_[(steps_ - uint64_t(unread_)) % 2];
    for (size_t w = 0; w < executors_.size(); w++) executors_[w]->device().await(s.marks[w]);
    unread_--;
    const uint64_t withheld = uint64_t(s.updates[1]);  // every worker withholds the same updates
    result_.step = s.step;
    result_.withheld_in_a_row = withheld == withheld_ ? 0 : result_.withheld_in_a_row + 1;
    withheld_ = withheld;
    result_.loss_scale = s.scaler.scale, result_.low_scale_in_a_row = uint64_t(s.scaler.steps[1]);
    result_.terms.resize(plan().terms.size());
    for (size_t t = 0; t < result_.terms.size(); t++) result_.terms[t] = mean_of(s, t + 1);
    result_.loss = mean_of(s, 0);
    return &result_;
}

void Trainer::fetch_losses(int worker, float *to) {
    executors_[size_t(worker)]->fetch(to, plan().loss, sizeof(float));
    for (const Plan::Term &t : plan().terms) executors_[size_t(worker)]->fetch(++to, t.buffer, sizeof(float));
}

/// The mean of the loss (term 0) or of a term, over a step's micro-batches and all parts of a batch.
double Trainer::mean_of(const Started &s, size_t term) {
    const size_t accumulate = size_t(s.accumulate), terms = 1 + plan().terms.size();
    std::ranges::fill(values_, 0.0);
    for (size_t i = 0; i * terms < s.losses.size(); i++)
        values_[size_t(part_of(0, 0)) + i / accumulate] += s.losses[i * terms + term];
    return sum_of_parts() / plan().batch_parts() / s.accumulate;
}

void Trainer::flush() {
    if (!pending_) return;
    all([&](int w) {
        run_all(w, entry::flush);
        executors_[size_t(w)]->device().finish();
    });
    pending_ = false;
}

}  // namespace cryolite
