#include "generators/checks/check.h"

#include <set>

#include "dsl/scores.h"
#include "dsl/traced_model.h"
#include "generators/checks/gradient_check.h"

namespace cryolite::compiler {

namespace {

constexpr double tolerance_of_float64 = 1e-6;

/// The shapes of a call's inputs, with fewer rows: the outermost extent is cut to `outer`, those between it and the
/// channels to `inner`. The rows that are left out would only repeat the same computation.
std::vector<Shape> cut(const Graph &g, const Graph::Call &c, int outer, int inner) {
    std::vector<Shape> shapes;
    for (int k = 0; k < int(c.inputs.size()); k++) {
        const Graph::Value &value = g.values()[size_t(c.inputs[size_t(k)])];
        Shape s = value.shape;
        if (!c.layer->has_rows(k)) {
            shapes.push_back(s);
            continue;
        }
        int channels = value.type.is_float() ? 1 : 0;
        for (int d = channels; d < s.rank(); d++) s = s.with(d, std::min(s[d], d == s.rank() - 1 ? outer : inner));
        shapes.push_back(s);
    }
    return shapes;
}

/// Whether the layer accepts these shapes in place of its inputs' own. A layer whose result does not become smaller was
/// made for its own shapes alone, unless its result is a single number.
bool accepts(const Graph &g, const Graph::Call &c, const std::vector<Shape> &shapes) {
    const Shape &result = g.values()[size_t(c.output)].shape;
    bool whole = true;
    for (size_t k = 0; k < shapes.size(); k++) whole &= shapes[k] == g.values()[size_t(c.inputs[k])].shape;
    try {
        return c.layer->shape(shapes) != result || whole || result.size() == 1;
    } catch (const std::exception &) {
        return false;
    }
}

/// Shapes small enough to be quick without a schedule; a layer that refuses all cut shapes is given its own.
std::vector<Shape> small_shapes(const Graph &g, const Graph::Call &c) {
    constexpr double enough = 2e7;
    constexpr int all = 1 << 30;
    const int cuts[][2] = {{3, 18}, {3, 3}, {3, all}, {all, all}};
    std::vector<Shape> fits;
    for (auto [outer, inner] : cuts) {
        std::vector<Shape> s = cut(g, c, outer, inner);
        if (!accepts(g, c, s)) continue;
        if (c.layer->flops(s[0]) <= enough) return s;
        if (fits.empty() || s[0].size() < fits[0].size()) fits = s;
    }
    return fits;
}

/// The bound below which a call's integers lie. They are indices: the bound is the number of rows of the table that
/// they select from, or the number of classes.
int bound_of_ids(const Graph &g, const Graph::Call &c) {
    for (const Parameter *w : c.layer->parameters()) return w->shape()[w->shape().rank() - 1];
    for (int v : c.inputs)
        if (g.values()[v].type.is_float()) return g.values()[v].shape[0];
    return 2;
}

LayerTester tester_of(const Graph &g, const Graph::Call &c) {
    LayerTester tester(*c.layer);
    std::vector<Shape> shapes = small_shapes(g, c);
    for (size_t k = 0; k < shapes.size(); k++) {
        const Graph::Value &value = g.values()[size_t(c.inputs[k])];
        if (g.is_mode(c.inputs[k]))
            tester.ids(shapes[k], 2, std::vector<double>(Graph::mode_words, 1));  // in training
        else if (!value.constant.empty())
            tester.input(shapes[k], {value.constant.begin(), value.constant.end()});
        else if (value.type.is_float())
            tester.input(shapes[k]);
        else
            tester.ids(shapes[k], bound_of_ids(g, c));
    }
    return tester;
}

/// Takes the first call of each algorithm. Of a type of layers whose algorithm cannot be built it takes the first call
/// alone; the check of that call reports the error.
class Distinct {
public:
    bool takes(const LayerTester &tester, const Layer &layer) {
        if (unbuilt.count(layer.kind())) return false;
        try {
            return seen.insert(tester.algorithm()).second;
        } catch (const Error &) {
            return unbuilt.insert(layer.kind()).second;
        }
    }

private:
    std::set<std::string> seen, unbuilt;
};

/// Prints a line for each gradient of one call. Returns whether all agree.
bool check_call(const Graph::Call &c, const LayerTester &tester) {
    bool ok = true;
    try {
        for (const GradientError &e : tester.check()) {
            bool good = e.differences <= tolerance_of_float64;
            fmt::print("{:<24} {:<16} {:<12} {:8.1e}  {}\n", c.layer->path, c.layer->kind(), e.name, e.differences,
                       good ? "ok" : "FAILED");
            ok &= good;
        }
    } catch (const Error &e) {
        const std::string said = e.what();
        const bool of_types = said.find("float64") != std::string::npos;
        fmt::print("{:<24} {:<16} {:<12} {:>8}  FAILED: {}{}\n", c.layer->path, c.layer->kind(), "", "", said,
                   of_types ? "; layers are checked in float64: write a number beside an array as cast(x.type(), 0)"
                            : "");
        ok = false;
    }
    std::fflush(stdout);
    return ok;
}

}  // namespace

int check_gradients(Model &model) {
    const TracedModel traced_model = traced(model);
    const Graph &g = traced_model.graph;
    check_scores(model, g, traced_model.targets);
    Distinct distinct;
    int checked = 0, failed = 0;
    for (const Graph::Call &c : g.calls())
        if (const LayerTester tester = tester_of(g, c); distinct.takes(tester, *c.layer))
            checked++, failed += !check_call(c, tester);
    fmt::print("{} distinct layers, {}\n", checked,
               failed ? fmt::format("{} FAILED", failed) : "all gradients agree with finite differences");
    return failed ? 1 : 0;
}

}  // namespace cryolite::compiler
