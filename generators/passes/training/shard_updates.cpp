// With several workers, each updates its shards of the parameters and computes their norms. Every norm gets its slot.

#include <algorithm>

#include "generators/passes/pipeline.h"

namespace cryolite::compiler {

namespace {

constexpr int64_t worth = 8192;    // elements of a shard: about a microsecond of adding
constexpr int64_t alignment = 64;  // of kernels' arguments, in elements, which have 2 bytes or more

/// Cuts a large parameter into equal shards. A small one is not worth so many messages: it goes whole to the worker
/// that has least. Where a batch has parts, there are as many shards as parts, so that the shards and their norms are
/// the same for any number of workers.
void divide(StepProgram &p) {
    const int pieces = p.parts ? p.parts : p.workers;
    std::vector<int64_t> load(size_t(p.workers));
    for (ParamId id : p.trained()) {  // in the order of the trace, which is the same in every process
        ir::Parameter &w = p.parameters[id];
        const int64_t n = p.values[w.value].storage().size();
        const int64_t each = (n / pieces + alignment - 1) / alignment * alignment;
        if (each < worth) {
            const auto least = std::ranges::min_element(load);
            w.shards = {{int(least - load.begin()), 0, n}};
            *least += n;
            continue;
        }
        for (int k = 0; k < pieces; k++) {
            const int64_t begin = k * each, end = k + 1 < pieces ? begin + each : n;
            const int owner = k * p.workers / pieces;
            w.shards.push_back({owner, begin, end - begin});
            load[size_t(owner)] += end - begin;
        }
    }
}

void set_shard(ir::Op &op, const ir::Shard &shard) {
    if (auto *n = ir::as<ir::Norm>(op)) n->shard = shard;
    if (auto *u = ir::as<ir::Update>(op)) u->shard = shard;
}

/// Makes a norm and an update for each shard.
void shard(StepProgram &p) {
    std::vector<OpId> ops;
    for (OpId id : p.entries.at(entry::step).ops) {
        ops.push_back(id);
        if (!ir::is<ir::Norm>(p.ops[id]) && !ir::is<ir::Update>(p.ops[id])) continue;
        const auto &shards = p.parameters[ir::parameter_of(p.ops[id])].shards;
        for (size_t k = 1; k < shards.size(); k++) {
            ir::Op op = p.ops[id];
            set_shard(op, shards[k]);
            ops.push_back(p.ops.add(op));
        }
        set_shard(p.ops[id], shards[0]);
    }
    p.entries.at(entry::step).ops = ops;
}

/// Gives each norm its entry in the array of norms. Norms of gradients come first.
void number_norms(StepProgram &p, const Machine &m) {
    if (m.gpu()) p.norms_apart = m.alignment / ir::float64.bytes();
    int slots = 0;
    for (OpId id : ops_of(p, entry::step))
        if (auto *n = ir::as<ir::Norm>(p.ops[id])) {
            ir::Parameter &w = p.parameters[n->w];
            auto &of = n->of_weight() ? w.weight_norm : w.gradient_norm;
            if (of.count++ == 0) of.first = slots;
            n->slot = slots;
            slots += p.norms_apart;
            if (!n->of_weight()) p.gradient_norms = slots;
        }
    if (slots) p.values[p.norms].shape = {slots};
}

}  // namespace

void shard_updates(StepProgram &p, const Context &cx) {
    if (p.workers > 1 || p.parts) divide(p), shard(p);
    number_norms(p, cx.schedule.machine);
    for (auto &[name, entry] : p.entries) number_versions(p, entry);
}

}  // namespace cryolite::compiler
