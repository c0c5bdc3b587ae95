// The reader of listings, on listings as llvm-objdump writes them.

#include "apps/cryolite/explain/loops/inner_loops.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

namespace cryolite::test {

namespace {

/// Addresses are line numbers: "8: jne 0x3" jumps to the line with 3.
std::vector<SumLoop> read(const std::vector<std::string> &code, const std::string &function = "cryolite_a_par_for_y") {
    ListingReader reader;
    reader.line("kernels.so:\tfile format elf64-x86-64");
    reader.line("000000000000f5b0 <" + function + ">:");
    for (size_t i = 0; i < code.size(); i++) reader.line(fmt::format("   {:x}:      \t{}", i, code[i]));
    return reader.loops();
}

}  // namespace

TEST_CASE("inner loops: a sum of products, as it is listed") {
    const std::vector<SumLoop> loops = read({
        "vxorps\t%xmm3, %xmm3, %xmm3",
        "vbroadcastss\t-24(%rsi,%r8), %zmm27",
        "vfmadd231ps\t(%r9), %zmm27, %zmm3 # zmm3 = (zmm27 * mem) + zmm3",
        "vfmadd231ps\t(%r10){1to16}, %zmm27, %zmm4",
        "addq\t$192, %r9",
        "jne\t0x1 <cryolite_a_par_for_y+0x1>",
        "movq\t8(%rsp), %rax",
        "jne\t0x0 <cryolite_a_par_for_y>",  // a loop around it
        "retq",
    });
    REQUIRE(loops.size() == 1);
    CHECK(loops[0].function == "cryolite_a_par_for_y");
    CHECK(loops[0].code ==
          std::vector<std::string>{"vbroadcastss -24(%rsi,%r8), %zmm27", "vfmadd231ps (%r9), %zmm27, %zmm3",
                                   "vfmadd231ps (%r10){1to16}, %zmm27, %zmm4", "addq $192, %r9", "jne 0x1"});
    CHECK(loops[0].fmas.size() == 2);
    CHECK(loops[0].scalar == 0);
    CHECK(loops[0].spills == 0);
}

TEST_CASE("inner loops: spills and scalars are counted, arrays on the stack are none") {
    std::vector<SumLoop> loops = read({
        "vmovaps\t128(%rsp,%rdi), %zmm5",        // an array
        "vmovaps\t64(%rsp), %zmm6",              // a spilled register comes back
        "vfmadd231ps\t-64(%rbp), %zmm5, %zmm6",  // rbp is no frame here
        "vfmadd231ps\t%zmm5, %zmm5, %zmm7",
        "vfmadd231ss\t(%rax), %xmm5, %xmm8",
        "vmovaps\t%zmm6, 64(%rsp)",
        "jb\t0x0",
    });
    REQUIRE(loops.size() == 1);
    CHECK(loops[0].fmas.size() == 3);
    CHECK(loops[0].scalar == 1);
    CHECK(loops[0].spills == 2);
    loops = read({"movq\t%rsp, %rbp", "vfmadd231ps\t-64(%rbp), %ymm5, %ymm6", "jb\t0x1"});
    REQUIRE(loops.size() == 1);
    CHECK(loops[0].spills == 1);
}

TEST_CASE("inner loops: a polynomial sums nothing from one iteration to the next") {
    CHECK(read({"vmovaps\t(%rax), %zmm1", "vmovaps\t%zmm9, %zmm2", "vfmadd213ps\t%zmm8, %zmm1, %zmm2",
                "vfmadd231ps\t%zmm1, %zmm1, %zmm2", "vmovaps\t%zmm2, (%rax)", "jne\t0x0"})
              .empty());
    CHECK(read({"vfmadd231ps\t%zmm1, %zmm2, %zmm3", "retq"}).empty());  // no loop
}

TEST_CASE("inner loops: those of a kernel's tiles, not of another kernel or of its edges") {
    auto loop = [](const std::string &function, size_t fmas) {
        return SumLoop{.function = function, .fmas = std::vector<std::string>(fmas)};
    };
    const std::vector<SumLoop> all = {loop("cryolite_a_par_for_y", 24), loop("cryolite_a_par_for_y", 8),
                                      loop("cryolite_a", 12), loop("cryolite_ab_par_for_y", 24)};
    const std::vector<SumLoop> main = main_loops(all, "cryolite_a");
    REQUIRE(main.size() == 2);
    CHECK(main[0].fmas.size() == 24);
    CHECK(main[1].fmas.size() == 12);
    CHECK(main_loops(all, "cryolite_c").empty());
}

TEST_CASE("inner loops: short listings") {
    CHECK(shortened({"a 1", "a 2", "a 3", "b 1", "b 2", "c"}) ==
          std::vector<std::string>{"a 1", "... 2 more a", "b 1", "b 2", "c"});
}

}  // namespace cryolite::test
