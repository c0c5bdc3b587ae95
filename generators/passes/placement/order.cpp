// The order of an entry's kernels: all is written before it is read, and what the caches still hold is used soon.

#include <algorithm>

#include "generators/passes/entry_view.h"
#include "generators/passes/pipeline.h"

namespace cryolite::compiler {

namespace {

class Order {
public:
    Order(StepProgram &p, const std::string &entry)
        : p(p), e(p, entry), after(size_t(p.kernels.size())), waits(after.size()) {
        for (OpId id : e.entry.ops) {
            const KernelId k = p.ops[id].kernel;
            std::ranges::sort(p.kernels[k].ops, {}, [&](OpId op) { return e.place(op); });
            if (p.kernels[k].ops[0] == id) kernels.push_back(k);
        }
    }
    /// Kahn's algorithm; among kernels that are ready, the one whose priority comes first.
    void run() {
        add_dependences();
        count_weights_read();
        std::set<std::pair<double, KernelId>> ready;
        std::map<KernelId, double> priorities;
        for (KernelId k : kernels)
            if (priorities[k] = priority(p.kernels[k].ops); !waits[size_t(k.index)]) ready.insert({priorities[k], k});
        while (!ready.empty()) {
            const KernelId k = ready.begin()->second;
            ready.erase(ready.begin());
            e.entry.kernels.push_back(k);
            for (KernelId later : after[size_t(k.index)])
                if (!--waits[size_t(later.index)]) ready.insert({priorities[later], later});
        }
        if (e.entry.kernels.size() < kernels.size()) fail_cycle();
        e.entry.ops.clear();
        for (KernelId k : e.entry.kernels) {
            describe(p.kernels[k]);
            e.entry.ops.insert(e.entry.ops.end(), p.kernels[k].ops.begin(), p.kernels[k].ops.end());
        }
    }

private:
    StepProgram &p;
    EntryView e;
    std::vector<KernelId> kernels;  ///< in the order of their first operations
    std::vector<std::set<KernelId>> after;
    std::vector<int> waits;
    std::vector<std::pair<double, int64_t>> weights_read;  ///< a place, and bytes that input gradients read up to it

    [[noreturn]] void fail_cycle() const {
        auto stuck = std::ranges::find_if(kernels, [&](KernelId k) { return waits[size_t(k.index)] > 0; });
        fail("the step schedule fuses '{}' into a kernel of which one stage must run before another kernel, and one "
             "after it; place one of the two with compute_root()",
             p.ops[p.kernels[*stuck].ops[0]].name);
    }
    void add(const std::vector<OpId> &earlier, OpId later) {
        const KernelId t = p.ops[later].kernel;
        for (OpId s : earlier)
            if (const KernelId k = p.ops[s].kernel; k != t)
                waits[size_t(t.index)] += after[size_t(k.index)].insert(t).second;
    }
    /// An operation runs after the operations that write what it reads. One that writes a new version of a state runs
    /// after all readers of the old version.
    void add_dependences() {
        // States that are parts of one array share no element.
        auto array = [&](ValueId v) { return p.values[v].is_state() ? v : p.base(v); };
        std::map<ValueId, std::vector<OpId>> wrote, read;
        for (OpId t : e.entry.ops) {
            const ir::Op &op = p.ops[t];
            for (const ir::Ref &r : op.reads) add(wrote[array(r.value)], t);
            for (const ir::Ref &w : op.writes)
                if (p.values[w.value].is_state()) add(read[w.value], t), add(wrote[w.value], t);
            for (const ir::Ref &r : op.reads) read[array(r.value)].push_back(t);
            for (const ir::Ref &w : op.writes) wrote[array(w.value)].push_back(t);
        }
    }
    /// Bytes of the weights that gradients of inputs read, up to and with the operation at each place.
    void count_weights_read() {
        int64_t all = 0;
        for (OpId id : e.entry.ops) {
            if (!ir::is<ir::InputGrad>(p.ops[id])) continue;
            for (const ir::Ref &r : p.ops[id].reads)
                if (p.values[r.value].role == ir::Role::parameter) all += p.values[r.value].bytes();
            weights_read.emplace_back(e.place(id), all);
        }
    }
    /// The priority of a fused update whose operands are ready at `place`: after the gradients of other inputs have
    /// read so much that its weight, which all cores have just read, is in no core's cache any more. A core that writes
    /// a line which is in another core's cache has to wait for it, longest where the two share no cache. A model that
    /// fits into caches keeps its order.
    double out_of_caches(double place) const {
        constexpr int64_t far = 64 << 20;
        if (weights_read.empty() || weights_read.back().second <= far) return place;
        const auto later = std::ranges::upper_bound(weights_read, place, {}, &std::pair<double, int64_t>::first);
        const int64_t before = later == weights_read.begin() ? 0 : std::prev(later)->second;
        const auto enough =
            std::ranges::upper_bound(later, weights_read.end(), before + far, {}, &std::pair<double, int64_t>::second);
        return std::max(place, (enough == weights_read.end() ? weights_read.back() : *enough).first + 0.5);
    }
    /// The priority of a kernel, as a place in the entry: that of its last operation. Norms, fused updates of small
    /// models and updates of a worker's shard have the place right after their operands are made, while those are in
    /// the cache. Between GPUs a gradient is being transferred then, so other kernels run meanwhile.
    double priority(const std::vector<OpId> &list) const {
        const bool between_gpus = p.workers > 1 && p.schedule->machine.gpu();
        bool soon = false, in_product = false;
        double last = 0, made = 0;
        for (OpId id : list) {
            const ir::Op &op = p.ops[id];
            soon |= ir::is<ir::Norm>(op) || (ir::is<ir::Update>(op) && (list.size() > 1 || p.workers > 1));
            in_product |= ir::is<ir::ParamGrad>(op);
            last = std::max<double>(last, e.place(id));
            for (const ir::Ref &r : op.reads)
                if (OpId w = e.writer(r.value); w && !std::ranges::count(list, w))
                    made = std::max(made, e.place(w) + 0.5);
        }
        if (!soon || between_gpus) return last;
        return in_product ? out_of_caches(made) : made;
    }
    void describe(ir::Kernel &k) {
        for (OpId id : k.ops) {
            const ir::Op &op = p.ops[id];
            auto *f = ir::as<ir::Forward>(op);
            const bool update = ir::is<ir::Update>(op) || ir::is<ir::Norm>(op) || ir::is<ir::GradientScale>(op) ||
                                ir::is<ir::NextState>(op) || ir::is<ir::NextLossScale>(op);
            k.pass = f && f->when == ir::Forward::remat ? "rematerialise"
                     : f                                ? "forward"
                     : update                           ? "update"
                                                        : "backward";
            k.name += (k.name.empty() ? "" : " + ") + op.name;
        }
        if (p.joins_updates(k)) k.name = name_of_several(p.ops[k.ops.back()].name, k.ops.size());
        choose_anchor(k);
    }
    /// The first operation that owns a loop nest, else the first that needs whole rows.
    void choose_anchor(ir::Kernel &k) {
        for (OpId id : k.ops) {
            const Nature n = p.nature(p.ops[id]);
            const bool row = n == Nature::rowwise && !k.anchor;
            const bool own = n == Nature::anchor && (!k.anchor || p.nature(p.ops[k.anchor]) == Nature::rowwise);
            if (row || own) k.anchor = id;
        }
        for (OpId id : k.ops)
            if (id != k.anchor && p.nature(p.ops[id]) == Nature::anchor) k.side_products.push_back(id);
    }
};

}  // namespace

void order_kernels(StepProgram &p, const Context &) {
    ir::Table<ir::Kernel, KernelId> kernels;
    for (auto &[name, entry] : p.entries) Order(p, name).run();
    for (auto &[name, entry] : p.entries)
        for (KernelId &k : entry.kernels) {
            k = kernels.add(p.kernels[k]);
            for (OpId id : kernels[k].ops) p.ops[id].kernel = k;
        }
    p.kernels = kernels;
}

}  // namespace cryolite::compiler
