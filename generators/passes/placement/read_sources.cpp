// A cheap value that is never stored is computed again in each kernel that reads it. So its readers also read the
// inputs of that computation. The pass `fuse` leaves no value unstored whose inputs are gone by then.

#include <algorithm>

#include "generators/passes/placement/memory.h"
#include "generators/passes/pipeline.h"

namespace cryolite::compiler {

namespace {

/// The call that the readers of a value compute for themselves; none: the value is stored, or too expensive for that.
CallId computed_by_readers(const StepProgram &p, ValueId v) {
    const ir::Value &value = p.values[v];
    if (value.stored || value.role != ir::Role::activation || !value.producer) return {};
    return p.layer(value.producer).nature == Nature::anchor ? CallId() : value.producer;
}

class ReadSources {
public:
    explicit ReadSources(StepProgram &p) : p(p), forward(size_t(p.calls.size())), writer(size_t(p.values.size())) {
        for (OpId id : p.ops.ids())
            if (auto *f = ir::as<ir::Forward>(p.ops[id]); f && f->when != ir::Forward::remat)
                forward[size_t(f->call.index)] = id;
    }
    void run(const ir::Entry &e) {
        std::ranges::fill(writer, KernelId());
        for (OpId id : e.ops)
            for (const ir::Ref &w : p.ops[id].writes) writer[size_t(w.value.index)] = p.ops[id].kernel;
        for (OpId id : e.ops) add_sources(p.ops[id]);
    }

private:
    StepProgram &p;
    std::vector<OpId> forward;     ///< by call
    std::vector<KernelId> writer;  ///< by value, in this entry

    void add_sources(ir::Op &op) {
        for (size_t i = 0; i < op.reads.size(); i++) {
            const ValueId v = op.reads[i].value;
            const CallId c = computed_by_readers(p, v);
            if (const KernelId w = writer[size_t(v.index)]; !c || (w && w == op.kernel)) continue;
            for (const ir::Ref &r : p.ops[forward[size_t(c.index)]].reads)
                if (std::ranges::find(op.reads, r.value, &ir::Ref::value) == op.reads.end()) op.reads.push_back(r);
        }
    }
};

}  // namespace

void read_sources(StepProgram &p, const Context &) {
    ReadSources pass(p);
    for (auto &[name, entry] : p.entries) pass.run(entry);
    for (auto &[name, entry] : p.entries) number_versions(p, entry);
}

std::set<ValueId> sources_of_unstored(const StepProgram &p) {
    std::set<ValueId> sources;
    for (const ir::Op &op : p.ops)
        if (ir::is<ir::Forward>(op) && computed_by_readers(p, op.writes[0].value))
            for (const ir::Ref &r : op.reads) sources.insert(p.base(r.value));
    return sources;
}

}  // namespace cryolite::compiler
