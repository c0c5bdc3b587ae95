#include "generators/checks/gradient_check.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "generators/codegen/blame.h"
#include "generators/checks/source_array.h"
#include "generators/lowering/hash.h"

namespace cryolite::compiler {

namespace {

using Halide::Buffer, Halide::Pipeline;

/// splitmix64: the same numbers everywhere.
class Random {
public:
    explicit Random(uint64_t seed) : state(seed) {}
    uint64_t bits() {
        uint64_t z = (state += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    double uniform() { return double(bits() >> 11) * 0x1p-53; }
    /// In -1 ... 1, but not near 0.
    double value() {
        double u = 2 * uniform() - 1;
        return u + (u < 0 ? -0.05 : 0.05);
    }

private:
    uint64_t state;
};

double norm(const std::vector<double> &v) {
    double s = 0;
    for (double x : v) s += x * x;
    return std::sqrt(s);
}

class Bench {
public:
    Bench(Layer &layer, uint64_t seed) : layer(layer), random(seed) {}

    void add(const Shape &s, const std::vector<double> &values, int bound) {
        int k = int(shapes.size()), rank = layer.input_rank(k) ? layer.input_rank(k) : s.rank();
        std::string name = fmt::format("x{}", k);
        Halide::Type type = bound ? Halide::Int(32) : Halide::Float(64);
        inputs.emplace_back(name, name, type, s.folded(rank));
        shapes.push_back(s);
        SourceArray &in = inputs.back();
        in.constant = !layer.differentiates(k);
        if (!values.empty() && int64_t(values.size()) != s.size())
            fail("[{}] input {} of shape {} is given {} values", layer.path, k, s.str(), values.size());
        for (size_t i = 0; i < in.ints.size(); i++)
            in.ints[i] = values.empty() ? int(random.bits() % uint64_t(bound)) : int(values[i]);
        for (size_t i = 0; i < in.floats.size(); i++) in.floats[i] = values.empty() ? random.value() : values[i];
    }

    /// Binds the parameters, some to given values, and builds the forward pipeline.
    void build(const std::map<std::string, std::vector<double>> &values) {
        for (Parameter *w : layer.parameters()) {
            weights.emplace_back(w->name(), w->symbol(), Halide::Float(64), w->shape());
            weights.back().constant = w->is_state();
            // A layer's state may be a variance, so it is positive.
            for (double &x : weights.back().floats) x = w->is_state() ? 0.5 + random.uniform() : random.value();
            weights.back().gradient = "d_" + w->name();
        }
        for (SourceArray &w : weights)
            if (auto given = values.find(w.name); given != values.end()) {
                if (given->second.size() != w.floats.size())
                    fail("[{}] parameter '{}' of shape {} is given {} values", layer.path, w.name, w.array.shape.str(),
                         given->second.size());
                w.floats = given->second;
            }
        for (SourceArray &s : inputs) s.attach(), call.inputs.push_back(s.array);
        for (size_t k = 0; k < weights.size(); k++) weights[k].attach(), layer.parameters()[k]->bind(weights[k].array);
        Shape out = layer.shape(shapes);
        shape = out.folded(layer.output_rank() ? layer.output_rank() : out.rank());
        y = of_ids_in_float64(layer.forward(call.inputs), inputs, !weights.empty());
        expect(y, shape.rank(), "the result");
        sums_at_root({y});
        forward = Pipeline(y);
    }
    std::vector<double> run() {
        std::vector<double> values(size_t(shape.size()));
        Buffer<double> out(values.data(), shape.extents());
        forward.realize(out);
        return values;
    }

    std::vector<double> gradient(int k, const std::vector<double> &given) {
        SourceArray dy("dy", "dy", Halide::Float(64), shape), stored("y", "y", Halide::Float(64), shape);
        if (given.size() != dy.floats.size())
            fail("[{}] the adjoint of {} is given {} values", layer.path, shape.str(), given.size());
        dy.floats = given, stored.floats = run();
        stored.attach(), dy.attach();
        call.output = stored.array;
        return gradient(layer.gradient(call, dy.array), inputs.at(size_t(k)));
    }

    std::string algorithm() {
        SourceArray dy("dy", "dy", Halide::Float(64), shape), stored("y", "y", Halide::Float(64), shape);
        call.output = stored.array;
        std::string text = serialised(forward);
        for (auto &[name, f] : layer.gradient(call, dy.array))
            text += name + (f.defined() ? serialised(Pipeline(f)) : "");
        for (const Shape &s : shapes) text += s.str();
        for (const SourceArray &w : weights) text += w.name + w.array.shape.str();
        return digest(text);
    }

    std::vector<GradientError> measure(bool with_derived) {
        SourceArray dy("dy", "dy", Halide::Float(64), shape), stored("y", "y", Halide::Float(64), shape);
        for (double &x : dy.floats) x = random.value();
        stored.floats = run();
        stored.attach(), dy.attach();
        call.output = stored.array;
        std::map<std::string, Func> written = layer.gradient(call, dy.array), derived;
        if (with_derived) derived = layer.derived_gradient(call, dy.array);
        std::vector<GradientError> errors;
        for (auto *list : {&inputs, &weights})
            for (SourceArray &s : *list) {
                if (s.floats.empty() || s.constant) continue;
                GradientError e{"d(" + s.name + ")"};
                std::vector<double> g = gradient(written, s);
                e.differences = differences(s, g, dy.floats);
                if (with_derived) e.derived = distance(g, gradient(derived, s));
                errors.push_back(e);
            }
        return errors;
    }

private:
    Layer &layer;
    Random random;
    std::vector<Shape> shapes;
    std::vector<SourceArray> inputs, weights;
    Call call;
    Shape shape;  ///< of the output, folded to the rank that the layer makes
    Func y;
    Pipeline forward;

    void expect(const Func &f, int rank, const std::string &what) const {
        if (!f.defined()) fail("[{}] {}: {} is not defined", layer.path, layer.kind(), what);
        if (f.dimensions() != rank)
            fail("[{}] {}: {} has {} dimensions, expected {}", layer.path, layer.kind(), what, f.dimensions(), rank);
        if (f.type() != Halide::Float(64))
            fail("[{}] {}: {} of float64 inputs has another number type; take it from the input: "
                 "cast(x.type(), ...)",
                 layer.path, layer.kind(), what);
    }
    std::vector<double> gradient(const std::map<std::string, Func> &d, const SourceArray &s) {
        auto it = d.find(s.gradient);
        if (it == d.end()) fail("[{}] {}::backward defines no gradient of '{}'", layer.path, layer.kind(), s.name);
        Func f = it->second;
        expect(f, s.array.shape.rank(), "the gradient of '" + s.name + "'");
        sums_at_root({f});
        std::vector<double> values(s.floats.size());
        Buffer<double> out(values.data(), s.array.shape.extents());
        Pipeline(f).realize(out);
        return values;
    }

    /// Compares (L(x + hv) - L(x - hv)) / 2h with g v for two random directions v, where L = sum(y R). Returns the
    /// larger relative error.
    double differences(SourceArray &s, const std::vector<double> &g, const std::vector<double> &R) {
        constexpr double h = 1e-5;
        double worst = 0;
        for (int direction = 0; direction < 2; direction++) {
            std::vector<double> v(s.floats.size()), before = s.floats;
            double along = 0, measured = 0, size = 0;
            for (size_t i = 0; i < v.size(); i++) v[i] = random.value(), along += g[i] * v[i];
            auto shifted = [&](double by) {
                for (size_t i = 0; i < v.size(); i++) s.floats[i] = before[i] + by * v[i];
                return run();
            };
            std::vector<double> above = shifted(h), below = shifted(-h);
            s.floats = before;
            s.attach();
            for (size_t i = 0; i < R.size(); i++) {
                measured += R[i] * (above[i] - below[i]) / (2 * h);
                size += std::abs(R[i] * above[i]);
            }
            double scale = std::max({norm(g), std::abs(measured), 1e-6 * size, 1e-300});
            double error = std::abs(measured - along) / scale;
            worst = std::isfinite(error) ? std::max(worst, error) : INFINITY;
        }
        return worst;
    }
    static double distance(const std::vector<double> &a, const std::vector<double> &b) {
        std::vector<double> d(a.size());
        for (size_t i = 0; i < a.size(); i++) d[i] = a[i] - b[i];
        return norm(d) / std::max(norm(a), 1e-300);
    }
};

}  // namespace

template <typename Use> auto LayerTester::built(const Use &use) const {
    Bench bench(layer, seed);
    for (const Given &g : given) bench.add(g.shape, g.values, g.bound);
    bench.build(weights);
    return use(bench);
}

std::vector<GradientError> LayerTester::measure() const {
    return built([&](Bench &bench) { return bench.measure(with_derived); });
}

std::vector<double> LayerTester::output() const {
    return built([](Bench &bench) { return bench.run(); });
}

std::vector<double> LayerTester::gradient(int k, const std::vector<double> &dy) const {
    return built([&](Bench &bench) { return bench.gradient(k, dy); });
}

std::string LayerTester::algorithm(int time_limit) const {
    std::string found;
    auto work = [&](int) { return built([](Bench &bench) { return bench.algorithm(); }); };
    run_children(1, 1, time_limit, work, [&](int, const ChildResult &r) {
        if (!r.error.empty()) fail("{}", r.error);
        found = r.output;
    });
    return found;
}

std::vector<GradientError> LayerTester::check(int time_limit) const {
    share_jit_runtime();
    std::vector<GradientError> errors;
    auto work = [&](int) {
        nlohmann::json list = nlohmann::json::array();
        for (const GradientError &e : measure())
            // JSON has no infinity.
            list.push_back({e.name, std::isfinite(e.differences) ? e.differences : 1e300, e.derived});
        return list.dump();
    };
    run_children(1, 1, time_limit, work, [&](int, const ChildResult &r) {
        if (!r.error.empty()) fail("{}{}", r.error, blame(r, layer.path, layer.kind()));
        for (auto &e : nlohmann::json::parse(r.output)) errors.push_back({e[0], e[1], e[2]});
    });
    return errors;
}

}  // namespace cryolite::compiler
