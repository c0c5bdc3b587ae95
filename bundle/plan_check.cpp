#include "bundle/plan_check.h"

#include <algorithm>
#include <array>
#include <bit>
#include <set>

#include "bundle/error.h"
#include "bundle/loss_scale.h"
#include "bundle/shown.h"
#include "bundle/step_config.h"

namespace cryolite {

namespace {

constexpr int64_t most =
    int64_t{1} << 50;  // bytes or elements: sums of some, times an element's bytes, do not overflow

bool counts(int64_t n) { return n >= 0 && n <= most; }

/// Elements of an array.
int64_t elements_of(const std::vector<int> &extents, const std::string &whose) {
    int64_t n = 1;
    for (int e : extents) {
        if (e < 0 || n > most / std::max(e, 1)) fail("'{}' has an array of [{}]", whose, fmt::join(extents, ", "));
        n *= e;
    }
    return n;
}

int bytes_of(const std::string &type, const std::string &whose) {
    static constexpr std::array known{"float64", "float32", "float16", "bfloat16", "int64",  "int32",
                                      "int16",   "int8",    "uint64",  "uint32",   "uint16", "uint8"};
    if (std::ranges::find(known, type) == known.end()) fail("'{}' has elements of type {}", whose, shown(type));
    PlanBuffer b;
    b.type = type;
    return b.element_bytes();
}

const PlanBuffer &buffer_at(const Plan &p, int index, const std::string &whose) {
    if (index < 0 || index >= int(p.buffers.size()))
        fail("'{}' names the buffer {} of {}", whose, index, p.buffers.size());
    return p.buffers[size_t(index)];
}

void check_layout(const PlanBuffer &b) {
    const auto [panel, dim] = b.layout;
    if (panel == 0) return;
    if (panel < 0 || dim < 0 || dim >= int(b.shape.size()))
        fail("'{}' is stored in panels of {} along {}", b.name, panel, dim);
    const int64_t cut = b.shape[size_t(dim)], padded = (cut + panel - 1) / panel * panel;
    if (cut > 0 && b.elements() / cut > most / padded) fail("'{}' is stored in panels of {}", b.name, panel);
    if (cut > 0 && b.elements() / cut * padded > b.stored_elements())
        fail("'{}' has {} bytes, too few for its panels of {}", b.name, b.bytes, panel);
}

/// A part of a joint buffer is read and written there, so it has to lie within it.
void check_part(const Plan &p, const PlanBuffer &b) {
    if (b.part_of == -1 && b.begin == 0) return;
    const PlanBuffer &whole = buffer_at(p, b.part_of, b.name);
    const bool kept = b.role == Role::parameter || b.role == Role::state || b.role == Role::gradient ||
                      b.role == Role::master_low || b.role == Role::master;
    if (!kept || !b.stored || !whole.stored || whole.role != Role::joint || whole.type != b.type)
        fail("'{}', a {} of {}, is no part of '{}', a {} of {}", b.name, role_name(b.role), b.type, whole.name,
             role_name(whole.role), whole.type);
    if (!counts(b.begin) || b.stored_elements() > whole.stored_elements() - b.begin)
        fail("'{}' reaches past the end of '{}'", b.name, whole.name);
}

void check_buffer(const Plan &p, const PlanBuffer &b) {
    const int element = bytes_of(b.type, b.name);
    const int64_t needed = elements_of(b.shape, b.name), stored = b.bytes / element;
    if (!counts(b.bytes) || b.bytes % element || needed > stored || (b.layout.panel == 0 && needed < stored))
        fail("'{}' has {} bytes for [{}] of {}", b.name, b.bytes, fmt::join(b.shape, ", "), b.type);
    check_layout(b), check_part(p, b);
    if (b.offset < -1 || b.offset > most) fail("'{}' begins at byte {}", b.name, b.offset);
    if (b.parameter < -1 || b.worker < -1 || b.worker >= p.workers)
        fail("'{}' is of parameter {}, worker {}", b.name, b.parameter, b.worker);
    if (b.parameter >= 0) buffer_at(p, b.parameter, b.name);
    // The trainer relies on these sizes when it copies between buffers and batches or files.
    if (b.role == Role::input && (b.shape.empty() || b.elements() < 1 || b.bytes != 4 * b.elements()))
        fail("the input '{}' is [{}] in {} bytes", b.name, fmt::join(b.shape, ", "), b.bytes);
    if (!b.constant.empty() &&
        (b.role != Role::input || b.type != "float32" || int64_t(b.constant.size()) != b.elements()))
        fail("'{}' has {} numbers for [{}]", b.name, b.constant.size(), fmt::join(b.shape, ", "));
    if (b.role == Role::parameter || b.role == Role::state)
        if (const bool narrow = p.master_of(int(&b - p.buffers.data())) >= 0; element > (narrow ? 2 : 4))
            fail("'{}' has elements of {}{}", b.name, b.type, narrow ? " with a master beside it" : "");
    if (b.role == Role::master)
        if (const PlanBuffer &w = buffer_at(p, b.parameter, b.name);
            b.type != "float32" || w.type != "float16" || b.stored_elements() != w.stored_elements())
            fail("'{}' is no master of '{}': {} in {} bytes for {} in {}", b.name, w.name, b.type, b.bytes, w.type,
                 w.bytes);
    if (b.role == Role::partial)
        if (const int g = p.gradient_of(b.parameter);
            g < 0 || b.type != "float32" || b.bytes != p.buffers[size_t(g)].bytes || b.level < 0 || !b.stored)
            fail("'{}' is no sum of gradients of parameter {}, over 2^{} parts", b.name, b.parameter, b.level);
    if (b.role == Role::loss_scaler && (b.elements() != 1 || b.bytes != 4))
        fail("'{}' is [{}] in {} bytes", b.name, fmt::join(b.shape, ", "), b.bytes);
}

/// A dialect relies on the declared arguments, as compiled code does.
void check_kernel(const PlanKernel &k) {
    const std::string whose = "a kernel of " + k.layer;
    if (k.symbol.empty() && k.dialects.empty()) fail("a kernel of layer '{}' has neither code nor a dialect", k.layer);
    std::vector<Product::Argument> arguments;
    for (const PlanArgument &a : k.args) {
        bytes_of(a.type, whose);
        arguments.push_back({a.type, elements_of(a.extents, whose), a.written});
    }
    for (const PlanKernel::Dialect &d : k.dialects) d.product.check(arguments);
}

void check_sum(const Plan &p, const PlanCall &c) {
    if (c.worker < 0 || c.args.size() != 1) fail("'{}' is no sum of one buffer for one worker", c.name);
    const PlanBuffer &b = buffer_at(p, c.args[0].buffer, c.name);
    const int64_t from = c.args[0].offset;
    if (b.type != "float32" || b.in_arena() || !counts(from) || c.sum > b.stored_elements() - from)
        fail("'{}' reaches past the end of '{}', or cannot add it", c.name, b.name);
}

void check_argument(const Plan &p, const PlanCall &c, const PlanCall::Bound &bound, const PlanArgument &a) {
    const PlanBuffer &b = buffer_at(p, bound.buffer, c.name);
    if (bytes_of(a.type, c.name) != b.element_bytes())
        fail("'{}' takes '{}', which is {}, for {}", c.name, b.name, b.type, a.type);
    if (!counts(bound.offset) || elements_of(a.extents, c.name) > b.stored_elements() - bound.offset)
        fail("'{}' reaches past the end of '{}'", c.name, b.name);
    if (b.role == Role::share && (c.worker < 0 || b.worker < 0 || p.gradient_of(b.parameter) < 0))
        fail("'{}' reads '{}', the gradient of no worker", c.name, b.name);
    if (b.in_arena() && (b.offset < 0 || b.bytes > p.arena - b.offset)) fail("'{}' lies outside of the arena", b.name);
}

/// A dialect writes its temporary values there, so they have to lie in the arena.
void check_workspace(const Plan &p, const PlanCall &c) {
    if (c.workspace == -1) return;
    const PlanBuffer &b = buffer_at(p, c.workspace, c.name);
    if (b.role != Role::activation || b.offset < 0 || b.bytes > p.arena - b.offset)
        fail("'{}' has no workspace in '{}'", c.name, b.name);
}

void check_call(const Plan &p, const PlanCall &c) {
    if (c.worker < -1 || c.worker >= p.workers) fail("'{}' is for worker {} of {}", c.name, c.worker, p.workers);
    if (c.sum > 0) return check_sum(p, c);
    if (c.kernel < 0 || c.kernel >= int(p.kernels.size())) fail("'{}' is a call of no kernel", c.name);
    const PlanKernel &k = p.kernels[size_t(c.kernel)];
    if (c.args.size() != k.args.size())
        fail("'{}' has {} arguments, its kernel {}", c.name, c.args.size(), k.args.size());
    for (size_t i = 0; i < c.args.size(); i++) check_argument(p, c, c.args[i], k.args[i]);
    check_workspace(p, c);
}

/// The trainer writes the weights of rows and reads the loss by this description alone.
void check_evaluation(const Plan &p) {
    const auto &[loss, weights, hindrance, terms] = p.evaluation;
    if (loss < 0 && !hindrance.empty()) return;
    if (!terms.empty() && terms.size() != p.terms.size())
        fail("its evaluation tells {} of its {} losses", terms.size(), p.terms.size());
    for (int t : terms)
        if (const PlanBuffer &b = buffer_at(p, t, "evaluation"); b.role != Role::activation || b.type != "float32")
            fail("its evaluation tells '{}', which is no result", b.name);
    const PlanBuffer &result = buffer_at(p, loss, "evaluation"), &w = buffer_at(p, weights, "evaluation");
    const int targets = p.find(Role::input, "targets");
    if (result.role != Role::activation || result.type != "float32" || !p.plans.contains(entry::evaluate))
        fail("its evaluation makes no loss");
    if (w.role != Role::input || w.type != "float32" || targets < 0 ||
        w.elements() != p.buffers[size_t(targets)].elements())
        fail("its evaluation has no weight for each row of the targets");
}

/// The trainer expects the counters of the loss scale right after it.
void check_loss_scaler(const Plan &p) {
    const int at = p.find(Role::loss_scaler);
    if (at < 0) return;
    static constexpr std::array<std::pair<const char *, const char *>, 3> expected{
        {{"loss_scale", "float32"}, {"good_steps", "int32"}, {"low_steps", "int32"}}};
    for (size_t k = 0; k < expected.size(); k++)
        if (const PlanBuffer &b = buffer_at(p, at + int(k), "loss_scaler");
            b.role != Role::loss_scaler || b.name != expected[k].first || b.type != expected[k].second)
            fail("its scale of the loss has '{}', a {} of {}, for {}", b.name, role_name(b.role), b.type,
                 expected[k].first);
    for (const LossScaleNumber &n : loss_scale_numbers)
        if (p.scalar(n.name) < 0) fail("its scale of the loss has no {}", n.name);
}

/// The trainer counts targets, and writes their mean weight, by this description alone.
void check_ids(const Plan &p, const PlanIds &ids) {
    auto input_of = [&](int index, int64_t elements, const char *type) -> const PlanBuffer & {
        const PlanBuffer &b = buffer_at(p, index, ids.loss);
        if (b.role != Role::input || b.type != type || (elements && b.elements() != elements))
            fail("'{}' takes '{}', which is a {} {} of {}", ids.loss, b.name, role_name(b.role), b.type, b.elements());
        return b;
    };
    if (ids.classes < 0) fail("'{}' has {} classes", ids.loss, ids.classes);
    const bool of_numbers = ids.classes == 0 && buffer_at(p, ids.input, ids.loss).type == "float32";
    if (input_of(ids.input, 0, of_numbers ? "float32" : "int32").name != "targets")
        fail("'{}' counts rows by what is not the targets", ids.loss);
    if (ids.mean_weight >= 0) input_of(ids.mean_weight, 1, "float32");
    if (ids.class_weights >= 0 && input_of(ids.class_weights, ids.classes, "float32").constant.empty())
        fail("'{}' has weights of classes that are nowhere", ids.loss);
}

/// The trainer writes the whole of the input that tells layers the mode of a pass.
void check_mode(const Plan &p) {
    const int b = p.find(Role::input, "mode");
    if (b >= 0 && (p.buffers[size_t(b)].type != "int32" || p.buffers[size_t(b)].elements() != Plan::mode_words))
        fail("its mode is [{}] of {}", fmt::join(p.buffers[size_t(b)].shape, ", "), p.buffers[size_t(b)].type);
}

/// The trainer writes the scalars by this description of groups alone.
void check_groups(const Plan &p) {
    const int b = p.find(Role::scalars);
    const int64_t scalars = b < 0 ? 0 : p.buffers[size_t(b)].elements(), each = int64_t(p.scalar_names.size());
    if (b >= 0 && (p.buffers[size_t(b)].type != "float64" || scalars < each))
        fail("its array of scalars has {} elements", scalars);
    for (const PlanGroup &g : p.groups) {
        if (g.at < 0 || g.at > scalars - each) fail("a group of parameters has its scalars at {} of {}", g.at, scalars);
        for (const PlanGroup::Setting &s : g.settings)
            if (p.scalar(s.scalar) < 0) fail("a group of parameters sets '{}', which is no scalar", shown(s.scalar));
        for (int w : g.parameters) buffer_at(p, w, "a group of parameters");
    }
}

/// The sums of a worker's parts are added in a tree: the number of parts decides which sums are needed.
void check_parts(const Plan &p) {
    if (p.parts == 0) return;
    const int each = p.parts > 0 && p.parts % p.workers == 0 ? p.parts / p.workers : 0;
    if (!std::has_single_bit(unsigned(each)) || p.parts > most_batch_parts || !p.plans.contains(entry::first))
        fail("it is for {} parts of a batch, of {} workers", p.parts, p.workers);
    std::map<int, std::set<int>> levels;
    for (const PlanBuffer &b : p.buffers)
        if (b.role == Role::partial) levels[b.parameter].insert(b.level);
    for (const PlanBuffer &b : p.buffers)
        if (b.role == Role::gradient)
            for (int level = 0; 1 << level < each; level++)
                if (!levels[b.parameter].count(level)) fail("'{}' has no sum of 2^{} parts", b.name, level);
}

}  // namespace

void check_plan(const Plan &p) {
    if (p.workers < 1 || p.workers > 1 << 16) fail("it is for {} workers", p.workers);
    check_parts(p);
    if (p.capability < 0 || (p.device == "cuda") != (p.capability > 0))
        fail("it is for the device {} with the compute capability {}", p.device, p.capability);
    if (!counts(p.arena) || !counts(p.arena_unshared)) fail("its arena has {} bytes", p.arena);
    if (p.scalar_names.size() != p.scalar_values.size())
        fail("it has {} numbers of {} names", p.scalar_values.size(), p.scalar_names.size());
    for (const PlanBuffer &b : p.buffers) check_buffer(p, b);
    buffer_at(p, p.loss, "loss"), buffer_at(p, p.output, "output");
    check_evaluation(p);
    for (const Plan::Term &t : p.terms)
        if (const PlanBuffer &b = buffer_at(p, t.buffer, t.loss);
            b.role != Role::activation || b.type != "float32" || b.offset < 0)
            fail("the loss '{}' is '{}', which is no result", t.loss, b.name);
    check_groups(p);
    check_mode(p);
    check_loss_scaler(p);
    for (const PlanIds &ids : p.ids) check_ids(p, ids);
    for (const PlanKernel &k : p.kernels) check_kernel(k);
    for (const auto &[name, calls] : p.plans)
        for (const PlanCall &c : calls) check_call(p, c);
}

}  // namespace cryolite
