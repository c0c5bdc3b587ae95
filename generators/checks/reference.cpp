#include "generators/checks/reference.h"

#include <fnmatch.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

#include "generators/checks/reference_call.h"

namespace cryolite::compiler {

using nlohmann::json;

namespace {

double norm_of(const Numbers &v) { return std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0)); }

/// The optimizer's rule on whole parameters of one kind: those that decay, or those that do not.
class ReferenceRule {
public:
    ReferenceRule(Optimizer &o, bool decays) {
        o.decays = decays, o.step = step;
        auto element = [&](const char *name) {
            images.emplace_back(Halide::Float(64), 1, name);
            return Expr(images.back()(i));
        };
        const Expr w = element("w"), g = element("g");
        for (Scalar *s : o.scalars()) s->exact = scalars.emplace_back();
        for (State *s : o.states()) s->now = element(s->name.c_str());
        for (Norm *n : o.norms()) n->now = n->of == Norm::weight ? weight_norm : gradient_norm;
        std::vector<Expr> news = {o(w, g)};
        for (State *s : o.states()) news.push_back(s->now);
        std::vector<Func> outputs;
        for (Expr &e : news) outputs.emplace_back("next"), outputs.back()(i) = cast<double>(e);
        sums_at_root(outputs);
        pipeline = Halide::Pipeline(outputs);
    }
    /// Updates the arrays in place: a parameter, then its states.
    void apply(std::vector<Numbers> &arrays, Numbers &gradient, int t, const std::vector<double> &values) {
        const int n = int(gradient.size());
        step.set(double(t)), weight_norm.set(norm_of(arrays[0])), gradient_norm.set(norm_of(gradient));
        for (size_t k = 0; k < scalars.size(); k++) scalars[k].set(values[k]);
        images[0].set(Halide::Buffer<double>(arrays[0].data(), n));
        images[1].set(Halide::Buffer<double>(gradient.data(), n));
        for (size_t k = 1; k < arrays.size(); k++) images[k + 1].set(Halide::Buffer<double>(arrays[k].data(), n));
        std::vector<Numbers> news(arrays.size(), Numbers(size_t(n)));
        std::vector<Halide::Buffer<>> out;
        for (Numbers &v : news) out.emplace_back(Halide::Buffer<double>(v.data(), n));
        pipeline.realize(Halide::Realization(std::move(out)));
        arrays = news;
    }

private:
    Var i{"i"};
    std::deque<Halide::ImageParam> images;
    std::deque<Halide::Param<double>> scalars;
    Halide::Param<double> step, weight_norm, gradient_norm;
    Halide::Pipeline pipeline;
};

/// A parameter with its state, and how it is trained.
struct Trained {
    std::string path;
    const Parameter *source;
    std::vector<Numbers> arrays;  ///< itself, then its states
    bool frozen = false;
    std::vector<double> scalars{};
    double largest = 0;  ///< largest norm that its gradient had in any step
};

class Reference {
public:
    Reference(Model &model, Optimizer &optimizer, const StepOptions &options, const json &job)
        : optimizer(optimizer), options(options), job(job), input(model.input(g)), targets(model.targets(g)),
          loss(model.loss(model.forward(input), targets)) {
        for (const Graph::Call &c : g.calls()) calls.emplace_back(g, c);
        std::set<const Parameter *> met;
        for (const Graph::Call &c : g.calls())
            for (const Parameter *w : c.layer->parameters())
                if (met.insert(w).second) list.push_back(trained(*w));
        values.resize(g.values().size());
        for (size_t v = 0; v < values.size(); v++)
            values[v].assign(g.values()[v].constant.begin(), g.values()[v].constant.end());
    }
    std::string run() {
        json losses = json::array();
        for (const json &batch : job.at("batches")) {
            feed(batch);
            losses.push_back(forward());
            step();
        }
        json answer = {{"losses", losses}, {"evaluation", forward()}};
        for (const Trained &w : list) {
            answer["parameters"][w.path] = w.arrays[0];
            if (!w.frozen) answer["gradients"][w.path] = w.largest;
        }
        return answer.dump();
    }

private:
    Optimizer &optimizer;
    const StepOptions &options;
    const json &job;
    Graph g;
    Tensor input, targets, loss;
    std::deque<ReferenceCall> calls;
    std::vector<Trained> list;
    std::vector<Numbers> values;
    std::map<const Parameter *, Numbers> parameters, gradients;
    std::map<bool, ReferenceRule> rules;
    int steps = 0;

    Trained trained(const Parameter &w) {
        Trained t{.path = w.path(),
                  .source = &w,
                  .arrays = {numbers(job.at("parameters").at(w.path()), w.shape(), w.path())}};
        t.arrays.resize(1 + optimizer.states().size(), Numbers(t.arrays[0].size()));
        t.frozen = !w.frozen().empty();
        for (const std::string &pattern : options.freeze) t.frozen |= fnmatch(pattern.c_str(), t.path.c_str(), 0) == 0;
        for (const Scalar *s : optimizer.scalars()) {
            std::optional<GroupValue> own;
            for (const ParamGroup &group : options.param_groups) {
                if (!group.matches(t.path)) continue;
                if (s->name == "lr" && group.lr) own = group.lr;
                if (s->name == "weight-decay" && group.decay) own = group.decay;
            }
            const double all = job.at("scalars").value(s->name, s->value);
            t.scalars.push_back(!own ? all : own->times ? own->value * all : own->value);
        }
        return t;
    }
    static Numbers numbers(const json &given, const Shape &shape, const std::string &of) {
        Numbers v = given;
        if (int64_t(v.size()) != shape.size())
            fail("the reference is given {} numbers of '{}', expected {}", v.size(), of, shape.size());
        return v;
    }
    void feed(const json &batch) {
        values[size_t(input.id())] = numbers(batch.at("input"), input.shape(), "input");
        values[size_t(targets.id())] = numbers(batch.at("targets"), targets.shape(), "targets");
        const Numbers &of = values[size_t(targets.id())];
        for (const Graph::Ids &ids : g.ids()) {
            if (ids.mean_weight < 0) continue;
            double sum = 0;
            for (double id : of)
                if (!ids.ignored || int(id) != *ids.ignored)
                    sum += ids.class_weights < 0 ? 1 : values[size_t(ids.class_weights)][size_t(id)];
            values[size_t(ids.mean_weight)] = {sum / double(of.size())};
        }
    }
    double forward() {
        for (const Trained &w : list) parameters[w.source] = w.arrays[0];
        for (ReferenceCall &c : calls) c.forward(values, parameters);
        return values[size_t(loss.id())].at(0);
    }
    void step() {
        std::vector<Numbers> adjoints(values.size());
        adjoints[size_t(loss.id())] = {1};
        gradients.clear();
        for (size_t k = calls.size(); k-- > 0;) calls[k].backward(adjoints, gradients);
        steps++;
        const double factor = clip_factor();
        for (Trained &w : list) {
            if (w.frozen) continue;
            Numbers &gradient = gradients.at(w.source);
            w.largest = std::max(w.largest, norm_of(gradient));
            for (double &x : gradient) x *= factor;
            rule(w.source->shape().rank() > 1).apply(w.arrays, gradient, steps, w.scalars);
        }
    }
    double clip_factor() const {
        if (!options.clip) return 1;
        double square = 0;
        for (const Trained &w : list)
            if (!w.frozen)
                for (double x : gradients.at(w.source)) square += x * x;
        return std::min(1.0, double(job.at("scalars").at("clip")) / (std::sqrt(square) + 1e-6));
    }
    ReferenceRule &rule(bool decays) {
        auto at = rules.find(decays);
        return at != rules.end() ? at->second : rules.try_emplace(decays, optimizer, decays).first->second;
    }
};

}  // namespace

std::string reference_steps(Model &model, Optimizer &optimizer, const StepOptions &options, const std::string &job) {
    const json given = json::parse(job);
    return Reference(model, optimizer, options, given).run();
}

}  // namespace cryolite::compiler
