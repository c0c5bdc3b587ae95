#pragma once
// What a loop schedule sees of one kernel: *prologue anchor epilogue*, then the stored stage.

#include <Halide.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schedules/tunables.h"

namespace cryolite {

/// What a kernel computes. `forward`: y; `d_input`: dX; `d_parameter`: dW or db; `update`: parameters; `norm`: a norm.
enum class Form { forward, d_input, d_parameter, update, norm };
/// The name of a form in lines and plans: "d_parameter".
const char *form_name(Form form);
std::optional<Form> form_of(const std::string &name);

/// What a schedule may ask of the machine a kernel is compiled for.
struct Machine {
    Halide::Target target;
    std::string device = "cpu";  ///< where kernels run: cpu, opencl or cuda
    int alignment = 64;          ///< bytes: of the begin of each array in memory that several share
    int vector = 16;             ///< float32 lanes: 16 with AVX-512, 8 with AVX2, 4 else
    int registers = 32;          ///< vector registers
    bool dot_products = false;   ///< has dot products of bf16 pairs, summed in float32, faster than its multiply-adds
    bool matrix_tiles = false;   ///< multiplies tiles of bf16 (bundle/matrix_tiles.h)

    /// Whether loops are blocks of threads: schedules/gpu.
    bool gpu() const { return device != "cpu"; }
    static Machine of(const Halide::Target &target);
};

/// One kernel, ready for its loops. Every Func here is unscheduled and inlined by default.
class Group {
public:
    std::string name;  ///< the stages of this kernel, for messages
    Form form = Form::forward;
    Halide::Func anchor;  ///< owns the loop nest: the Func with the heavy reduction; undefined: pointwise
    std::vector<Halide::Func> prologue;  ///< producers of the anchor placed in this kernel, in order
    std::vector<Halide::Func> epilogue;  ///< consumers of the anchor placed in this kernel, in order
    Halide::Func out;       ///< what the kernel stores, in storage dimensions (a Tuple where it stores several)
    int panel = 0;          ///< width of the panels that the anchor's weight is stored in; 0: row-major
    bool padded = false;    ///< the last panel is not full
    bool in_place = false;  ///< `out` updates its buffers: schedule `out.update()`, never shift or round up
    /// Set by loops: an element of `out` is computed once, after all sums along its row, and by the thread of the row.
    bool rows_once = false;
    /// Set by loops: products are multiplied by the processor's tiles of bf16.
    bool by_tiles = false;
    std::vector<int> extents;          ///< of `out`, storage dimensions, innermost first
    std::vector<Halide::Func> others;  ///< further stored Funcs whose dimensions differ from those of `out`
    /// Lowering passes for what a schedule cannot say. The kernel's key has their names and versions.
    std::map<std::string, void (*)(Halide::Pipeline &)> passes;
    Tunables tunables;  ///< numbers of the loop schedule that lines may set

    /// The definition of `out` that does the work: the pure one, or the update when in place.
    Halide::Stage store() { return in_place ? out.update(0) : Halide::Stage(out); }
    /// Storage extent of dimension `d` of `out`.
    int extent(int d) const { return extents.at(d); }
    /// The Func of this kernel with this name (as the layer spells it), or an undefined Func.
    Halide::Func func(const std::string &name) const;
    /// The Funcs between the inputs and `out`, producers first.
    std::vector<Halide::Func> funcs() const;
};

/// Number of iterations of reduction variable `k` of `f.update(update)`; all extents are static.
int reduction_extent(const Halide::Func &f, int k = 0, int update = 0);

/// Whether a definition of `f` computes the element that it is called for: its indices are the variables of `f`.
bool at_own_indices(const Halide::Internal::Function &f, const Halide::Internal::Definition &d);

/// Whether `f` is one number for each row, computed from a sum (or a maximum) along the row.
bool is_row_number(const Halide::Func &f);

/// In a loss that is a mean over rows, the Func of the loss of a row. Errors: there is none.
Halide::Func loss_of_row(const Group &g);

/// Whether `f` calls `g`, directly or not.
bool calls(const Halide::Func &f, const Halide::Func &g);

/// Whether a definition of `f` calls mathematical functions, such as exp.
bool calls_mathematics(const Halide::Func &f);

/// A loop schedule: places the loops of one kernel. It may change the order of additions and nothing else.
using LoopSchedule = void (*)(Group &, const Machine &);

/// A way to schedule any kernel. The kernel's key is then made of its algorithm, this name and these parameters.
struct AutomaticLoops {
    std::string name;
    std::map<std::string, std::string> parameters;
    void (*apply)(const AutomaticLoops &, Group &, Halide::Pipeline &, const Machine &);

    std::string str() const;  ///< "Adams2019 beam_size=1 parallelism=16"
};

}  // namespace cryolite
