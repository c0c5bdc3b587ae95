#include "dialects/product.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "dialects/names.h"

namespace cryolite {

using nlohmann::json;

namespace {

const char *const forms[] = {"forward", "d_input", "d_parameter"};

template <typename... Args> [[noreturn]] void refuse(fmt::format_string<Args...> text, Args &&...args) {
    throw std::runtime_error(fmt::format(text, std::forward<Args>(args)...));
}

/// A whole number from the plan's file, which may hold anything. Throws where it is no `int`.
int whole(const json &j) {
    if (!j.is_number_integer() || j.get<int64_t>() < INT_MIN || j.get<int64_t>() > INT_MAX ||
        (j.is_number_unsigned() && j.get<uint64_t>() > INT_MAX))
        refuse("a product has {} where a whole number is expected", j.dump(-1, ' ', true));
    return j.get<int>();
}
int whole(const json &j, const char *name, int otherwise) { return j.contains(name) ? whole(j.at(name)) : otherwise; }

struct WindowNumber {
    const char *name;
    int Product::Window::*number;
};
constexpr WindowNumber window_numbers[] = {
    {"images", &Product::Window::images},     {"width", &Product::Window::width},
    {"height", &Product::Window::height},     {"size", &Product::Window::size},
    {"stride", &Product::Window::stride},     {"padding", &Product::Window::padding},
    {"dilation", &Product::Window::dilation}, {"groups", &Product::Window::groups}};

/// The product of numbers that are 0 or more. Throws where it overflows.
int64_t times(std::initializer_list<int64_t> numbers) {
    int64_t all = 1;
    for (int64_t n : numbers)
        if (__builtin_mul_overflow(all, n, &all)) refuse("a product has 2^63 elements or more");
    return all;
}

void check_window(const Product &p) {
    const Product::Window &w = *p.window;
    for (const WindowNumber &n : window_numbers)
        if (w.*n.number < (n.number == &Product::Window::padding ? 0 : 1))
            refuse("a convolution has '{}' {}", n.name, w.*n.number);
    if (p.in % w.groups || p.out % w.groups)
        refuse("{} groups do not divide {} and {} channels", w.groups, p.in, p.out);
    const int64_t wide = w.places(w.width), high = w.places(w.height);
    if (wide < 1 || high < 1 || times({w.images, wide, high}) != p.rows)
        refuse("a convolution has {} rows, expected {} images of {} x {} places", p.rows, w.images, wide, high);
    if (p.inputs_innermost) refuse("a convolution has its inputs innermost");
}

}  // namespace

const std::vector<std::string> epilogue_ops = {"bias",     "add",    "relu",        "gelu_tanh",
                                               "gelu_erf", "d_relu", "d_gelu_tanh", "d_gelu_erf"};

void to_json(json &j, const Product &p) {
    j = {{"form", forms[p.form]}, {"type", p.type},   {"rows", p.rows},    {"in", p.in},
         {"out", p.out},          {"panel", p.panel}, {"stores", p.stores}};
    if (p.result != "float32") j["result"] = p.result;
    if (p.inputs_innermost) j["inputs_innermost"] = true;
    if (p.bias_gradient >= 0) j["bias_gradient"] = p.bias_gradient;
    if (p.accumulate) j["accumulate"] = true;
    if (p.window)
        for (const WindowNumber &n : window_numbers) j["window"][n.name] = (*p.window).*n.number;
    for (auto [name, argument] : {std::pair{"weight", p.weight}, {"x", p.x}, {"dy", p.dy}})
        if (argument >= 0) j[name] = argument;
    j["then"] = json::array();
    for (const Product::Then &t : p.then) j["then"].push_back({{"op", t.op}, {"reads", t.reads}, {"stores", t.stores}});
}

void from_json(const json &j, Product &p) {
    const auto form = std::ranges::find(forms, j.at("form").get<std::string>());
    if (form == std::end(forms)) refuse("a product has the form {}", j["form"].dump());
    p.form = Product::Form(form - forms);
    p.type = j.at("type"), p.result = j.value("result", "float32"), p.rows = whole(j.at("rows")),
    p.in = whole(j.at("in")), p.out = whole(j.at("out"));
    p.panel = whole(j.at("panel")), p.stores = whole(j.at("stores"));
    p.inputs_innermost = j.value("inputs_innermost", false);
    p.accumulate = j.value("accumulate", false);
    p.bias_gradient = whole(j, "bias_gradient", -1);
    p.window.reset();
    if (j.contains("window")) {
        Product::Window window;
        for (const WindowNumber &n : window_numbers) window.*n.number = whole(j.at("window").at(n.name));
        p.window = window;
    }
    p.weight = whole(j, "weight", -1), p.x = whole(j, "x", -1), p.dy = whole(j, "dy", -1);
    p.then.clear();
    for (const json &t : j.at("then")) p.then.push_back({t.at("op"), whole(t.at("reads")), whole(t.at("stores"))});
}

void Product::check(std::span<const Argument> arguments) const {
    if (rows < 1 || in < 1 || out < 1 || panel < 0 || panel > widest_panel)
        refuse("a product has {} rows, {} x {} weights, panels of {}", rows, in, out, panel);
    if (inputs_innermost && panel) refuse("a product's panels have its inputs innermost");
    if (window) check_window(*this);
    const int64_t of_out = window ? times({in / window->groups, window->size, window->size}) : in;
    const int64_t weights = times({panel ? (int64_t(out) + panel - 1) / panel * panel : out, of_out});
    const int64_t of_x = times({window ? times({window->images, window->width, window->height}) : rows, in});
    auto need = [&](const char *what, int argument, int64_t n, bool writes, const std::string &of) {
        if (argument < 0 || size_t(argument) >= arguments.size()) refuse("a product names no argument as its {}", what);
        const Argument &a = arguments[size_t(argument)];
        if (a.elements != n || a.written != writes || a.type != of)
            refuse("argument {} of a product is no {} of {} elements of {}", argument, what, n, of);
    };
    const std::string factors = type == "tfloat32" ? "float32" : type;
    const int64_t elements = form == forward ? int64_t(rows) * out : form == d_input ? of_x : weights;
    if (form != d_parameter) need("weight", weight, weights, false, factors);
    if (form != d_input) need("x", x, of_x, false, factors);
    if (form != forward) need("dy", dy, int64_t(rows) * out, false, factors);
    if (stores >= 0) need("result", stores, elements, true, result);
    if (bias_gradient >= 0 && form != d_parameter) refuse("a product of this form has no gradient of a bias");
    if (bias_gradient >= 0) need("gradient of the bias", bias_gradient, out, true, result);
    for (const Then &t : then) {
        if (std::ranges::find(epilogue_ops, t.op) == epilogue_ops.end())
            refuse("a product has the epilogue '{}'", t.op);
        if (form == d_parameter || (t.op == "bias" && form != forward))
            refuse("a product of this form has no epilogue '{}'", t.op);
        const bool reads = t.op == "bias" || t.op == "add" || t.op.starts_with("d_");
        if (reads) need("array of an epilogue", t.reads, t.op == "bias" ? out : elements, false, result);
        if (t.stores >= 0) need("result", t.stores, elements, true, result);
    }
    if (then.empty() ? stores < 0 : then.back().stores < 0) refuse("a product stores nothing");
}

}  // namespace cryolite
