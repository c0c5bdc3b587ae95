#include "generators/ranks.h"

#include "generators/partition.h"

namespace cryolite::compiler {

namespace {

class Ranks {
public:
    Ranks(const StepProgram &p, const Kernel &k) : p(p), k(k) {}

    std::map<int, int> run() {
        for (int s : k.stages) require(p.stages[s]);
        for (size_t n = 0; n <= k.stages.size(); n++)
            for (int s : k.stages) spread(p.stages[s], false);
        for (int s : k.stages) spread(p.stages[s], true);
        // Values that are rebuilt here are seen as their own layers see them.
        for (int v = int(p.value_buffer.size()) - 1; v >= 0; v--)
            if (p.value_writer[v] >= 0 && !p.buffers[p.value_buffer[v]].stored && rank.count(p.value_buffer[v])) {
                require(p.stages[p.value_writer[v]]);
                spread(p.stages[p.value_writer[v]], true);
            }
        return rank;
    }

private:
    const StepProgram &p;
    const Kernel &k;
    std::map<int, int> rank;

    struct Use {
        int buffer, rank;
    };
    std::vector<Use> uses(const StageSpec &s) const {
        std::vector<Use> list;
        if (s.part == Part::sum) {
            for (int b : s.addends) list.push_back({b, 0});
            list.push_back({s.writes[0], 0});
        }
        if (s.call < 0) return list;
        const Graph::Call &c = p.graph.calls()[s.call];
        for (int j = 0; j < int(c.inputs.size()); j++)
            list.push_back({p.seen(s, c.inputs[j]), c.layer->input_rank(j)});
        list.push_back({p.seen(s, c.output), c.layer->output_rank()});
        if (s.dy >= 0 && s.dy != p.scalars) list.push_back({s.dy, c.layer->output_rank()});
        if (s.call2 >= 0) {
            const Graph::Call &o = p.graph.calls()[s.call2];
            for (int j = 0; j < int(o.inputs.size()); j++)
                list.push_back({p.seen(s, o.inputs[j]), o.layer->input_rank(j)});
            list.push_back({s.dy2, o.layer->output_rank()});
        }
        if (s.part == Part::d_input) {
            list.push_back({s.writes[0], c.layer->input_rank(s.index)});
            for (int b : s.addends) list.push_back({b, c.layer->input_rank(s.index)});
        }
        return list;
    }
    void set(const StageSpec &s, int buffer, int r) {
        int &known = rank[buffer];
        if (known && known != r)
            fail("'{}' cannot share a kernel: it sees '{}' in {} dimensions, its neighbour in {}; compute it at root",
                 s.name, p.buffers[buffer].name, r, known);
        known = r;
    }
    void require(const StageSpec &s) {
        for (const Use &u : uses(s))
            if (u.rank) set(s, u.buffer, u.rank);
    }
    void spread(const StageSpec &s, bool decide) {
        int r = 0;
        for (const Use &u : uses(s))
            if (!u.rank && rank.count(u.buffer)) r = std::max(r, rank[u.buffer]);
        if (!r && decide) r = 2;
        if (!r) return;
        for (const Use &u : uses(s))
            if (!u.rank && !rank.count(u.buffer)) rank[u.buffer] = r;
    }
};

}  // namespace

std::map<int, int> kernel_ranks(const StepProgram &p, const Kernel &k) { return Ranks(p, k).run(); }

}  // namespace cryolite::compiler
