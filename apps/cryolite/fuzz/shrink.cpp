#include "apps/cryolite/fuzz/shrink.h"

#include <algorithm>

namespace cryolite {

namespace {

class Shrinker {
public:
    Shrinker(FuzzCase c, const std::function<bool(const FuzzCase &)> &fails, int tries)
        : now(std::move(c)), fails(fails), left(tries) {}

    FuzzCase run() {
        for (bool smaller = true; smaller && left > 0;) {
            smaller = flags();
            smaller |= groups();
            smaller |= sizes();
            smaller |= choices();
        }
        return now;
    }

private:
    FuzzCase now;
    const std::function<bool(const FuzzCase &)> &fails;
    int left;

    /// Takes a case over if it is another one and fails as well.
    bool take(const FuzzCase &c) {
        if (c == now || left <= 0 || c.micro_batch() < 1 || c.examples % (c.step.accumulate * c.step.workers))
            return false;
        left--;
        if (!fails(c)) return false;
        now = c;
        return true;
    }
    bool flags() {
        bool any = false;
        FuzzCase plain;
        for (const StepSetting &s : step_settings()) {
            FuzzCase c = now;
            if (read_value(s, text_of(s, s.of(plain.step)), s.of(c.step))) any |= take(c);
        }
        FuzzCase c = now;
        c.memory = 0;
        any |= take(c);
        c = now, c.without.clear();  // with all lines: they go later, with the numbers that make them
        return take(c) || any;
    }
    /// Leaves out layers, several at once first. The first group stays.
    bool groups() {
        bool any = false;
        for (size_t count = now.choices.size(); count >= 1; count /= 2)
            for (size_t at = 1; at < now.choices.size();) {
                FuzzCase c = now;
                const size_t end = std::min(at + count, c.choices.size());
                c.choices.erase(c.choices.begin() + ptrdiff_t(at), c.choices.begin() + ptrdiff_t(end));
                if (take(c))
                    any = true;
                else
                    at += count;
            }
        return any;
    }
    bool sizes() {
        bool any = false;
        const FuzzCase plain;
        for (int FuzzCase::*size : {&FuzzCase::kind, &FuzzCase::examples, &FuzzCase::context, &FuzzCase::vocab,
                                    &FuzzCase::columns, &FuzzCase::data})
            for (int to :
                 {plain.*size, now.step.accumulate * now.step.workers, (now.*size + plain.*size) / 2, now.*size - 1}) {
                FuzzCase c = now;
                c.*size = std::clamp(to, plain.*size, now.*size);
                if (take(c)) {
                    any = true;
                    break;
                }
            }
        return any;
    }
    /// Makes the lists of numbers shorter, and the numbers smaller.
    bool choices() {
        bool any = false;
        for (size_t g = 0; g < now.choices.size(); g++) {
            while (!now.choices[g].empty() && now.choices[g].back() == 0) now.choices[g].pop_back();
            for (size_t half = now.choices[g].size() / 2; half >= 1; half /= 2) {
                FuzzCase c = now;
                c.choices[g].resize(c.choices[g].size() - std::min(half, c.choices[g].size()));
                any |= take(c);
            }
            for (size_t k = 0; k < now.choices[g].size(); k++)
                for (int to : {0, now.choices[g][k] % 24}) {
                    FuzzCase c = now;
                    c.choices[g][k] = std::min(to, c.choices[g][k]);
                    if (take(c)) {
                        any = true;
                        break;
                    }
                }
        }
        return any;
    }
};

}  // namespace

FuzzCase shrink(FuzzCase c, const std::function<bool(const FuzzCase &)> &fails, int tries) {
    return Shrinker(std::move(c), fails, tries).run();
}

}  // namespace cryolite
