#include "generators/ir/ranks.h"

#include <fmt/format.h>

namespace cryolite::ir {

namespace {

class Ranks {
public:
    Ranks(const Program &p, const Kernel &k) : p(p), k(k) {}

    std::map<ValueId, int> run() {
        for (OpId id : k.ops) require(p.ops[id]);
        for (size_t n = 0; n <= k.ops.size(); n++)
            for (OpId id : k.ops) spread(p.ops[id], false);
        for (OpId id : k.ops) spread(p.ops[id], true);
        // Values that this kernel computes again have the ranks in which their own layers see them.
        for (int c = p.calls.size(); c-- > 0;)
            if (const ValueId v = p.calls[CallId(c)].output; !p.values[v].stored && rank.count(v)) {
                const Op again = again_here(p, k, CallId(c));
                require(again);
                spread(again, true);
            }
        return rank;
    }

private:
    const Program &p;
    const Kernel &k;
    std::map<ValueId, int> rank;

    struct Seen {
        ValueId value;
        int rank;
    };
    void add_call(std::vector<Seen> &list, const Op &op, CallId c) const {
        const auto &inputs = p.calls[c].inputs;
        for (int j = 0; j < int(inputs.size()); j++)
            list.push_back({p.operand(op, inputs[size_t(j)]), p.calls[c].input_ranks[size_t(j)]});
    }
    std::vector<Seen> seen(const Op &op) const {
        std::vector<Seen> list;
        if (auto *s = as<AddAdjoints>(op)) {
            for (ValueId v : s->addends) list.push_back({v, 0});
            list.push_back({op.writes[0].value, 0});
        }
        const auto c = call_of(op);
        if (!c) return list;
        add_call(list, op, *c);
        const int out = p.calls[*c].output_rank;
        list.push_back({p.operand(op, p.calls[*c].output), out});
        if (auto use = use_of(op); use && use->dy != p.scalars) list.push_back({use->dy, out});
        if (auto *n = as<Norm>(op))
            if (auto *gram = std::get_if<Gram>(&n->how)) {
                add_call(list, op, gram->b.call);
                list.push_back({gram->b.dy, p.calls[gram->b.call].output_rank});
            }
        if (auto *g = as<InputGrad>(op)) {
            const int in = p.calls[*c].input_ranks[size_t(g->input)];
            list.push_back({op.writes[0].value, in});
            for (ValueId v : g->addends) list.push_back({v, in});
        }
        return list;
    }
    void require(const Op &op) {
        for (const Seen &s : seen(op)) {
            if (!s.rank) continue;
            int &known = rank[s.value];
            if (known && known != s.rank) throw RanksDiffer(op.name, p.values[s.value].name, s.rank, known);
            known = s.rank;
        }
    }
    void spread(const Op &op, bool decide) {
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

RanksDiffer::RanksDiffer(const std::string &op, const std::string &value, int here, int there)
    : Error(fmt::format("'{}' cannot share a kernel: it sees '{}' in {} dimensions, and another stage of the kernel in "
                        "{}; place it with compute_root()",
                        op, value, here, there)),
      op(op), value(value), here(here), there(there) {}

std::map<ValueId, int> kernel_ranks(const Program &p, const Kernel &k) { return Ranks(p, k).run(); }

Op again_here(const Program &p, const Kernel &k, CallId c) {
    const Op &first = p.ops[k.ops[0]];
    Op op{.name = p.layer(c).path, .kind = Forward{c, in_backward(first) ? Forward::in_backward : Forward::in_forward}};
    op.writes = {{p.calls[c].output}};
    return op;
}

}  // namespace cryolite::ir
