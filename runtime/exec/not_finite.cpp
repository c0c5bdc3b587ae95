#include "runtime/exec/not_finite.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "runtime/files/safetensors.h"
#include "runtime/io/error.h"

namespace cryolite {

/// What an argument of a call holds.
struct FiniteWatch::Seen {
    size_t argument;
    std::vector<std::byte> bytes;
};

namespace {

/// Bit patterns of a type of floats: the exponent is all ones where the value is not finite.
template <typename Bits> struct Format {
    Bits exponent;
    double (*value)(Bits);

    static Bits at(const std::vector<std::byte> &bytes, size_t i) {
        Bits bits;
        std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
        return bits;
    }
    bool finite(Bits bits) const { return (bits & exponent) != exponent; }

    /// The first element that is not finite and had other bits before.
    std::optional<size_t> first(const std::vector<std::byte> &now, const std::vector<std::byte> &before) const {
        for (size_t i = 0; i < now.size() / sizeof(Bits); i++)
            if (const Bits bits = at(now, i); !finite(bits) && bits != at(before, i)) return i;
        return std::nullopt;
    }
};

/// Calls work(format) for a floating-point type; values of other types are always finite.
template <typename Work> void with_format(const std::string &type, const Work &work) {
    if (type == "float32")
        work(Format<uint32_t>{0x7f800000, [](uint32_t b) -> double { return std::bit_cast<float>(b); }});
    else if (type == "bfloat16")
        work(Format<uint16_t>{0x7f80, [](uint16_t b) -> double { return std::bit_cast<float>(uint32_t(b) << 16); }});
    else if (type == "float16")
        work(Format<uint16_t>{0x7c00, [](uint16_t b) -> double { return float_from_half(b); }});
    else if (type == "float64")
        work(Format<uint64_t>{0x7ff0000000000000, [](uint64_t b) { return std::bit_cast<double>(b); }});
}

std::string quantity(const PlanBuffer &b) {
    if (b.role == Role::parameter) return fmt::format("the weight '{}'", b.name);
    if (b.role == Role::gradient) return fmt::format("the gradient of '{}'", b.name);
    if (b.role == Role::state) return fmt::format("the optimizer's '{}'", b.name);
    if (b.role == Role::norms) return "the squared norms of the gradients";
    if (b.role == Role::scale) return "the factor of gradients";
    if (b.name == "loss") return "the loss";
    if (b.name.starts_with("d(") && b.name.ends_with(")"))
        return fmt::format("the gradient of the output of '{}'", b.name.substr(2, b.name.size() - 3));
    return fmt::format("the output of '{}'", b.name);
}

/// The part of a joint buffer that holds an element, and the index in it; for other buffers the arguments themselves.
std::pair<int, size_t> part_at(const Plan &plan, int buffer, size_t element) {
    for (int b = 0; b < std::ssize(plan.buffers); b++)
        if (const PlanBuffer &part = plan.buffers[size_t(b)]; part.part_of == buffer)
            if (const size_t begin = size_t(part.begin);
                element >= begin && element - begin < size_t(part.stored_elements()))
                return {b, element - begin};
    return {buffer, element};
}

}  // namespace

std::string NotFinite::words(const Plan &plan) const {
    const auto line_at = std::next(plan.plans.begin(), std::ptrdiff_t(line));
    const PlanCall &c = line_at->second.at(call);
    const auto [whose, at] = part_at(plan, c.args.at(argument).buffer, index);
    const PlanBuffer &b = plan.buffers.at(size_t(whose));
    const std::string what = std::isnan(value) ? "nan" : fmt::format("{}", value);  // a NaN's sign is not shown
    return fmt::format("{}, at element {} of {}, which '{}' of the {} pass writes", what, at, quantity(b), c.name,
                       c.pass);
}

FiniteWatch::FiniteWatch(Executor &executor) : executor_(executor) { executor.clear_results(); }

/// The floats that a call writes.
std::vector<FiniteWatch::Seen> FiniteWatch::look(const PlanCall &c) const {
    const Plan &plan = executor_.plan();
    std::vector<Seen> seen;
    for (size_t i = 0; i < c.args.size(); i++) {
        const PlanBuffer &b = plan.buffers[size_t(c.args[i].buffer)];
        if (!plan.writes(c, i)) continue;
        with_format(b.type, [&](auto) {
            const size_t element = size_t(b.element_bytes());
            Seen &s = seen.emplace_back(i, std::vector<std::byte>(size_t(plan.elements(c, i)) * element));
            executor_.download(s.bytes.data(), c.args[i].buffer, s.bytes.size(), size_t(c.args[i].offset) * element);
        });
    }
    return seen;
}

void FiniteWatch::run(const std::string &name) {
    const Plan &plan = executor_.plan();
    const auto line = plan.plans.find(name);
    executor_.run_each(executor_.line(name), [&](size_t call, bool computes, const std::function<void()> &work) {
        if (!computes || found_) return work();
        const PlanCall &c = line->second[call];
        const std::vector<Seen> before = look(c);
        work();
        const std::vector<Seen> now = look(c);
        for (size_t n = 0; n < now.size() && !found_; n++)
            with_format(plan.buffers[size_t(c.args[now[n].argument].buffer)].type, [&](auto format) {
                if (const auto at = format.first(now[n].bytes, before[n].bytes))
                    found_ = NotFinite{watched_ + call,
                                       uint64_t(std::distance(plan.plans.begin(), line)),
                                       call,
                                       now[n].argument,
                                       *at,
                                       format.value(format.at(now[n].bytes, *at))};
            });
    });
    watched_ += line->second.size();
}

}  // namespace cryolite
