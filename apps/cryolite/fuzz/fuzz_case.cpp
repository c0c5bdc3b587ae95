#include "apps/cryolite/fuzz/fuzz_case.h"

#include <algorithm>
#include <charconv>
#include <sstream>

#include "runtime/io/error.h"
#include "runtime/system/rng.h"

namespace cryolite {

namespace {

struct Number {
    const char *name;
    int FuzzCase::*at;
    int least, most;
};
constexpr Number numbers[] = {
    {"kind", &FuzzCase::kind, 1, 3},         {"examples", &FuzzCase::examples, 1, 64},
    {"context", &FuzzCase::context, 1, 256}, {"vocab", &FuzzCase::vocab, 5, 256},
    {"columns", &FuzzCase::columns, 1, 256}, {"memory", &FuzzCase::memory, 0, 100},
    {"data", &FuzzCase::data, 1, 1 << 30},
};

std::string dotted(const std::vector<int> &list) { return fmt::format("{}", fmt::join(list, ".")); }

int number_in(const std::string &text, const std::string &of, int least, int most) {
    int n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc() || end != text.data() + text.size() || n < least || n > most)
        fail_usage("{} of a case is {}, expected a whole number from {} to {}", of, shown(text), least, most);
    return n;
}

std::vector<int> list_in(const std::string &text, const std::string &of) {
    std::vector<int> list;
    std::istringstream in(text);
    for (std::string word; std::getline(in, word, '.');) list.push_back(number_in(word, of, 0, 255));
    return list;
}

void read_word(FuzzCase &c, const std::string &name, const std::string &value) {
    if (name == "choices") {
        c.choices.clear();
        std::istringstream in(value);
        for (std::string group; std::getline(in, group, '/');) c.choices.push_back(list_in(group, name));
        return;
    }
    if (name == "without") return void(c.without = list_in(value, name));
    for (const Number &n : numbers)
        if (name == n.name) return void(c.*n.at = number_in(value, name, n.least, n.most));
    for (const StepSetting &s : step_settings())
        if (name == s.name) {
            if (!read_value(s, value, s.of(c.step)))
                fail_usage("{} of a case is {}, expected {}", name, shown(value), expected(s));
            return;
        }
    fail_usage("a case has no {}: it is what fuzz prints, such as choices=1.0/3.2 examples=2 update=backward",
               shown(name));
}

/// The random numbers of a case, in order.
class Draws {
public:
    Draws(uint64_t seed, const std::string &stream) : rng(seed, stream) {}
    int below(int n) { return int(rng.below(uint64_t(n), at++)); }
    template <typename T> T of(std::initializer_list<T> list) { return list.begin()[below(int(list.size()))]; }

private:
    Rng rng;
    uint64_t at = 0;
};

}  // namespace

std::string choices_text(const FuzzChoices &choices) {
    std::string text;
    for (const std::vector<int> &group : choices)
        text += (text.empty() ? "" : "/") + (group.empty() ? "0" : dotted(group));
    return text.empty() ? "0" : text;
}

std::string text_of(const FuzzCase &given) {
    FuzzCase c = given, plain;
    std::string text = "choices=" + choices_text(c.choices);
    for (const Number &n : numbers)
        if (c.*n.at != plain.*n.at) text += fmt::format(" {}={}", n.name, c.*n.at);
    if (!c.without.empty()) text += " without=" + dotted(c.without);
    for (const StepSetting &s : step_settings())
        if (const std::string value = text_of(s, s.of(c.step)); value != text_of(s, s.of(plain.step)))
            text += fmt::format(" {}={}", s.name, value);
    return text;
}

FuzzCase read_fuzz_case(const std::string &text) {
    FuzzCase c;
    std::istringstream in(text);
    for (std::string word; in >> word;) {
        const size_t equals = word.find('=');
        read_word(c, word.substr(0, equals), equals == std::string::npos ? "" : word.substr(equals + 1));
    }
    if (c.micro_batch() < 1 || c.examples % (c.step.accumulate * c.step.workers))
        fail_usage("{} examples cannot be divided among {} workers in {} equal micro-batches", c.examples,
                   c.step.workers, c.step.accumulate);
    return c;
}

FuzzCase draw_model(uint64_t seed, uint64_t n) {
    Draws d(seed, fmt::format("fuzz model {}", n));
    FuzzCase c;
    constexpr int first = 16, each = 12;  // numbers that a model takes for itself, and for a layer or a block of them
    c.choices.assign(1 + size_t(1 + d.below(5)), {});
    for (size_t g = 0; g < c.choices.size(); g++)
        for (int k = 0; k < (g ? each : first); k++) c.choices[g].push_back(d.below(256));
    c.kind = d.of({1, 1, 1, 2, 3});
    c.examples = d.of({2, 4, 4, 6, 8});
    c.context = d.of({5, 3, 8, 19, 16});
    c.vocab = d.of({19, 11, 32, 7});
    c.columns = d.of({7, 16, 3});
    c.data = 1 + d.below(1 << 20);
    c.step.optimizer = d.of<const char *>({"sgd", "sgd", "adamw", "adamw", "lars"});
    c.step.clip = d.of({0.0, 0.0, 0.5});
    return c;
}

FuzzCase draw_variant(const FuzzCase &model, uint64_t seed, uint64_t n) {
    Draws d(seed, fmt::format("fuzz variant {}", n));
    FuzzCase c = model;
    c.step.update = d.of<const char *>({"separate", "backward", "forward", "auto"});
    c.step.precision = d.of({"fp32", "fp32", "fp32", "fp32", "bf16", "fp16"});
    if (c.step.precision == "fp16") c.step.loss_scale = 256;  // with which few gradients overflow in three steps
    c.step.head_rows = c.kind == 1 ? d.of({-1, -1, 0, 32}) : -1;
    if (d.below(6) == 5) c.step.group = "none";
    c.step.workers = d.of({1, 1, 1, 2});
    c.step.accumulate = d.of({1, 1, 2, c.examples / c.step.workers});
    if (c.examples % (c.step.workers * c.step.accumulate)) c.step.accumulate = 1;
    c.memory = d.of({0, 0, 0, 30, 60, 90});
    constexpr int most_lines = 60;
    for (int line = 1, keep = d.below(3); line <= most_lines; line++)
        if (keep == 2 ? d.below(2) : keep == 1 && d.below(6) == 0) c.without.push_back(line);
    return c;
}

}  // namespace cryolite
