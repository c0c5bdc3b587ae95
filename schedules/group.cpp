#include "schedules/group.h"

#include "bundle/error.h"
#include "schedules/views.h"

namespace cryolite {

using Halide::Func;
using Halide::Internal::Function;

namespace {

constexpr const char *forms[] = {"forward", "d_input", "d_parameter", "update", "norm"};

}  // namespace

const char *form_name(Form form) { return forms[int(form)]; }

std::optional<Form> form_of(const std::string &name) {
    for (int f = 0; f < int(std::size(forms)); f++)
        if (name == forms[f]) return Form(f);
    return std::nullopt;
}

Machine Machine::of(const Halide::Target &target) {
    Machine m;
    m.target = target;
    bool avx512 = target.has_feature(Halide::Target::AVX512_Skylake) ||
                  target.has_feature(Halide::Target::AVX512_Zen4) ||
                  target.has_feature(Halide::Target::AVX512_SapphireRapids);
    m.vector = avx512 ? 16 : target.has_feature(Halide::Target::AVX2) ? 8 : 4;
    m.registers = avx512 || (target.arch == Halide::Target::ARM && target.bits == 64) ? 32 : 16;
    m.dot_products =
        target.has_feature(Halide::Target::AVX512_Zen4) || target.has_feature(Halide::Target::AVX512_SapphireRapids);
    if (target.has_gpu_feature()) {
        m.device = target.has_feature(Halide::Target::CUDA) ? "cuda" : "opencl";
        m.alignment = 512;  // of a part of a buffer; NVIDIA's OpenCL has the largest
    }
    return m;
}

namespace {

std::map<std::string, Function> environment(const Group &g) {
    std::map<std::string, Function> env = Halide::Internal::find_transitive_calls(g.out.function());
    for (const Func &f : g.others) env.merge(Halide::Internal::find_transitive_calls(f.function()));
    return env;
}

}  // namespace

Func Group::func(const std::string &name) const {
    for (auto &[full, f] : environment(*this))
        if (base_name(full) == name) return Func(f);
    return Func();
}

std::vector<Func> Group::funcs() const {
    std::map<std::string, Function> env = environment(*this);
    std::vector<Function> outputs = {out.function()};
    for (const Func &f : others) outputs.push_back(f.function());
    std::vector<Func> result;
    for (const std::string &name : Halide::Internal::topological_order(outputs, env)) {
        bool is_output = false;
        for (const Function &f : outputs) is_output |= f.name() == name;
        if (!is_output) result.push_back(Func(env.at(name)));
    }
    return result;
}

bool at_own_indices(const Function &f, const Halide::Internal::Definition &d) {
    for (size_t k = 0; k < d.args().size(); k++)
        if (const auto *v = d.args()[k].as<Halide::Internal::Variable>(); !v || v->name != f.args()[k]) return false;
    return true;
}

bool is_row_number(const Func &f) {
    if (f.dimensions() != 1) return false;
    if (f.has_update_definition()) return true;
    for (auto &[name, g] : Halide::Internal::find_transitive_calls(f.function()))
        if (g.has_update_definition()) return true;
    return false;
}

Func loss_of_row(const Group &g) {
    for (const char *name : {"nll", "of_row"})
        if (Func f = g.func(name); f.defined()) return f;
    fail("[{}] the loops of a loss by rows need the loss of row r as a Func of_row(r), and forward() defines none",
         g.name);
}

bool calls(const Func &f, const Func &g) {
    return Halide::Internal::find_transitive_calls(f.function()).count(g.name()) != 0;
}

namespace {

class Mathematics : public Halide::Internal::IRVisitor {
public:
    bool found = false;

private:
    using IRVisitor::visit;
    void visit(const Halide::Internal::Call *op) override {
        found |= op->call_type == Halide::Internal::Call::PureExtern;
        IRVisitor::visit(op);
    }
};

}  // namespace

bool calls_mathematics(const Func &f) {
    Mathematics called;
    f.function().accept(&called);
    return called.found;
}

std::string AutomaticLoops::str() const {
    std::string text = name;
    for (auto &[parameter, value] : parameters) text += " " + parameter + "=" + value;
    return text;
}

int reduction_extent(const Func &f, int k, int update) {
    const auto &rvars = f.function().update(update).schedule().rvars();
    auto extent = Halide::Internal::as_const_int(Halide::Internal::simplify(rvars.at(k).extent));
    if (!extent) fail("[{}] reduction {} has no constant extent", f.name(), rvars[k].var);
    return int(*extent);
}

}  // namespace cryolite
