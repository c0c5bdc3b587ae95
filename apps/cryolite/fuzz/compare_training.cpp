#include "apps/cryolite/fuzz/compare_training.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runtime/io/error.h"

namespace cryolite {

using nlohmann::json;

namespace {

double number(const json &j) { return j.is_number() ? j.get<double>() : NAN; }

double relative(double difference, double scale) {
    const double d = difference / scale;
    return std::isfinite(d) ? d : difference == 0 ? 0 : INFINITY;
}

/// |(a - from) - (b - from)| / |b - from|, in norms. As float32 rounds a small change of a large number, a share of |b|
/// is added to the divisor.
double distance_of_change(const json &from, const json &a, const json &b) {
    double difference = 0, change = 0, size = 0;
    for (size_t i = 0; i < b.size(); i++) {
        const double x = number(a.at(i)), y = number(b.at(i)), begin = number(from.at(i));
        difference += (x - y) * (x - y), change += (y - begin) * (y - begin), size += y * y;
    }
    constexpr double kept = 1e-3;  // a change of this share of a number has four digits left in float32
    return relative(std::sqrt(difference), std::sqrt(change) + kept * std::sqrt(size));
}

}  // namespace

FuzzDistance distance_of(const json &trained, const json &reference, const StepConfig &step) {
    // Gradients below this share of the largest are not exact enough to count in full.
    const double kept = step.precision != "fp32" ? 0.05 : 2e-3, rounding = kept / 100;
    FuzzDistance d;
    auto loss = [&](const json &a, const json &b) {
        d.losses = std::max(d.losses, relative(std::abs(number(a) - number(b)), std::abs(number(b)) + 1e-3));
    };
    json ours = trained.at("losses"), theirs = reference.at("losses");
    ours.push_back(trained.at("evaluation")), theirs.push_back(reference.at("evaluation"));
    // Training that diverges amplifies rounding errors, and leaves the range of float32 or of 16 bits: from there on
    // its numbers say nothing about the compiler.
    const double most = (step.precision == "fp32" ? 1e6 : 2) * (std::abs(number(theirs.at(0))) + 1e-3);
    for (size_t s = 0; s < theirs.size() && !d.diverged; s++) {
        d.diverged = !(std::abs(number(theirs.at(s))) <= most);
        if (!d.diverged) loss(ours.at(s), theirs.at(s));
    }
    if (d.diverged) return d;
    double largest = 0;
    for (auto &[name, norm] : reference.at("gradients").items()) largest = std::max(largest, number(norm));
    for (auto &[name, weights] : reference.at("parameters").items()) {
        double share = 1;
        if (const json &norms = reference.at("gradients"); norms.contains(name)) {
            if (number(norms.at(name)) < rounding * largest) continue;
            share = std::min(1.0, number(norms.at(name)) / (kept * largest));
        }
        const double far =
            share * distance_of_change(trained.at("initial").at(name), trained.at("parameters").at(name), weights);
        if (!(far <= d.weights)) d.weights = far, d.parameter = name;
    }
    return d;
}

FuzzDistance tolerance_of(const StepConfig &step) {
    if (step.precision != "fp32") return {.losses = 0.25, .weights = 0.5};
    return {.losses = 1e-4, .weights = 5e-3};
}

std::string too_far(const FuzzDistance &d, const FuzzDistance &tolerance) {
    std::string words;
    if (!(d.losses <= tolerance.losses))
        words = fmt::format("the losses are off by {:.2g} of themselves, tolerance {:.2g}", d.losses, tolerance.losses);
    if (!(d.weights <= tolerance.weights))
        words += fmt::format("{}what was trained of '{}' is off by {:.2g}, tolerance {:.2g}", words.empty() ? "" : "; ",
                             d.parameter, d.weights, tolerance.weights);
    return words;
}

}  // namespace cryolite
