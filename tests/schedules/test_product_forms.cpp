// Products in the forms that shapes and processors choose: several panels of a gradient in a task, and factors of bf16
// that are multiplied as float32.

#include "schedules/lines.h"
#include "tests/support/kernels.h"
#include "tests/support/two_products.h"

namespace cryolite::test {

namespace {

/// 211 rows, 137 inputs, three panels of outputs: no chunk, block or group of panels divides any of them.
using Ragged = TwoProducts<137, 144>;
/// X of 521 rows does not fit the caches, and no chunk divides them.
using Wide = TwoProducts<517, 384>;
/// Few weights and many rows: a panel of dY does not fit the caches, and there is little work for each task.
using Long = TwoProducts<61, 144>;

using Flags = std::vector<std::pair<std::string, std::string>>;
const Flags rows = {{"batch", "211"}};

/// The value of `name` in a kernel that has the number `with`, by default or as a line sets it; 0: there is none.
template <typename Program>
int number_beside(const Compiled<Program> &c, const std::string &with, const std::string &name) {
    for (const CompiledKernel &k :
         describe_kernels(c.program, c.machine, {.time_limit = 60, .algorithms = true}).kernels)
        if (std::ranges::any_of(k.tunables, [&](const Tunable &t) { return t.name == with; }))
            for (const Tunable &t : k.tunables)
                if (t.name == name) return t.value;
    return 0;
}
/// A number of a gradient of several panels.
template <typename Program> int number_of_up(const Compiled<Program> &c, const std::string &name) {
    return number_beside(c, "panels_of_task", name);
}
template <typename Program> int panels_of_up(const Compiled<Program> &c) { return number_of_up(c, "panels_of_task"); }

}  // namespace

TEST_CASE("products: a gradient's panels that share a copy of X") {
    for (const char *numbers :
         {"panels_of_task=2", "panels_of_task=2 tiles_of_task=5 chunk=128", "panels_of_task=3 chunk=384 columns=16"}) {
        Compiled<Ragged> c(rows, [&](Ragged &n, Step &s) {
            add_lines(s, n, std::string("loops(up, d_parameter): ") + numbers, "my.schedule");
        });
        CHECK(panels_of_up(c) > 1);
        check_kernels(c);
    }
    CHECK(panels_of_up(Compiled<Ragged>(rows)) == 1);  // X stays in the cache
}

TEST_CASE("products: a large gradient's panels share a copy of X without a line") {
    Compiled<Wide> c(Flags{{"batch", "521"}});
    CHECK(panels_of_up(c) > 1);
    check_kernels(c);
}

TEST_CASE("products: a gradient of few weights and many rows goes in chunks that caches hold") {
    CHECK(number_of_up(Compiled<Long>(rows), "chunk") > 211);  // 211 rows stay in the cache
    Compiled<Long> c(Flags{{"batch", "2003"}});
    CHECK(number_of_up(c, "chunk") == 128);
    check_kernels(c);
}

TEST_CASE("products: tiles narrower than their panel, with and without a copy of their part of W") {
    for (const char *numbers : {"columns=16 pack_w=0", "columns=16 pack_w=1", "columns=16 tiles_of_task=1 pack_w=1"}) {
        CAPTURE(numbers);
        Compiled<Ragged> c(rows, [&](Ragged &n, Step &s) {
            add_lines(s, n, std::string("loops(up, forward): ") + numbers, "my.schedule");
        });
        CHECK(number_beside(c, "pack_w", "pack_w") == std::string(numbers).back() - '0');
        check_kernels(c);
    }
}

TEST_CASE("products: the copy of a part of W pays with few registers and many rows") {
    const auto copies = [](const Flags &flags, int registers) {
        Compiled<Ragged> c(
            flags, [&](Ragged &n, Step &s) { add_lines(s, n, "loops(up, forward): columns=16", "my.schedule"); });
        c.machine.registers = registers;
        return number_beside(c, "pack_w", "pack_w");
    };
    CHECK(copies(rows, 16) == 1);
    CHECK(copies(rows, 32) == 0);
    CHECK(copies({{"batch", "37"}}, 16) == 0);
}

TEST_CASE("products: bf16 as multiply-adds of float32, where dot products are slower") {
    for (const char *numbers : {"panels_of_task=1", "panels_of_task=2", "panels_of_task=3 chunk=384 columns=16"}) {
        Compiled<Ragged> c(
            rows,
            [&](Ragged &n, Step &s) {
                add_lines(s, n, std::string("loops(up, d_parameter): ") + numbers, "my.schedule");
            },
            {}, bf16);
        c.machine.dot_products = false;
        CHECK(panels_of_up(c) == numbers[15] - '0');
        check_kernels(c, 4e-3);
    }
}

}  // namespace cryolite::test
