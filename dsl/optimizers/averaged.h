#pragma once

#include <deque>
#include <memory>

#include "dsl/optimizer.h"

namespace cryolite {

/// Another rule, and an exponential moving average of each weight w that the rule updates:
/// average(t) = ema average(t - 1) + (1 - ema) w(t), average(0) = 0. Readers of the average divide it by 1 - ema^t.
/// A scalar and a state named "ema" join those of the rule. Errors: the rule has one of that name.
/// Acceleration of stochastic approximation by averaging, Polyak and Juditsky, 1992.
struct Averaged : Optimizer {
    static constexpr const char *state_name = "ema";

    explicit Averaged(std::unique_ptr<Optimizer> rule) : rule(std::move(rule)) {
        for (const Scalar *s : this->rule->scalars()) {
            check(s->name, "number");
            numbers.emplace_back(this, s->name, s->value, s->range, s->help);
        }
        for (const State *s : this->rule->states()) {
            check(s->name, "state");
            beside.emplace_back(this, s->name);
        }
        for (const Norm *n : this->rule->norms()) norms_of.emplace_back(this, n->of);
        decay.emplace(this, state_name, 0, RealRange::fraction, "how much of the average of weights stays in a step");
        average.emplace(this, state_name);
    }
    std::string name() const override { return rule->name(); }
    Expr operator()(Expr w, Expr g) override {
        rule->decays = decays, rule->step = step;
        for (size_t k = 0; k < numbers.size(); k++) rule->scalars()[k]->exact = numbers[k].exact;
        for (size_t k = 0; k < beside.size(); k++) rule->states()[k]->now = beside[k].now;
        for (size_t k = 0; k < norms_of.size(); k++) rule->norms()[k]->now = norms_of[k].now;
        const Expr next = (*rule)(w, g);
        for (size_t k = 0; k < beside.size(); k++) beside[k] = rule->states()[k]->now;
        *average = *decay * *average + once(1 - decay->exact) * next;
        return next;
    }

private:
    const std::unique_ptr<Optimizer> rule;
    // Copies of the rule's scalars, states and norms: bound by the kernel builder, then handed on to the rule.
    std::deque<Scalar> numbers;
    std::deque<State> beside;
    std::deque<Norm> norms_of;
    std::optional<Scalar> decay;
    std::optional<State> average;

    void check(const std::string &name, const char *what) const {
        if (name == state_name)
            fail("the optimizer '{}' has a {} '{}' of its own, which is what --ema adds: give it another name",
                 rule->name(), what, name);
    }
};

}  // namespace cryolite
