#include "apps/cryolite/export_library/tables.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "bundle/setting.h"
#include "runtime/io/error.h"

namespace cryolite {

namespace {

constexpr int most_arguments = 64, most_dimensions = 8, most_scalars = 4096;  // internal.h.in
constexpr int64_t alignment = 64;
/// The plans that library.c.in runs.
constexpr const char *plan_names[] = {entry::forward,  entry::step,    entry::first,    entry::accumulate,
                                      entry::evaluate, entry::predict, entry::deferred, entry::flush};

/// Every buffer's offset in the memory of an instance: first the buffers outside the arena, then the arena.
std::vector<int64_t> places(const Plan &p, int64_t &bytes) {
    std::vector<int64_t> at(p.buffers.size());
    bytes = 0;
    auto room = [&](int64_t wanted) {
        const int64_t begin = bytes;
        bytes += (wanted + 2 * alignment - 1) / alignment * alignment;  // a vector may read past the end
        return begin;
    };
    for (size_t b = 0; b < p.buffers.size(); b++)
        if (const PlanBuffer &of = p.buffers[b]; of.stored && !of.in_arena() && of.part_of < 0) at[b] = room(of.bytes);
    for (size_t b = 0; b < p.buffers.size(); b++)
        if (const PlanBuffer &of = p.buffers[b]; of.part_of >= 0)
            at[b] = at[size_t(of.part_of)] + of.begin * of.element_bytes();
    const int64_t arena = room(p.arena);
    for (size_t b = 0; b < p.buffers.size(); b++)
        if (p.buffers[b].in_arena() && p.buffers[b].offset >= 0) at[b] = arena + p.buffers[b].offset;
    return at;
}

/// A type's halide_type_code_t and number of bits.
std::pair<int, int> type_of(const std::string &name) {
    const size_t digits = name.find_first_of("0123456789");
    const std::map<std::string, int> codes = {{"int", 0}, {"uint", 1}, {"float", 2}, {"bfloat", 4}};
    return {codes.at(name.substr(0, digits)), std::stoi(name.substr(digits))};
}

std::string quoted(const std::string &text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + '"';
}

class Tables {
public:
    Tables(const Plan &plan, const VariantFacts &facts) : p(plan), facts(facts), at(places(plan, bytes)) {}

    std::string text() {
        out = fmt::format("/* The plan of the step for {}: buffers, kernels and their calls. Generated. */\n"
                          "#include \"internal.h\"\n\n#include <string.h>\n\n",
                          facts.name);
        add_buffers();
        add_plans();
        add_tensors();
        add_scalars();
        add_ranges();
        add_constants();
        add_processor();
        add_variant();
        return out;
    }

private:
    const Plan &p;
    const VariantFacts &facts;
    int64_t bytes = 0;
    const std::vector<int64_t> at;
    std::string out, fields;  ///< fields: of the variant

    template <typename... T> void add(fmt::format_string<T...> text, T &&...values) {
        out += fmt::format(text, std::forward<T>(values)...);
    }
    int input(const std::string &name) const { return p.find(Role::input, name); }

    void add_buffers() {
        add("static const buffer buffers[] = {{\n");
        for (size_t b = 0; b < p.buffers.size(); b++)
            add("    {{{}, {}}}, /* {} {} */\n", at[b], p.buffers[b].bytes, role_name(p.buffers[b].role),
                p.buffers[b].name);
        add("}};\n\n");
    }

    void add_plans() {
        std::set<std::string> symbols;
        for (const PlanKernel &k : p.kernels) symbols.insert(k.symbol);
        for (const std::string &symbol : symbols) add("int {}_argv(void **argv);\n", symbol);
        std::string arguments, calls;
        std::map<std::string, std::pair<int, int>> begins;  // a plan's first call, and how many it has
        int argument = 0, call = 0;
        for (const auto &[name, list] : p.plans) {
            begins[name] = {call, int(list.size())};
            for (const PlanCall &c : list) {
                const PlanKernel &k = p.kernels[size_t(c.kernel)];
                calls +=
                    fmt::format("    {{{}_argv, {}, {}, {}}},\n", k.symbol, quoted(c.name), argument, c.args.size());
                for (size_t i = 0; i < c.args.size(); i++, argument++) arguments += argument_text(c.args[i], k.args[i]);
                call++;
            }
        }
        add("\nstatic const argument arguments[] = {{\n{}}};\n\nstatic const call calls[] = {{\n{}}};\n\n", arguments,
            calls);
        for (const char *name : plan_names)
            fields += fmt::format("    .{} = {{calls + {}, {}}},\n", name, begins[name].first, begins[name].second);
    }
    std::string argument_text(const PlanCall::Bound &a, const PlanArgument &of) const {
        const auto [code, bits] = type_of(of.type);
        return fmt::format("    {{{}, {}, {}, {}, {{{}}}}},\n", at[size_t(a.buffer)] + a.offset * ((bits + 7) / 8),
                           code, bits, of.extents.size(), fmt::join(of.extents, ", "));
    }

    void add_tensors() {
        int count = 0;
        add("static const tensor tensors[] = {{\n");
        for (Role role : {Role::parameter, Role::state})
            for (size_t b = 0; b < p.buffers.size(); b++)
                if (p.buffers[b].role == role) add_tensor(int(b), role), count++;
        add("}};\n\n");
        fields += fmt::format("    .tensor_count = {},\n", count);
    }
    void add_tensor(int b, Role role) {
        const PlanBuffer &t = p.buffers[size_t(b)];
        int64_t inner = 1, outer = 1, n = 1;
        for (size_t d = 0; d < t.shape.size(); d++) {
            if (int(d) < t.layout.dim) inner *= t.shape[d];
            if (int(d) == t.layout.dim) n = t.shape[d];
            if (int(d) > t.layout.dim) outer *= t.shape[d];
        }
        const std::vector<int> shape(t.shape.rbegin(), t.shape.rend());
        add("    {{{}, {}, {}, {}, {}, {{{}}}, {}, {}, {}, {}}},\n", quoted(t.name), b,
            role == Role::parameter ? p.master_of(b) : -1, role == Role::parameter ? "true" : "false", shape.size(),
            fmt::join(shape, ", "), t.layout.panel, inner, n, outer);
    }

    void add_scalars() {
        std::vector<std::string> names, values;
        for (const std::string &name : p.scalar_names) names.push_back(quoted(name));
        for (const double value : p.scalar_values) values.push_back(fmt::format("{:.17g}", value));
        add("static const char *const scalar_names[] = {{{}}};\nstatic const double scalar_values[] = {{{}}};\n",
            fmt::join(names, ", "), fmt::join(values, ", "));
        add("static const scalar_range scalar_ranges[] = {{\n");
        for (const RealRange &r : facts.ranges)
            add("    {{{:.17g}, {:.17g}, {}, {}, {}}},\n", r.low, r.high, r.above, r.below,
                quoted(expected(Setting{.name = "", .range = r})));
        add("}};\n");
        int count = 0;
        add("static const group_scalar group_scalars[] = {{\n");
        for (const PlanGroup &g : p.groups)
            for (size_t s = 0; s < names.size(); s++, count++) add_group_scalar(g, int(s));
        add("    {{-1, 0, 0, false, false}},\n}};\n\n");
        fields += fmt::format("    .scalar_count = {}, .scalar_space = {}, .group_scalar_count = {},\n", names.size(),
                              p.buffers[size_t(p.find(Role::scalars))].elements(), count);
    }
    void add_group_scalar(const PlanGroup &g, int scalar) {
        const PlanGroup::Setting *own = nullptr;
        for (const PlanGroup::Setting &s : g.settings)
            if (s.scalar == p.scalar_names[size_t(scalar)]) own = &s;
        add("    {{{}, {}, {:.17g}, {}, {}}},\n", scalar, g.at + scalar, own ? own->value : 0.0, own && own->times,
            own != nullptr);
    }

    void add_ranges() {
        int count = 0;
        add("static const id_range target_ranges[] = {{\n");
        for (const PlanIds &ids : p.ids) {
            if (ids.input != input("targets")) continue;
            add("    {{{}, {}, {}}},\n", ids.classes, ids.ignored.has_value(), ids.ignored.value_or(0));
            count++;
        }
        add("    {{0, false, 0}},\n}};\n\n");
        fields += fmt::format("    .target_range_count = {},\n", count);
    }

    void add_constants() {
        std::string copies;
        for (size_t b = 0; b < p.buffers.size(); b++) {
            if (p.buffers[b].constant.empty()) continue;
            add("static const float constant_{}[] = {{", b);
            for (const float x : p.buffers[b].constant) add("{:.9g}f, ", double(x));
            add("}};\n");
            copies += fmt::format("    memcpy(base + {}, constant_{}, sizeof constant_{});\n", at[b], b, b);
        }
        add("static void fill_constants(uint8_t *base) {{\n    (void)base;\n{}}}\n\n", copies);
    }

    void add_processor() {
        add("static const char *lacks(void) {{\n");
        for (const std::string &f : facts.features)
            add("    if (!__builtin_cpu_supports(\"{}\")) return \"{}\";\n", f, f);
        add("    return NULL;\n}}\n\n");
    }

    void add_variant() {
        add("const variant variant_{} = {{\n    .name = {},\n    .lacks = lacks, .fill_constants = fill_constants,\n",
            c_name(facts.name), quoted(facts.name));
        for (const char *table : {"buffers", "arguments", "tensors", "scalar_names", "scalar_values", "scalar_ranges",
                                  "group_scalars", "target_ranges"})
            add("    .{} = {},\n", table, table);
        add("{}", fields);
        for (auto [field, buffer] : {std::pair{"input", input(p.task)},
                                     {"target", input("targets")},
                                     {"scalar", p.find(Role::scalars)},
                                     {"count", p.find(Role::count)},
                                     {"loss", p.loss},
                                     {"output", p.output},
                                     {"row_weight", p.evaluation.loss < 0 ? -1 : p.evaluation.row_weights},
                                     {"evaluation_loss", p.evaluation.loss}})
            add("    .{}_buffer = {},\n", field, buffer);
        add("    .input_classes = {},\n    .state_bytes = {}, .scratch_bytes = {},\n}};\n", facts.input_classes, bytes,
            facts.scratch);
    }
};

}  // namespace

void check_exportable(const Plan &p) {
    for (const auto &[name, calls] : p.plans)
        if (std::ranges::count(plan_names, name) == 0) fail("a library does not know the plan '{}' of a step", name);
    if (p.buffers[size_t(p.find(Role::input, "targets"))].type != "int32")
        fail_usage("the model predicts numbers, but a library takes only ids as targets");
    if (p.scalar_values.size() > most_scalars || p.find(Role::scalars) < 0 ||
        p.buffers[size_t(p.find(Role::scalars))].elements() > most_scalars)
        fail_usage("the step has more numbers for updates than a library keeps ({})", most_scalars);
    for (const PlanIds &ids : p.ids)
        if (ids.mean_weight >= 0)
            fail_usage("the rows of '{}' have different weights, but a library has only means over all rows", ids.loss);
    if (p.find(Role::input, "mode") >= 0)
        fail_usage("layers of the model differ between training and evaluation, which a library cannot tell them: "
                   "leave out dropout and batch norm");
    for (const PlanBuffer &b : p.buffers)
        if ((b.role == Role::parameter || b.role == Role::state) && b.shape.size() > 4)
            fail_usage("'{}' has {} dimensions: a library knows tensors of at most 4", b.name, b.shape.size());
}

void check_kernels(const Plan &p) {
    for (const PlanKernel &k : p.kernels) {
        if (k.symbol.empty()) fail_usage("a kernel of {} has no compiled code: use --dialect halide", k.layer);
        if (k.args.size() > most_arguments)
            fail_usage("a kernel of {} has {} arguments, at most {} are known", k.layer, k.args.size(), most_arguments);
        for (const PlanArgument &a : k.args)
            if (a.extents.size() > most_dimensions)
                fail_usage("a kernel of {} has an argument of {} dimensions", k.layer, a.extents.size());
    }
}

std::string c_name(std::string name) {
    for (char &c : name)
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    return name;
}

std::string variant_tables(const Plan &plan, const VariantFacts &facts) { return Tables(plan, facts).text(); }

}  // namespace cryolite
