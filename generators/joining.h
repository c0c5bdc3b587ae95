#pragma once
// The stages of one plan, and which of them share a kernel.

#include <map>
#include <set>

#include "generators/partition.h"

namespace cryolite::compiler {

class Joining {
public:
    Joining(StepProgram &p, const StepOptions &options, const std::string &plan);

    void defaults();
    /// Applies a line of the step schedule, or refuses it; whether it concerns stages of this plan.
    bool apply(const Stage &stage, const Placement &where);
    /// Writes the kernels of this plan back, in an order that respects every dependence.
    void finish();

private:
    StepProgram &p;
    const StepOptions &options;
    std::string plan;
    std::vector<int> stages;  ///< in the order that the plan lists them
    std::map<int, int> group, writer, place_of;
    std::vector<std::pair<double, int64_t>> weights_read;  ///< by place: bytes read so far by the pass back

    // joining.cpp
    int root(int s) { return group[s] == s ? s : group[s] = root(group[s]); }
    void join(int s, int into, const std::string &how);
    std::vector<int> readers(int buffer) const;
    std::vector<int> find(const Stage &stage) const;
    int holds(int s, Nature n);
    bool feeds(int s, int t) const;
    void join_residual(int s);
    void join_sibling(int s);
    bool place(const Stage &stage, const Placement &where, int s, int t);
    void check_unread(const Stage &stage, const Placement &where, int s, int t);
    double out_of_caches(double place) const;
    void count_weights_read();
    double wish(const std::vector<int> &list) const;
    std::vector<int> sorted(const std::map<int, std::vector<int>> &members);
    int add_kernel(std::vector<int> list);

    // place_updates.cpp
    struct Uses {
        std::vector<int> gradients;  ///< stages that make the parameter's gradient, in order
        int update = -1;
    };
    Uses uses(const Parameter *w) const;
    void default_updates();
    std::string fusible(const Parameter *w) const;
    std::string pays(const Parameter *w) const;
    std::string made_elsewhere(const Parameter *w) const;
    bool asked_root(const Parameter *w) const;
    void fuse_update(const Parameter *w, const std::string &why);
    void place_gradient(const Stage &stage, const Placement &where);
    void place_update(const Stage &stage, const Placement &where);
    void drop_norms();
};

/// Throws: the line, why it is not legal, and the nearest that is.
[[noreturn]] void refuse(const Stage &s, const Placement &where, const std::string &why, const std::string &nearest);

}  // namespace cryolite::compiler
