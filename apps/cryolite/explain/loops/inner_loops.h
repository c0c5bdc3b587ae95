#pragma once
// The inner loops of compiled kernels, as llvm-objdump lists them; llvm_tools.h predicts their speed.

#include <string>
#include <string_view>
#include <vector>

namespace cryolite {

/// An innermost loop that sums products: it carries sums in vector registers from one iteration to the next, which
/// multiply-adds, or dot products of pairs, add to.
struct SumLoop {
    std::string function;                ///< "cryolite_KEY_par_for_..."
    std::vector<std::string> code = {};  ///< its instructions in AT&T syntax, the jump back last
    std::vector<std::string> fmas = {};  ///< those of them that multiply and add, scalar ones too
    int scalar = 0;                      ///< multiply-adds of one element
    int spills = 0;                      ///< loads from and stores to a fixed place on the stack
};

/// Collects the sum loops of a listing by `llvm-objdump -d --no-show-raw-insn`, given line by line.
class ListingReader {
public:
    void line(std::string_view text);
    /// After the last line.
    std::vector<SumLoop> loops();

private:
    struct Instruction {
        unsigned long address = 0;
        std::string text;
    };
    std::string function_;
    std::vector<Instruction> code_;
    std::vector<SumLoop> found_;

    void end_function();
    void examine(size_t begin, size_t end, bool rbp_is_frame);
};

/// The loops where nearly all FLOPs of a kernel are: those with at least half the multiply-adds of its largest. The
/// others are tiles at an edge, and sums of single rows.
std::vector<SumLoop> main_loops(const std::vector<SumLoop> &loops, const std::string &symbol);

/// A listing for people: of equal instructions in a row, the first and how many follow.
std::vector<std::string> shortened(const std::vector<std::string> &code);

}  // namespace cryolite
