#include "generators/ir/printer.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace cryolite::ir {

namespace {

std::string bytes_words(int64_t n) {
    return n < 10'000       ? fmt::format("{} B", n)
           : n < 10'000'000 ? fmt::format("{:.1f} kB", 1e-3 * double(n))
                            : fmt::format("{:.1f} MB", 1e-6 * double(n));
}

class Printer {
public:
    explicit Printer(const Program &p) : p(p) {
        std::map<std::string, int> count;
        for (const Value &v : p.values) count[words(v)]++;
        for (ValueId v : p.values.ids()) {
            const std::string name = words(p.values[v]);
            names.push_back(count[name] > 1 ? fmt::format("{}#{}", name, v.index) : name);
        }
    }
    std::string run() {
        for (auto &[name, e] : p.entries) entry(name, e);
        values();
        lines();
        return text;
    }
    /// Each request with its source and its verdict. A refused one is a comment, and the nearest legal line follows.
    std::string lines() {
        for (const Line &l : p.lines) {
            const bool refused = l.verdict.is == Verdict::refused;
            const std::string what = l.how == Line::freeze ? "// " + l.stage.text : "s(" + l.stage.text + ")";
            std::string came = verdict(l.verdict) + (l.saves ? ", saves " + bytes_words(l.saves) : "");
            std::ranges::replace(came, '\n', ' ');  // a comment is of one line
            text += fmt::format("{}{}{}{};  // {}: {}\n", refused ? "# " : "", what, l.placement(),
                                l.where_legal ? ".where_legal()" : "", l.source, came);
            if (refused && !l.verdict.nearest.empty()) text += l.verdict.nearest + ";  // the nearest legal line\n";
        }
        return text;
    }

private:
    const Program &p;
    std::vector<std::string> names;
    std::string text;

    static std::string words(const Value &v) {
        switch (v.role) {
        case Role::gradient:
            return "d(" + v.name + ")";
        case Role::share:
            return fmt::format("d({}) of worker {}", v.name, v.worker);
        case Role::partial:
            return fmt::format("d({}) of {} parts", v.name, 1 << v.level);
        default:
            return v.name;
        }
    }
    std::string verdict(const Verdict &v) const {
        if (v.is == Verdict::open) return "not met yet";
        if (v.is == Verdict::unneeded) return "asks for nothing, " + v.words;
        if (v.is == Verdict::left_out) return fmt::format("left out [{}], {}", v.rule, v.words);
        if (v.is == Verdict::refused) return fmt::format("refused [{}], {}", v.rule, v.words);
        std::vector<std::string> names;
        for (OpId id : v.by)
            if (std::ranges::find(names, p.ops[id].name) == names.end()) names.push_back(p.ops[id].name);
        std::string list = v.words.empty() ? "" : ", " + v.words;
        for (size_t i = 0; i < names.size(); i++) list += fmt::format("{} '{}'", i ? "," : ", by", names[i]);
        return "legal" + list;
    }
    std::string ref(const Ref &r) const {
        const std::string &name = names[size_t(r.value.index)];
        return p.values[r.value].is_state() ? fmt::format("{}@{}", name, r.version) : name;
    }
    std::string list(const std::vector<Ref> &refs) const {
        std::vector<std::string> all;
        for (const Ref &r : refs) all.push_back(ref(r));
        return all.empty() ? "nothing" : fmt::format("{}", fmt::join(all, ", "));
    }
    static const char *mode(const Entry &e) {
        return e.mode == Entry::training ? ", to train" : e.mode == Entry::evaluation ? ", to evaluate" : "";
    }

    void entry(const std::string &name, const Entry &e) {
        text += fmt::format("{}{}: {} operations{}\n", name, mode(e), e.ops.size(),
                            e.kernels.empty() ? "" : fmt::format(" in {} kernels", e.kernels.size()));
        KernelId last;
        for (OpId id : e.ops) {
            const Op &op = p.ops[id];
            std::string mark;
            if (!e.kernels.empty()) {
                const Kernel &k = p.kernels[op.kernel];
                mark = fmt::format("{:>4}{} ", op.kernel == last ? "" : std::to_string(op.kernel.index),
                                   k.anchor == id ? "*" : " ");
                last = op.kernel;
            }
            text += fmt::format("  {}{:<28} {:<12} {} -> {}{}\n", mark, op.name, kind(op), list(op.reads),
                                list(op.writes), where(op, id));
        }
        text += "\n";
    }
    std::string kind(const Op &op) const {
        std::string words = kind_name(op);
        if (auto *f = as<Forward>(op)) {
            if (f->when == Forward::remat) words = "remat";
            words += " " + p.layer(f->call).kind;
        }
        if (auto *g = as<ParamGrad>(op); g && g->accumulate) words += " +=";
        if (auto *n = as<Norm>(op)) {
            static const char *how[] = {"of gradient", "of weight", "Gram", "bound"};
            words += fmt::format(" {} [{}]", how[n->how.index()], n->slot);
        }
        if (auto *u = as<Update>(op); u && u->scaled) words += ", clipped";
        if (auto *u = as<Update>(op); u && p.parameters[u->w].group)
            words += fmt::format(", group {}", p.parameters[u->w].group);
        if (Shard s = shard_of(op); s.worker >= 0)
            words += fmt::format(" of worker {} [{}, {})", s.worker, s.begin, s.begin + s.count);
        return words;
    }
    std::string where(const Op &op, OpId id) const {
        std::string words;
        if (op.placed != "root") words += "; " + op.placed;
        if (!op.why.empty()) words += "; " + op.why;
        if (!op.rule.empty()) words += " [" + op.rule + "]";
        if (op.kernel && op.kernel.index < p.kernels.size() && p.kernels[op.kernel].anchor == id &&
            !p.kernels[op.kernel].dialect_why.empty())
            words += fmt::format("; by {}: {}", p.kernels[op.kernel].dialect, p.kernels[op.kernel].dialect_why);
        return words;
    }
    void values() {
        text += fmt::format("values: {}{}\n", p.values.size(),
                            p.memory.bytes ? ", arena " + bytes_words(p.memory.bytes) : "");
        for (ValueId id : p.values.ids()) {
            const Value &v = p.values[id];
            text += fmt::format("  {:<28} {:<10} {:<9} [{}]", names[size_t(id.index)], role_name(v.role), v.type.str(),
                                fmt::join(v.shape.extents(), ", "));
            if (!v.layout.row_major()) text += fmt::format(" in panels of {}", v.layout.panel);
            if (v.part_of) text += fmt::format(" part of {} from {}", names[size_t(v.part_of.index)], v.begin);
            if (v.remat) text += ", backward reads " + names[size_t(v.remat.index)];
            if (!v.stored) text += ", not stored";
            if (auto at = p.memory.offset.find(id); at != p.memory.offset.end())
                text += fmt::format(", at {}", at->second);
            text += "\n";
        }
    }
};

}  // namespace

std::string text_of(const Program &p) { return Printer(p).run(); }
std::string lines_of(const Program &p) { return Printer(p).lines(); }

}  // namespace cryolite::ir
