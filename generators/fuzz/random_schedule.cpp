// The lines of a random step schedule, and the model with them as a program in C++.

#include <algorithm>

#include "dsl/layers/embedding.h"
#include "dsl/layers/linear.h"
#include "generators/fuzz/layers.h"
#include "generators/fuzz/random_model.h"

namespace cryolite::fuzz {

namespace {

/// What a line says of a layer and of the one that makes what it reads: most numbers are none.
constexpr int kinds_of_lines = 24;

/// The member of its layer that a parameter is: "l3.W".
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
    const std::string here = "m." + name(h);
    const int forward_line = c.take(kinds_of_lines), backward_line = c.take(kinds_of_lines);
    if (forward_line == 1 || forward_line == 2)
        line(fmt::format("s({}).store_at(forward);", here), [&h](Step &s) { s(h).store_at(cryolite::forward); });
    if (Layer *maker = m.from > 0 ? made[size_t(m.from - 1)].layer : nullptr; maker && maker != &h) {
        Layer &f = *maker;
        const std::string there = "m." + name(f);
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
        const std::string dh = "d(" + here + ")", df = "d(" + there + ")";
        if (forward_line == 3 || forward_line == 4) both(f, there, "compute_at", h, here);
        if (forward_line == 5 || forward_line == 6) both(h, here, "compute_with", f, there);
        if (forward_line == 7) both(f, there, "compute_with", h, here);
        if (forward_line == 8) both(h, here, "compute_at", f, there);
        if (backward_line <= 2 && backward_line) both(d(h), dh, "compute_at", d(f), df);
        if (backward_line == 3) both(d(h), dh, "compute_with", d(f), df);
        if (backward_line == 4 || backward_line == 5) both(d(f), df, "compute_at", d(h), dh);
        if (backward_line == 6) both(d(f), df, "compute_with", d(h), dh);
    }
    lines_of_parameters(h, c);
}

void RandomModel::lines_of_parameters(Layer &l, Choices &c) {
    for (Parameter *w : l.parameters()) {
        if (&w->owner() != &l) continue;
        const std::string at = fmt::format("{}m.{}.{}", optional(*w) ? "*" : "", name(l), member(*w));
        const int how = c.take(kinds_of_lines);
        if (how == 1)
            line(fmt::format("s(next({})).compute_root();", at), [w](Step &s) { s(next(*w)).compute_root(); });
        if (how == 2 || how == 3)
            line(fmt::format("s(d({})).compute_at(next({}));", at, at),
                 [w](Step &s) { s(d(*w)).compute_at(next(*w)); });
        if (how == 4 || how == 5)
            line(fmt::format("s(next({})).compute_at(forward);", at),
                 [w](Step &s) { s(next(*w)).compute_at(cryolite::forward); });
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
        // By its number a line that is refused is known, and can be left out.
        const std::string source = fmt::format("line {}", k + 1);
        for (auto &[stage, placement] : s.placements)
            if (!placement.source.starts_with("line ")) placement.source = source;
        for (Step::Asked &line : s.rematerialised)
            if (!line.source.starts_with("line ")) line.source = source;
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
