// A layer that computes y = W x + b, in whatever way it is written, is a matrix product: it gets Linear's algorithm,
// and with it Linear's loops, layout, dialects and norms. A layer that declares a product but computes something else
// is refused. Convolutions are known by their class: a layer of another class is never recognised as one.

#include <algorithm>

#include "dsl/layers/convolution.h"
#include "dsl/layers/embedding.h"
#include "dsl/layers/linear.h"
#include "generators/passes/pipeline.h"
#include "schedules/table.h"

namespace cryolite::compiler {

namespace {

class FindProducts {
public:
    FindProducts(StepProgram &p, const Context &cx) : p(p), cx(cx), known(cx.known ? cx.known->products : here) {
        for (CallId c : p.calls.ids())
            if (concerns(c)) calls[p.calls[c].layer].push_back(c);
    }
    void run() {
        ask();
        for (const auto &[layer, list] : calls) {
            const std::optional<ComputedProduct> &found = known.at(signature(list[0]));
            if (!found) continue;  // it cannot be built; building its kernel reports the error
            if (found->holds)
                become(list, *found);
            else if (p.layers[layer].product)
                fail("[{}] {}: product() says y = W x + b, but {}; let product() return nothing and factored() false",
                     p.layers[layer].path, p.layers[layer].kind, found->witness);
        }
    }

private:
    StepProgram &p;
    const Context &cx;
    std::map<std::string, std::optional<ComputedProduct>> here, &known;
    std::map<LayerId, std::vector<CallId>> calls;

    /// Whether to ask about a layer: it has one input and a matrix, and either no loops are written for it, or it
    /// declares a product.
    bool concerns(CallId c) const {
        const Layer &l = p.source(c);
        if (dynamic_cast<const ProductOf *>(&l) || typeid(l) == typeid(Linear) || typeid(l) == typeid(TiedHead))
            return false;
        const auto &own = l.parameters();
        const auto of_rank = [&](int rank) {
            return std::ranges::count_if(own,
                                         [&](Parameter *w) { return w->shape().rank() == rank && !w->is_state(); });
        };
        const bool fits = own.size() <= 2 && of_rank(2) == 1 && size_t(of_rank(1)) + 1 == own.size();
        const bool has_own_loops = std::ranges::any_of(
            cx.schedule.loops_of, [&](const auto &loops) { return loops.first.first == typeid(l); });
        return fits && p.calls[c].inputs.size() == 1 && l.nature() == Nature::anchor && !has_own_loops &&
               (p.layer(c).product || !has_loops(l.kind(), cx.schedule.machine)) &&
               p.graph.values()[size_t(p.calls[c].inputs[0].index)].type.is_float();
    }
    const Shape &input(CallId c) const { return p.values[p.calls[c].inputs[0]].shape; }
    /// A layer has one algorithm for all of its calls.
    std::string signature(CallId c) const { return fmt::format("{} {}", p.layer_key(c), input(c).str()); }

    void ask() {
        std::vector<std::string> fresh;
        std::vector<AskedLayer> asked;
        for (const auto &[layer, list] : calls)
            if (const std::string s = signature(list[0]); !known.count(s))
                fresh.push_back(s), asked.push_back({&p.source(list[0]), input(list[0])});
        if (asked.empty()) return;
        const auto answers = cx.products(asked);
        for (size_t k = 0; k < fresh.size(); k++) known[fresh[k]] = answers.at(k);
    }
    void become(const std::vector<CallId> &list, const ComputedProduct &found) {
        Layer &of = p.source(list[0]);
        auto parameter = [&](int k) { return k < 0 ? nullptr : of.parameters()[size_t(k)]; };
        Parameter *w = parameter(found.weight), *b = parameter(found.bias);
        Layer &product = p.graph.own(std::make_unique<ProductOf>(of, *w, b, found.in_innermost));
        const LayerId id = p.calls[list[0]].layer;
        p.layer_ids[&product] = id;
        ir::Layer &l = p.layers[id];
        auto id_of = [&](Parameter *w) { return w ? p.parameter_ids.at(w) : ParamId(); };
        l.product = {id_of(w), id_of(b), found.in_innermost ? 1 : 0};
        l.by_rows = true, l.factored = {id_of(w)}, l.parameters = {id_of(w)};
        if (b) l.parameters.push_back(id_of(b));
        for (CallId c : list) {
            p.graph.redo(c.index, product, {p.calls[c].inputs[0].index});
            ir::Call &call = p.calls[c];
            call.flops = product.flops(input(c));
            call.input_grad_flops = call.param_grad_flops = call.flops;
            call.input_ranks = {2}, call.output_rank = 2;
            for (OpId op : p.ops.ids())
                if (const auto *f = ir::as<ir::Forward>(p.ops[op]); f && f->call == c) p.ops[op].flops = call.flops;
        }
    }
};

void take_convolutions(StepProgram &p) {
    for (CallId c : p.calls.ids()) {
        const Layer &l = p.source(c);
        if (typeid(l) != typeid(Conv2D)) continue;  // what derives from it may compute anything else
        const auto &conv = static_cast<const Conv2D &>(l);
        p.layers[p.calls[c].layer].product = {
            p.parameter_ids.at(&conv.W), conv.b ? p.parameter_ids.at(&*conv.b) : ParamId(), 0,
            ir::Layer::Window{conv.size, conv.window.stride, conv.window.padding, conv.window.dilation, conv.groups}};
    }
}

}  // namespace

void find_products(StepProgram &p, const Context &cx) {
    take_convolutions(p);
    if (cx.products) FindProducts(p, cx).run();
}

}  // namespace cryolite::compiler
