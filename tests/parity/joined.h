#pragma once
// Steps whose updates share kernels beside steps with each update in its own.

#include "tests/parity/case.h"

namespace cryolite::test {

inline const json odd_sizes = {{"layers", 2}, {"heads", 3},  {"width", 21}, {"context", 13},
                               {"batch", 3},  {"vocab", 37}, {"lr", 1e-2},  {"decay", 0.1}};

/// Each update in a kernel of its own.
inline const std::string apart = " --lines 's(next(*.*)).compute_root().where_legal(); "
                                 "s(next(h.*.*.*)).compute_root().where_legal(); "
                                 "s(next(h.*.*.*.*)).compute_root().where_legal()'";
/// All that training has made.
inline std::map<std::string, std::vector<float>> numbers(TrainingCase &c) {
    std::map<std::string, std::vector<float>> all;
    for (const PlanBuffer &b : c.trainer.plan().buffers)
        if (b.role == Role::parameter || b.role == Role::state) all[b.name] = c.values(b.role, b.name);
    return all;
}
inline int updates(const TrainingCase &c) {
    int n = 0;
    for (const PlanCall &call : c.trainer.plan().plans.at("step")) n += call.name.starts_with("next(");
    return n;
}
inline int joint(const TrainingCase &c) {
    return int(std::ranges::count(c.trainer.plan().buffers, Role::joint, &PlanBuffer::role));
}

/// The same losses and numbers after some steps, to the bit.
inline void check_bits(const json &args, const std::string &flags, const std::string &one, const std::string &other,
                       const std::string &on, int steps = 3) {
    CAPTURE(flags);
    CAPTURE(on);
    TrainingCase joined(args, flags + one, on), single(args, flags + other, on);
    CHECK(updates(joined) < updates(single));
    CHECK(joint(joined) > 0);
    CHECK(joint(single) == 0);
    for (int s = 0; s < steps; s++) CHECK(joined.step() == single.step());
    CHECK(numbers(joined) == numbers(single));
    const auto same = joined.trainer.plan().memory(), as = single.trainer.plan().memory();
    CHECK(same.at("parameter") == as.at("parameter"));
    CHECK(same.at("state") == as.at("state"));
}

}  // namespace cryolite::test
