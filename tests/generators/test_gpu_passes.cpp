// Lowering passes that the loops of GPUs need, by the OpenCL that comes out.

#include <regex>

#include "generators/lowering/expressions/local_fences.h"
#include "schedules/gpu/registers.h"
#include "tests/support/compiler.h"

namespace cryolite::test {

namespace {

using namespace Halide;
using Pass = void (*)(Pipeline &);

/// The OpenCL of sums of 16 terms, which a block reads from shared memory. Its four threads have 32 sums in registers.
/// Those of a thread are two fours, between which lie the fours of the others; `rolled`: a loop takes these two.
std::string source_of(const std::vector<Pass> &passes, bool rolled = false) {
    ImageParam a(Float(32), 1, "a");
    Func shared("shared"), sum("sum"), out("out");
    Var x("x"), block("block"), thread("thread"), four("four"), lane("lane");
    RDom r(0, 16, "r");
    shared(x) = a(x) + 1.0f;
    sum(x) += shared(r) * cast<float>(x);
    out(x) = sum(x);
    auto loops = [&](Halide::Stage s, std::vector<VarOrRVar> order) {
        order.insert(order.begin(), {lane, four});
        s.split(x, four, thread, 16).split(thread, thread, lane, 4).reorder(order).vectorize(lane).gpu_threads(thread);
        if (!rolled) s.unroll(four);
    };
    out.split(x, block, x, 32).gpu_blocks(block);
    loops(out, {thread, block});
    sum.compute_at(out, block).store_in(MemoryType::Register).bound_extent(x, 32);
    loops(sum, {thread});
    loops(sum.update(), {r, thread});
    shared.compute_at(out, block).store_in(MemoryType::GPUShared).split(x, four, thread, 4).gpu_threads(thread);
    out.output_buffer().dim(0).set_bounds(0, 64);
    Pipeline p(out);
    for (Pass pass : passes) pass(p);
    const Target target = get_host_target().with_feature(Target::OpenCL).with_feature(Target::NoRuntime);
    for (const Buffer<> &b : p.compile_to_module({a}, "f", target).buffers())
        if (b.name().find("gpu_source") != std::string::npos)
            return {static_cast<const char *>(b.data()), size_t(b.number_of_elements())};
    fail("there is no OpenCL");
}

/// How many sums a thread has in its array.
int sums_of_thread(const std::string &source) {
    std::smatch found;
    REQUIRE(std::regex_search(source, found, std::regex("float \\w*sum\\w*\\[(\\d+)\\]")));
    return std::stoi(found[1]);
}

int count(const std::string &text, const std::string &pattern) {
    const std::regex r(pattern);
    return int(std::distance(std::sregex_iterator(text.begin(), text.end(), r), std::sregex_iterator()));
}

}  // namespace

TEST_CASE("gpu passes: a thread has an array of its own elements alone") {
    CHECK(sums_of_thread(source_of({})) > 8);
    CHECK(sums_of_thread(source_of({gpu::own_elements})) == 8);
}

TEST_CASE("gpu passes: an array that a loop goes through stays as it is") {
    CHECK(sums_of_thread(source_of({gpu::own_elements}, true)) == sums_of_thread(source_of({}, true)));
}

TEST_CASE("gpu passes: every barrier of a block orders shared memory in OpenCL") {
    const std::string all = "barrier\\(", local = "barrier\\([^;]*CLK_LOCAL_MEM_FENCE";
    const std::string without = source_of({}), with = source_of({compiler::local_fences});
    CHECK(count(without, local) < count(without, all));
    CHECK(count(with, all) == count(without, all));
    CHECK(count(with, local) == count(with, all));
}

}  // namespace cryolite::test
