#include "generators/lowering/ranks.h"

namespace cryolite::compiler {

namespace {

class Ranks {
public:
    Ranks(const StepProgram &p, const ir::Kernel &k) : p(p), k(k) {}

    std::map<ValueId, int> run() {
        for (OpId id : k.ops) require(p.ops[id]);
        for (size_t n = 0; n <= k.ops.size(); n++)
            for (OpId id : k.ops) spread(p.ops[id], false);
        for (OpId id : k.ops) spread(p.ops[id], true);
        // Values that are computed again here are seen as their own layers see them.
        for (int c = p.calls.size(); c-- > 0;)
            if (const ValueId v = p.calls[CallId(c)].output; !p.values[v].stored && rank.count(v)) {
                const ir::Op again = again_here(p, k, CallId(c));
                require(again);
                spread(again, true);
            }
        return rank;
    }

private:
    const StepProgram &p;
    const ir::Kernel &k;
    std::map<ValueId, int> rank;

    struct Seen {
        ValueId value;
        int rank;
    };
    void add_call(std::vector<Seen> &list, const ir::Op &op, CallId c) const {
        const auto &inputs = p.calls[c].inputs;
        for (int j = 0; j < int(inputs.size()); j++)
            list.push_back({p.operand(op, inputs[size_t(j)]), p.source(c).input_rank(j)});
    }
    std::vector<Seen> seen(const ir::Op &op) const {
        std::vector<Seen> list;
        if (auto *s = ir::as<ir::AddAdjoints>(op)) {
            for (ValueId v : s->addends) list.push_back({v, 0});
            list.push_back({op.writes[0].value, 0});
        }
        const auto c = ir::call_of(op);
        if (!c) return list;
        add_call(list, op, *c);
        const int out = p.source(*c).output_rank();
        list.push_back({p.operand(op, p.calls[*c].output), out});
        if (auto use = ir::use_of(op); use && use->dy != p.scalars) list.push_back({use->dy, out});
        if (auto *n = ir::as<ir::Norm>(op))
            if (auto *gram = std::get_if<ir::Gram>(&n->how)) {
                add_call(list, op, gram->b.call);
                list.push_back({gram->b.dy, p.source(gram->b.call).output_rank()});
            }
        if (auto *g = ir::as<ir::InputGrad>(op)) {
            const int in = p.source(*c).input_rank(g->input);
            list.push_back({op.writes[0].value, in});
            for (ValueId v : g->addends) list.push_back({v, in});
        }
        return list;
    }
    void require(const ir::Op &op) {
        for (const Seen &s : seen(op)) {
            if (!s.rank) continue;
            int &known = rank[s.value];
            if (known && known != s.rank)
                fail("'{}' cannot share a kernel: it sees '{}' in {} dimensions, its neighbour in {}; compute it at "
                     "root",
                     op.name, p.values[s.value].name, s.rank, known);
            known = s.rank;
        }
    }
    void spread(const ir::Op &op, bool decide) {
        int r = 0;
        for (const Seen &s : seen(op))
            if (!s.rank && rank.count(s.value)) r = std::max(r, rank[s.value]);
        if (!r && decide) r = 2;
        if (!r) return;
        for (const Seen &s : seen(op))
            if (!s.rank && !rank.count(s.value)) rank[s.value] = r;
    }
};

}  // namespace

std::map<ValueId, int> kernel_ranks(const StepProgram &p, const ir::Kernel &k) { return Ranks(p, k).run(); }

ir::Op again_here(const StepProgram &p, const ir::Kernel &k, CallId c) {
    const ir::Op &first = p.ops[k.ops[0]];
    ir::Op op{.name = p.layer(c).path,
              .kind = ir::Forward{c, ir::in_backward(first) ? ir::Forward::in_backward : ir::Forward::in_forward}};
    op.writes = {{p.calls[c].output}};
    return op;
}

}  // namespace cryolite::compiler
