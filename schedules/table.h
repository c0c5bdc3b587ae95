#pragma once
// Which loop schedule serves which kernel, on each device.

#include <optional>
#include <vector>

#include "schedules/step_schedule.h"

namespace cryolite {

struct NamedLoops {
    std::string name;
    LoopSchedule apply;
};

/// The loop schedules of one kind of machine: a line for each layer that owns a loop nest.
struct LoopTable {
    struct Line {
        std::string layer;
        NamedLoops loops;
    };
    std::vector<Line> layers;
    std::vector<Line> sums;  ///< gradients of parameters that are sums over rows, not products
    NamedLoops ghost_norm, squared_norm;
    NamedLoops pointwise;  ///< kernels without an anchor
    // For a layer without a line that is pointwise or needs whole rows.
    NamedLoops rowwise;        ///< its only sums are along rows
    NamedLoops gains_of_rows;  ///< gradients of its gains and biases: sums over rows, whose terms read sums along rows
    NamedLoops contraction;    ///< sums of products of any other layer
    NamedLoops sum_of_rows;    ///< sums over rows of any other layer, as the gradient of a bias
    NamedLoops plain;          ///< any kernel at all
    NamedLoops tiled = {};     ///< any kernel at all, with numbers to search, where a line asks for it; none on a GPU
    /// Autoschedulers come before `plain`, where a layer has no line. Their loops have to be compared with the
    /// unscheduled kernel, which needs the device: a step for a GPU may be compiled on a machine without one.
    bool automatic;
};

namespace cpu {
const LoopTable &loop_table();
}
namespace gpu {
const LoopTable &loop_table();
}

/// The name of loops that were applied to a group: it says whether they multiply by the processor's tiles.
std::string name_of(const NamedLoops &loops, const Group &g);

/// Whether automatic loops can serve a group: in place an autoscheduler might compute an element twice.
bool may_be_automatic(const Group &g);

/// The loops of the last value of the number `automatic`; none on a GPU.
std::optional<NamedLoops> tiled_loops(const Machine &m);

/// The loop schedule that was written for a group, by the type of its anchor layer (null: pointwise stages or an
/// update), or by its nature; none: the step's automatic ones serve.
std::optional<NamedLoops> written_loops(const Group &g, const Layer *anchor, Nature nature, const Step &step);

/// The name that loops are found by: the layer's type, or "Linear" if the layer was found to compute the same.
std::string loops_kind(const Layer &l);

/// Whether loops are written for layers of this type.
bool has_loops(const std::string &kind, const Machine &m);

/// Whether the loops of a layer's kernels are those of matrix products, and not the step's own.
bool has_product_loops(const Layer &l, const Step &step);

/// Every schedule starts with this. On the CPU, numbers that the whole kernel shares are computed once.
void share_numbers(Group &g, const Machine &m);

}  // namespace cryolite
