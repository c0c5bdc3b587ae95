#include "generators/passes/entry_view.h"

#include <algorithm>

namespace cryolite::compiler {

EntryView::EntryView(StepProgram &p, const std::string &name)
    : p(p), name(name), entry(p.entries.at(name)), writer_(size_t(p.values.size())), readers_(size_t(p.values.size())),
      place_(size_t(p.ops.size()), -1) {
    int n = 0;
    for (OpId id : entry.ops) {
        const ir::Op &op = p.ops[id];
        place_[size_t(id.index)] = n++;
        for (const ir::Ref &w : op.writes) writer_[size_t(p.base(w.value).index)] = id;
        for (const ir::Ref &r : op.reads)
            if (auto &list = readers_[size_t(p.base(r.value).index)]; list.empty() || list.back() != id)
                list.push_back(id);
        if (auto *f = ir::as<ir::Forward>(op)) forward_[p.calls[f->call].layer].push_back({id, f->call});
    }
    for (OpId id : entry.ops)
        if (auto use = ir::use_of(p.ops[id])) {
            auto &list = adjoint_[p.calls[use->call].layer];
            if (OpId w = writer(use->dy)) list.push_back({w, use->call});
        }
}

std::vector<OpId> EntryView::named(const ir::Stage &stage) const {
    if (stage.kind != ir::Stage::value && stage.kind != ir::Stage::adjoint) return {};
    const auto &of = stage.kind == ir::Stage::value ? forward_ : adjoint_;
    std::vector<OpId> list;
    if (auto it = of.find(stage.layer); it != of.end())
        for (const Made &m : it->second)
            if ((!stage.call || p.number_of(m.call).first == stage.call) && !std::ranges::count(list, m.by))
                list.push_back(m.by);
    return list;
}

OpId EntryView::mate(OpId id, Nature n) const {
    OpId found;
    for (OpId other : mates(id))
        if (p.nature(p.ops[other]) == n && (!found || place(other) < place(found))) found = other;
    return found;
}

void EntryView::fuse_into(OpId id, OpId into, const std::string &how) {
    p.ops[id].placed = how + " " + p.ops[into].name;
    const KernelId from = p.ops[id].kernel, to = p.ops[into].kernel;
    if (from == to) return;
    for (OpId op : p.kernels[from].ops) p.ops[op].kernel = to, p.kernels[to].ops.push_back(op);
    p.kernels[from].ops.clear();
}

bool EntryView::feeds(OpId writer, OpId reader) const {
    for (const ir::Ref &r : p.ops[reader].reads)
        for (const ir::Ref &w : p.ops[writer].writes)
            if (p.base(r.value) == p.base(w.value)) return true;
    return false;
}

ValueId EntryView::overlap(OpId writer, OpId reader) const {
    for (const ir::Ref &r : p.ops[reader].reads)
        for (const ir::Ref &w : p.ops[writer].writes)
            if (r.value != w.value && p.base(r.value) == p.base(w.value)) return r.value;
    return {};
}

OpId EntryView::between(KernelId one, KernelId other) const {
    const OpId op = on_path(one, other);
    return op ? op : on_path(other, one);
}

OpId EntryView::on_path(KernelId from, KernelId to) const {
    std::vector<bool> seen(size_t(p.kernels.size()));
    struct Reached {
        KernelId kernel;
        OpId first;  ///< the first operation of a third kernel on the path to it
    };
    std::vector<Reached> list = {{from, {}}};
    seen[size_t(from.index)] = true;
    for (size_t i = 0; i < list.size(); i++) {
        const Reached now = list[i];
        for (OpId id : p.kernels[now.kernel].ops)
            for (const ir::Ref &w : p.ops[id].writes)
                for (OpId r : readers(w.value)) {
                    const KernelId k = p.ops[r].kernel;
                    if (k == now.kernel || place(r) < place(id) || (k == to && !now.first)) continue;
                    if (k == to) return now.first;
                    if (!seen[size_t(k.index)]) list.push_back({k, now.first ? now.first : r});
                    seen[size_t(k.index)] = true;
                }
    }
    return {};
}

}  // namespace cryolite::compiler
