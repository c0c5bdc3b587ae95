// The lines of a random step schedule, and the model with them as a program in C++.

#include <algorithm>

#include "dsl/layers/embedding.h"
#include "dsl/layers/linear.h"
#include "generators/fuzz/layers.h"
#include "generators/fuzz/random_model.h"

namespace cryolite::fuzz {

namespace {

/// Numbers for kinds of lines about a layer and the layer that makes its input. Most numbers stand for no line.
constexpr int kinds_of_lines = 24;
/// The same for lines about one call of a layer. Such calls are rare, so few numbers stand for no line.
constexpr int kinds_of_call_lines = 11;

/// The name of the layer's member that holds a parameter: "W".
std::string member(const Parameter &w) {
    const Layer &l = w.owner();
    const bool bias = w.name() == "bias";
    if (dynamic_cast<const Linear *>(&l)) return bias ? "b" : "W";
    if (dynamic_cast<const Embedding *>(&l)) return "table";
    return bias ? "b" : "g";
}

bool optional(const Parameter &w) { return w.name() == "bias" && dynamic_cast<const Linear *>(&w.owner()); }

}  // namespace

void RandomModel::line(const std::string &text, std::function<void(Step &)> write) {
    lines.push_back({text, std::move(write)});
}

void RandomModel::lines_of(int value, Choices &c) {
    const Made &m = made[size_t(value - 1)];
    if (!m.layer) return;
    Layer &h = *m.layer;
    const int call = index_of(value, c), kinds = call ? kinds_of_call_lines : kinds_of_lines;
    const int forward_line = c.take(kinds), backward_line = c.take(kinds);
    if (forward_line == 1 || forward_line == 2)
        line(fmt::format("s(m.{}).store_at(forward);", name(h)), [&h](Step &s) { s(h).store_at(cryolite::forward); });
    if (call && (forward_line == 9 || forward_line == 10)) {
        const int n = forward_line == 9 ? call : 1;
        line(fmt::format("s({}).compute_root();", value_text(h, n)),
             [=, &h](Step &s) { s(Stage(h)[n]).compute_root(); });
    }
    if (Layer *maker = m.from > 0 ? made[size_t(m.from - 1)].layer : nullptr; maker && maker != &h) {
        Layer &f = *maker;
        const int its_call = index_of(m.from, c);
        const std::string here = value_text(h, call), there = value_text(f, its_call), dh = adjoint_text(h, call),
                          df = adjoint_text(f, its_call);
        const auto of_call = [](const Stage &stage, int n) { return n ? stage[n] : stage; };
        const Stage sh = of_call(h, call), sf = of_call(f, its_call), sdh = of_call(d(h), call),
                    sdf = of_call(d(f), its_call);
        auto both = [&](const Stage &of, const std::string &text, const char *how, const Stage &at,
                        const std::string &where) {
            const bool with = std::string(how) == "compute_with";
            line(fmt::format("s({}).{}({});", text, how, where), [=](Step &s) {
                if (with)
                    s(of).compute_with(at);
                else
                    s(of).compute_at(at);
            });
        };
        if (forward_line == 3 || forward_line == 4) both(sf, there, "compute_at", sh, here);
        if (forward_line == 5 || forward_line == 6) both(sh, here, "compute_with", sf, there);
        if (forward_line == 7) both(sf, there, "compute_with", sh, here);
        if (forward_line == 8) both(sh, here, "compute_at", sf, there);
        if (backward_line <= 2 && backward_line) both(sdh, dh, "compute_at", sdf, df);
        if (backward_line == 3) both(sdh, dh, "compute_with", sdf, df);
        if (backward_line == 4 || backward_line == 5) both(sdf, df, "compute_at", sdh, dh);
        if (backward_line == 6) both(sdf, df, "compute_with", sdh, dh);
    }
    lines_of_parameters(h, c);
}

int RandomModel::index_of(int value, Choices &c) const {
    const Made &own = made[size_t(value - 1)];
    std::vector<int> read;  // the values that calls of the layer read; calls on one value are one call
    for (int k = 0; k < value; k++)
        if (made[size_t(k)].layer == own.layer && !std::ranges::count(read, made[size_t(k)].from))
            read.push_back(made[size_t(k)].from);
    return read.size() > 1 && c.take(3) ? int(std::ranges::find(read, own.from) - read.begin()) + 1 : 0;
}

std::string RandomModel::value_text(const Layer &l, int call) const {
    return call ? fmt::format("Stage(m.{})[{}]", name(l), call) : "m." + name(l);
}

std::string RandomModel::adjoint_text(const Layer &l, int call) const {
    return fmt::format("d(m.{}){}", name(l), call ? fmt::format("[{}]", call) : "");
}

std::string RandomModel::parameter_text(const Parameter &w) const {
    return fmt::format("{}m.{}.{}", optional(w) ? "*" : "", name(w.owner()), member(w));
}

const Parameter *RandomModel::alike(const Parameter &w) const {
    const Parameter *found = nullptr;
    for (const auto &l : layers)
        for (const Parameter *other : l->parameters()) {
            if (other == &w) return found;
            if (&other->owner() == l.get() && other->shape().rank() == w.shape().rank()) found = other;
        }
    return found;
}

void RandomModel::lines_of_parameters(Layer &l, Choices &c) {
    for (Parameter *w : l.parameters()) {
        if (&w->owner() != &l) continue;
        const std::string at = parameter_text(*w);
        const int how = c.take(kinds_of_lines);
        if (how == 1)
            line(fmt::format("s(next({})).compute_root();", at), [w](Step &s) { s(next(*w)).compute_root(); });
        if (how == 2 || how == 3)
            line(fmt::format("s(d({})).compute_at(next({}));", at, at),
                 [w](Step &s) { s(d(*w)).compute_at(next(*w)); });
        if (how == 4 || how == 5)
            line(fmt::format("s(next({})).compute_at(forward);", at),
                 [w](Step &s) { s(next(*w)).compute_at(cryolite::forward); });
        if (const Parameter *other = how == 8 || how == 9 ? alike(*w) : nullptr)
            line(fmt::format("s(next({})).compute_with(next({}));", at, parameter_text(*other)),
                 [w, other](Step &s) { s(next(*w)).compute_with(next(*other)); });
        if ((how == 6 || how == 7) && w->shape().rank() == 2) {
            const bool rows = how == 6;
            line(fmt::format("s.layout({}, {});", at, rows ? "row_major()" : "panels(16, 0)"),
                 [w, rows](Step &s) { s.layout(*w, rows ? row_major() : panels(16, 0)); });
        }
    }
}

void RandomModel::schedule(Step &s) {
    s.loops<Gain>(Form::d_parameter, plain_loops);
    for (size_t k = 0; k < lines.size(); k++) {
        if (without.count(int(k + 1))) continue;
        lines[k].write(s);
        // The number tells which line is refused, so that it can be left out.
        const std::string source = fmt::format("line {}", k + 1);
        for (auto &[stage, placement] : s.placements)
            if (!placement.source.starts_with("line ")) placement.source = source;
        for (Step::Asked &line : s.rematerialised)
            if (!line.source.starts_with("line ")) line.source = source;
        for (auto &[parameter, layout] : s.layouts)
            if (!layout.source.starts_with("line ")) layout.source = source;
    }
}

std::string RandomModel::program() const {
    const char *base = kind == text ? "TextModel" : "TableModel";
    std::string out =
        "#include \"generators/cryolite.h\"\n#include \"generators/fuzz/layers.h\"\n\nusing namespace cryolite;\n\n";
    out += fmt::format("struct Found : {} {{\n", base);
    if (kind != text)
        out += fmt::format(
            "    GeneratorParam<int> vocab{{\"vocab\", {}}};\n    GeneratorParam<int> columns{{\"columns\", {}}};\n",
            int(vocab), int(columns));
    for (const auto &l : layers) out += fmt::format("    {}\n", declarations.at(l.get()));
    out += "    std::vector<Tensor> v;\n\n";
    if (!frozen.empty()) out += fmt::format("    Found() {{ {}.freeze(); }}\n", frozen[0]);
    if (kind != text) {
        out += "    Shape features() const override { return {columns}; }\n";
        out +=
            kind == labels
                ? "    Tensor targets(Graph &g) override { return g.input(\"targets\", {batch}, Halide::Int(32)); }\n"
                : "    Tensor targets(Graph &g) override { return g.input(\"targets\", {vocab, batch}, "
                  "Halide::Float(32)); }\n";
    }
    out += "    Tensor forward(Tensor x) override {\n        v = {x};\n";
    for (const Made &m : made) out += fmt::format("        v.push_back({});\n", m.text);
    out += fmt::format(
        "        return v[{}];\n    }}\n    Tensor loss(Tensor, Tensor targets) override {{\n        return ", output);
    for (size_t k = 0; k < terms.size(); k++) out += (k ? " + " : "") + terms[k].text;
    out += ";\n    }\n};\n\nvoid schedule(Found &m, Step &s) {\n    s.loops<fuzz::Gain>(Form::d_parameter, "
           "plain_loops);\n";
    for (size_t k = 0; k < lines.size(); k++)
        if (!without.count(int(k + 1))) out += fmt::format("    {}  // line {}\n", lines[k].text, k + 1);
    if (lines.empty()) out += "    (void)m;\n";
    return out + "}\n\nint main(int argc, char **argv) { return program<Found, schedule>(argc, argv, {\"found\"}); }\n";
}

}  // namespace cryolite::fuzz
