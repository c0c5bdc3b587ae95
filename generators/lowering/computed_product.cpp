#include "generators/lowering/computed_product.h"

#include <algorithm>
#include <deque>

#include "generators/lowering/sum_of_products.h"

namespace cryolite::compiler {

namespace {

using Indices = std::vector<std::string>;

/// Builds a layer on arrays that stand for its own, and recognises its sums.
class ProductFinder {
public:
    ProductFinder(Layer &layer, const Shape &input) : layer(layer) {
        const Shape out = layer.shape(std::vector<Shape>{input});
        x = array("x", input.folded(layer.input_rank(0) ? layer.input_rank(0) : input.rank()));
        const int out_rank = layer.output_rank() ? layer.output_rank() : out.rank();
        y = array("y", out.folded(out_rank)), dy = array("dy", out.folded(out_rank));
        for (Parameter *w : layer.parameters()) {
            weights.push_back(array(w->symbol(), w->shape()));
            w->bind(weights.back());
        }
    }
    ComputedProduct find() {
        const Func made = layer.forward({x});
        if (!take_forward(sum(made, y.shape))) return no("its result is no sum of W(o, i) x(i, r), plus b(o)");
        ::cryolite::Call call{{x}, y};
        const std::map<std::string, Func> d = layer.gradient(call, dy);
        auto gradient = [&](const std::string &of) {
            const auto at = d.find("d_" + of);
            return at == d.end() ? Func() : at->second;
        };
        auto of_parameter = [&](int k) { return gradient(layer.parameters()[size_t(k)]->name()); };
        if (!is_of_input(sum(gradient(x.name()), x.shape)))
            return no("the gradient of its input is no sum of W(o, i) dy(o, r)");
        const std::string weight_name = layer.parameters()[size_t(found.weight)]->path();
        if (!is_of_weight(sum(of_parameter(found.weight), weight().shape)))
            return no("the gradient of " + weight_name + " is no sum of x(i, r) dy(o, r)");
        if (found.bias >= 0 && !is_of_bias(sum(of_parameter(found.bias), {y.extent(0)})))
            return no("the gradient of its bias is no sum of dy(o, r)");
        found.holds = true;
        return found;
    }

private:
    Layer &layer;
    Array x, y, dy;
    std::deque<Array> weights;
    std::set<std::string> names;
    ComputedProduct found;

    Array array(const std::string &name, const Shape &shape) {
        Halide::ImageParam image(Halide::Float(32), shape.rank());
        Func f(name);
        f(Halide::_) = image(Halide::_);
        names.insert(f.name());
        return Array(f, shape);
    }
    std::optional<SumOfProducts> sum(const Func &f, const Shape &shape) const {
        return sum_of_products(f, shape, names);
    }
    ComputedProduct no(std::string witness) { return {.witness = std::move(witness)}; }
    const Array &weight() const { return weights[size_t(found.weight)]; }
    int number_of(const std::string &array) const {
        const auto at = std::ranges::find_if(weights, [&](const Array &w) { return w.name() == array; });
        return at == weights.end() ? -1 : int(at - weights.begin());
    }
    static const ReadAt *factor(const SumOfProducts &s, const std::string &array) {
        const auto at = std::ranges::find(s.factors, array, &ReadAt::array);
        return at == s.factors.end() ? nullptr : &*at;
    }
    static Indices rest(const Indices &p) { return {p.begin() + 1, p.end()}; }
    /// Whether the sum's only loop is over this variable, from 0 to this extent.
    static bool only_loop(const SumOfProducts &s, const std::string &variable, int extent) {
        return s.loops.size() == 1 && s.loops.count(variable) && s.loops.at(variable) == extent;
    }

    bool take_forward(const std::optional<SumOfProducts> &s) {
        if (!s || s->factors.size() != 2) return false;
        const ReadAt *of_x = factor(*s, x.name()), *of_w = of_x == &s->factors[0] ? &s->factors[1] : &s->factors[0];
        found.weight = of_x ? number_of(of_w->array) : -1;
        if (found.weight < 0 || of_w->at.size() != 2 || rest(of_x->at) != rest(s->place)) return false;
        const std::string &in = of_x->at[0], &out = s->place[0];
        if (!only_loop(*s, in, x.extent(0))) return false;
        found.in_innermost = of_w->at == Indices{in, out};
        if (!found.in_innermost && of_w->at != Indices{out, in}) return false;
        const Shape expected = found.in_innermost ? Shape{x.extent(0), y.extent(0)} : Shape{y.extent(0), x.extent(0)};
        if (weight().shape != expected) return false;
        const bool all_used = layer.parameters().size() == (s->first ? 2u : 1u);
        if (!s->first) return all_used;
        found.bias = number_of(s->first->array);
        return all_used && found.bias >= 0 && found.bias != found.weight && s->first->at == Indices{out} &&
               weights[size_t(found.bias)].shape == Shape{y.extent(0)};
    }
    Indices of_weight(const std::string &out, const std::string &in) const {
        return found.in_innermost ? Indices{in, out} : Indices{out, in};
    }
    bool is_of_input(const std::optional<SumOfProducts> &s) const {
        if (!s || s->first || s->factors.size() != 2) return false;
        const ReadAt *of_w = factor(*s, weight().name()), *of_dy = factor(*s, dy.name());
        return of_w && of_dy && only_loop(*s, of_dy->at[0], y.extent(0)) && rest(of_dy->at) == rest(s->place) &&
               of_w->at == of_weight(of_dy->at[0], s->place[0]);
    }
    /// Whether the sum's loops are over all rows, by these variables, and over nothing else.
    bool all_rows(const SumOfProducts &s, const Indices &rows) const {
        bool all = s.loops.size() == rows.size() && std::set(rows.begin(), rows.end()).size() == rows.size();
        for (size_t k = 0; all && k < rows.size(); k++)
            all = s.loops.count(rows[k]) && s.loops.at(rows[k]) == dy.extent(int(k) + 1);
        return all;
    }
    bool is_of_weight(const std::optional<SumOfProducts> &s) const {
        if (!s || s->first || s->factors.size() != 2) return false;
        const ReadAt *of_x = factor(*s, x.name()), *of_dy = factor(*s, dy.name());
        return of_x && of_dy && rest(of_x->at) == rest(of_dy->at) && all_rows(*s, rest(of_x->at)) &&
               s->place == of_weight(of_dy->at[0], of_x->at[0]);
    }
    bool is_of_bias(const std::optional<SumOfProducts> &s) const {
        if (!s || s->first || s->factors.size() != 1) return false;
        const ReadAt *of_dy = factor(*s, dy.name());
        return of_dy && of_dy->at[0] == s->place[0] && all_rows(*s, rest(of_dy->at));
    }
};

}  // namespace

ComputedProduct computed_product(Layer &layer, const Shape &input) { return ProductFinder(layer, input).find(); }

}  // namespace cryolite::compiler
