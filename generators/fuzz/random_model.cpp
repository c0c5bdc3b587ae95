#include "generators/fuzz/random_model.h"

#include <algorithm>

#include "dsl/layers/attention.h"
#include "dsl/layers/embedding.h"
#include "dsl/layers/layer_norm.h"
#include "dsl/layers/linear.h"
#include "dsl/layers/rms_norm.h"
#include "dsl/tensor.h"
#include "generators/fuzz/layers.h"

namespace cryolite::fuzz {

namespace {

std::string init_text(int in) { return fmt::format("he({})", in); }

}  // namespace

RandomModel::RandomModel() {
    const std::string text = Arguments::current().take("choices", "text", "0", "numbers that decide on the model");
    std::vector<Choices> groups = read_choices(text);
    std::vector<Choices> left_out =
        read_choices(Arguments::current().take("without", "text", "", "lines of its schedule that are left out"));
    for (Choices &c : left_out)
        for (int n = c.take(256); n; n = c.take(256)) without.insert(n);
    if (kind > 3) fail("--kind is {}, expected 1, 2 or 3", int(kind));
    Choices first = groups.empty() ? Choices() : groups[0];
    begin(first);
    int x = int(channels.size()) - 1;
    for (size_t g = 1; g < groups.size(); g++) x = step(x, groups[g]);
    end(x, first);
}

std::vector<std::string> RandomModel::param_groups(const std::string &choices) {
    std::vector<Choices> groups = read_choices(choices);
    const std::string one =
        groups.empty()
            ? ""
            : groups[0].of<std::string>({"", "", "", "l0=lr:0.5x", "*.weight=decay:0x", "l0=lr:2x,decay:3x"});
    return one.empty() ? std::vector<std::string>{} : std::vector{one};
}

Tensor RandomModel::input(Graph &g) {
    if (kind == text) return g.input("tokens", {context, batch}, Halide::Int(32));
    return g.input("features", {columns, batch}, Halide::Float(32));
}

Tensor RandomModel::targets(Graph &g) {
    if (kind == numbers) return g.input("targets", {vocab, batch}, Halide::Float(32));
    return g.input("targets", kind == text ? Shape{context, batch} : Shape{batch}, Halide::Int(32));
}

Tensor RandomModel::forward(Tensor x) {
    v = {x};
    for (const Made &m : made) v.push_back(m.make(v));
    return v[size_t(output)];
}

Tensor RandomModel::loss(Tensor, Tensor targets) {
    v.push_back(targets);
    Tensor sum = terms.at(0).make(v);
    for (size_t k = 1; k < terms.size(); k++) sum = sum + terms[k].make(v);
    return sum;
}

template <typename L, typename... Given>
L &RandomModel::add(const std::string &type, const std::string &given, Given &&...g) {
    const std::string path = fmt::format("l{}", layers.size());
    auto made = std::make_unique<L>(path, std::forward<Given>(g)...);
    L &layer = *made;
    layers.push_back(std::move(made));
    names[&layer] = path;
    declarations[&layer] = fmt::format("{} {}{{\"{}\"{}{}}};", type, path, path, given.empty() ? "" : ", ", given);
    return layer;
}

int RandomModel::push(int width, Made m) {
    channels.push_back(width);
    made.push_back(std::move(m));
    return int(channels.size()) - 1;
}

int RandomModel::call(Layer &l, int x) {
    int width = channels[size_t(x)];
    if (auto *linear = dynamic_cast<Linear *>(&l)) width = linear->out;
    if (auto *table = dynamic_cast<Embedding *>(&l)) width = table->width;
    if (dynamic_cast<Attention *>(&l)) width /= 3;
    if (dynamic_cast<TiedHead *>(&l)) width = vocab;
    return push(width, {fmt::format("{}(v[{}])", name(l), x), [&l, x](auto &v) { return l(v[size_t(x)]); }, &l, x});
}

int RandomModel::call(Layer &l, int x, int y) {
    auto &two = dynamic_cast<Layer2 &>(l);
    return push(channels[size_t(x)], {fmt::format("{}(v[{}], v[{}])", name(l), x, y),
                                      [&two, x, y](auto &v) { return two(v[size_t(x)], v[size_t(y)]); }, &l, x});
}

Layer &RandomModel::linear(int in, int out, Choices &c) {
    const int how = c.take(4);
    const LinearOptions o{.init = he(in), .bias = how != 1, .in_innermost = how == 2};
    return add<Linear>("Linear",
                       fmt::format("{}, {}, LinearOptions{{.init = {}, .bias = {}, .in_innermost = {}}}", in, out,
                                   init_text(in), o.bias, o.in_innermost),
                       in, out, o);
}

template <typename L> L *RandomModel::known(int width, Choices &c) {
    std::vector<L *> list;
    for (const Made &m : made)
        if (auto *l = dynamic_cast<L *>(m.layer); l && channels[size_t(m.from)] == width && m.from > 0)
            list.push_back(l);
    return list.empty() ? nullptr : list[size_t(c.take(int(list.size())))];
}

/// An earlier value of `width` channels, not the model's input. The caller knows that there is one.
int RandomModel::earlier(int width, Choices &c) const {
    std::vector<int> list;
    for (int k = int(channels.size()); k-- > 1;)
        if (channels[size_t(k)] == width) list.push_back(k);
    return list.at(size_t(c.take(int(list.size()))));
}

void RandomModel::begin(Choices &c) {
    c.take(6);  // param_groups() uses this number
    channels = {0};
    const int width = c.of<int>({6, 8, 10, 16, 5, 17, 12});
    if (kind == text)
        call(add<Embedding>("Embedding", fmt::format("{}, {}, normal(0.5)", int(vocab), width), int(vocab), width,
                            normal(0.5)),
             0);
    else
        call(linear(columns, width, c), 0);
}

/// Adds a layer, an operator or a block that reads value x. Returns the value that the next step takes.
int RandomModel::step(int x, Choices &c) {
    const int op = c.take(20), first = int(channels.size());
    x = op < 12 ? element(x, op, c) : block(x, op, c);
    for (int value = first; value < int(channels.size()); value++) lines_of(value, c);
    return x;
}

/// Adds one operator, one layer, or two layers of one type.
int RandomModel::element(int x, int op, Choices &c) {
    const int width = channels[size_t(x)];
    switch (op) {
    case 0:
        return call(linear(width, c.take(2) ? c.of<int>({6, 8, 10, 16, 5, 17, 12}) : width, c), x);
    case 1:
        if (Linear *l = known<Linear>(width, c)) return call(*l, x);
        return call(linear(width, width, c), x);
    case 2:
        return call(add<LayerNorm>("LayerNorm", std::to_string(width), width), x);
    case 3:
        if (Gelu *l = c.take(2) ? known<Gelu>(width, c) : nullptr) return call(*l, x);
        return call(add<Gelu>("Gelu", ""), x);
    case 4:
        if (Relu *l = c.take(2) ? known<Relu>(width, c) : nullptr) return call(*l, x);
        return call(add<Relu>("Relu", ""), x);
    case 5: {
        const int y = earlier(width, c);
        return push(width, {fmt::format("v[{}] + v[{}]", y, x), [=](auto &v) { return v[size_t(y)] + v[size_t(x)]; }});
    }
    case 6:
    case 7: {  // often two that differ in a data member
        const int how = c.take(3);
        x = call(add<Curve>("fuzz::Curve", std::to_string(how), how), x);
        if (const int other = (how + c.take(3)) % 3; other != how)
            x = call(add<Curve>("fuzz::Curve", std::to_string(other), other), x);
        return x;
    }
    case 8: {
        const bool adds = c.take(2), two = c.take(2);
        x = call(add<Gain>("fuzz::Gain", fmt::format("{}, {}", width, adds), width, adds), x);
        return two ? call(add<Gain>("fuzz::Gain", fmt::format("{}, {}", width, !adds), width, !adds), x) : x;
    }
    case 9:
        if (RMSNorm *l = known<RMSNorm>(width, c)) return call(*l, x);
        return call(add<RMSNorm>("RMSNorm", std::to_string(width), width), x);
    case 10: {
        const int y = earlier(width, c);
        if (c.take(2))
            return push(width, {fmt::format("v[{}] - 0.5 * v[{}]", x, y),  // x - x would be at the kink of a ReLU
                                [=](auto &v) { return v[size_t(x)] - 0.5 * v[size_t(y)]; }});
        return push(width, {fmt::format("v[{}] * v[{}]", x, y), [=](auto &v) { return v[size_t(x)] * v[size_t(y)]; }});
    }
    default:
        return push(width, {fmt::format("0.5 * v[{}]", x), [=](auto &v) { return 0.5 * v[size_t(x)]; }});
    }
}

/// Adds several layers that often occur together, or an operator that takes more than one value.
int RandomModel::block(int x, int op, Choices &c) {
    const int width = channels[size_t(x)];
    auto plus = [&](int y) {
        return push(width, {fmt::format("v[{}] + v[{}]", x, y), [=](auto &v) { return v[size_t(x)] + v[size_t(y)]; }});
    };
    switch (op) {
    case 12:
    case 13: {
        const int inner = c.of<int>({12, 7, 20, 16});
        int y = call(add<LayerNorm>("LayerNorm", std::to_string(width), width), x);
        y = call(linear(width, inner, c), y);
        y = op == 12 ? call(add<Gelu>("Gelu", ""), y) : call(add<Relu>("Relu", ""), y);
        return plus(call(linear(inner, width, c), y));
    }
    case 14: {
        if (kind != text || width % 2) return call(add<SiLU>("SiLU", ""), x);
        int y = call(linear(width, 3 * width, c), x);
        y = call(add<CausalAttention>("CausalAttention", "2", 2), y);
        return plus(call(linear(width, width, c), y));
    }
    case 15: {
        const int gate = call(linear(width, width, c), x), up = c.take(2) ? x : call(linear(width, width, c), x);
        return call(add<SwiGLU>("SwiGLU", ""), gate, up);
    }
    case 16: {
        const int y = earlier(channels[size_t(1 + c.take(int(channels.size()) - 1))], c), w = channels[size_t(y)];
        return push(width + w, {fmt::format("concat({{v[{}], v[{}]}}, 0)", x, y), [=](auto &v) {
                                    return concat({v[size_t(x)], v[size_t(y)]}, 0);
                                }});
    }
    case 17: {
        if (width < 4) return x;
        const int first = c.take(2), end = width - c.take(2);
        return push(end - first, {fmt::format("slice(v[{}], 0, {}, {})", x, first, end),
                                  [=](auto &v) { return slice(v[size_t(x)], 0, first, end); }});
    }
    case 18:  // reads the table once more, or returns to the first width
        if (kind == text && width == channels[1]) return plus(call(*layers[0], 0));
        return call(linear(width, channels[1], c), x);
    default: {
        const int y = earlier(width, c);
        return push(width, {fmt::format("v[{}] * stop_gradient(v[{}])", x, y),
                            [=](auto &v) { return v[size_t(x)] * stop_gradient(v[size_t(y)]); }});
    }
    }
}

void RandomModel::end(int x, Choices &c) {
    const bool tied = kind == text && c.take(2);
    if (tied) {
        if (channels[size_t(x)] != channels[1]) x = call(linear(channels[size_t(x)], channels[1], c), x);
        auto &table = static_cast<Embedding &>(*layers[0]);
        layers.push_back(std::make_unique<TiedHead>(table));
        names[layers.back().get()] = fmt::format("l{}", layers.size() - 1);
        declarations[layers.back().get()] = fmt::format("TiedHead l{}{{l0}};", layers.size() - 1);
        call(*layers.back(), x);
    } else {
        call(linear(channels[size_t(x)], vocab, c), x);
    }
    head = layers.back().get(), output = int(channels.size()) - 1;
    add_terms(x, c);
    if (kind == text && c.take(3) == 2) {
        const int rows = c.of<int>({32, 64});
        line(fmt::format("s(m.{}).compute_at(m.{}, {});", name(*head), name(*criterion), rows),
             [this, rows](Step &s) { s(*head).compute_at(*criterion, rows); });
    }
    if (c.take(4) == 3) freeze_one(c);
}

/// Freezes one of the layers that have parameters of their own. The first layer is always trained.
void RandomModel::freeze_one(Choices &c) {
    std::vector<Layer *> own;
    for (const auto &l : layers)
        if (!l->parameters().empty() && !dynamic_cast<TiedHead *>(l.get()) && l != layers[0]) own.push_back(l.get());
    if (own.empty()) return;
    Layer &some = *c.of(own);
    some.freeze();
    frozen.push_back(name(some));
}

}  // namespace cryolite::fuzz
