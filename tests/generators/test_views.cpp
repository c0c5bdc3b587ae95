// Which reshapes and slices are views, and which stay copies, with the reason.

#include "dsl/layers/activation.h"
#include "dsl/layers/layer_norm.h"
#include "dsl/layers/linear.h"
#include "dsl/models/digits.h"
#include "dsl/tensor.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

/// 48 rows of 6 numbers.
struct Net : Classifier {
    using Write = std::function<Tensor(Net &, Tensor)>;
    static inline Write write;

    Linear up{"up", 6, 24}, head{"head", 24, classes};
    std::unique_ptr<Linear> second;
    Relu relu{"relu"}, other{"other"};
    Gelu gelu{"gelu"};
    Flatten flatten{"flatten"};
    Shape features() const override { return {6}; }
    /// Only models that use it have it.
    Linear &mix() {
        if (!second) second = std::make_unique<Linear>("mix", 8, 8);
        return *second;
    }
    Tensor forward(Tensor x) override { return write(*this, x); }
};
using Values = std::vector<std::pair<std::string, std::string>>;
using Lines = Compiled<Net>::Schedule;

constexpr int rows = 48;

class Step48 : public Compiled<Net> {
public:
    explicit Step48(const Net::Write &write, StepOptions options = {}, Format format = fp32, const Lines &lines = {},
                    const Halide::Target &target = test_target())
        : Compiled<Net>((Net::write = write, Values{{"batch", std::to_string(rows)}, {"classes", "3"}}), lines, options,
                        format, target) {
        model.reset();  // every parameter that lives belongs to the next one
    }

    /// Of the n-th value of the model with this name.
    const ir::Value &value(const std::string &name, int n = 0) const {
        for (const ir::Value &v : program.values)
            if (v.name == name && n-- == 0) return v;
        FAIL("no value ", name);
        return program.values[ValueId(0)];
    }
    /// "up from 0", or "copy".
    std::string lies(const std::string &name, int n = 0) const {
        const ir::Value &v = value(name, n);
        return v.part_of ? fmt::format("{} from {}", program.values[v.part_of].name, v.begin) : "copy";
    }
    /// The operations of this name, in any entry.
    std::vector<ir::Op> ops(const std::string &name) const {
        std::vector<ir::Op> list;
        for (const auto &[entry, e] : program.entries)
            for (OpId id : e.ops)
                if (program.ops[id].name == name) list.push_back(program.ops[id]);
        return list;
    }
    int kernels() const { return program.kernels.size(); }
    /// That operations read and write, where it is stored.
    int64_t bytes() const {
        int64_t all = 0;
        for (const auto &[entry, e] : program.entries)
            for (KernelId k : e.kernels) {
                std::set<ValueId> touched;
                for (OpId id : program.kernels[k].ops)
                    for (auto *refs : {&program.ops[id].reads, &program.ops[id].writes})
                        for (const ir::Ref &r : *refs) touched.insert(r.value);
                for (ValueId v : touched) all += program.values[v].stored ? program.values[v].bytes() : 0;
            }
        return all;
    }
};

Tensor rows_of(const Tensor &x, int begin, int end) { return slice(x, x.shape().rank() - 1, begin, end); }

}  // namespace

TEST_CASE("views: a reshape and its adjoint share the array of what they are taken from") {
    const auto folded = [](Net &n, Tensor x) {
        const Tensor h = n.mix()(reshape(n.up(x), {8, 3, rows}));
        return n.head(n.relu(reshape(h, {24, rows})));
    };
    const Step48 views(folded), copies(folded, {.views = false});
    CHECK(views.lies("reshape") == "up from 0");
    CHECK(views.lies("reshape", 1) == "mix from 0");
    CHECK(views.lies("d(mix)") == "d(reshape) from 0");
    CHECK(views.lies("d(up)") == "d(reshape) from 0");
    CHECK(views.ops("reshape").empty());
    CHECK(copies.ops("reshape").size() == 2);
    CHECK(copies.lies("reshape") == "copy");
    CHECK(views.kernels() == copies.kernels() - 4);
    CHECK(views.bytes() < copies.bytes());
    CHECK(views.program.memory.bytes <= copies.program.memory.bytes);
}

TEST_CASE("views: a view of a view is one of the whole, as are what a model is given and what stops gradients") {
    const Step48 c([](Net &n, Tensor x) {
        const Tensor y = n.up(reshape(reshape(x, {3, 2, rows}), {6, rows}));
        const Tensor h = n.relu(reshape(rows_of(reshape(stop_gradient(y), {8, 3, rows}), 16, 48), {24, 32}));
        return n.head(y + concat({h, rows_of(y, 0, 16)}, 1));
    });
    CHECK(c.lies("stop_gradient") == "up from 0");
    CHECK(c.lies("reshape") == "up from 0");
    CHECK(c.lies("reshape", 1) == fmt::format("up from {}", 16 * 24));
    CHECK(c.lies("slice") == fmt::format("up from {}", 16 * 24));
    const Step48 given([](Net &n, Tensor x) {
        return n.head(n.up(reshape(n.relu(n.mix()(reshape(x, {8, 36}))), {6, rows})));
    });
    CHECK(given.lies("reshape") == "features from 0");
    CHECK(given.lies("reshape", 1) == "relu from 0");
}

TEST_CASE("views: a slice is one where its elements lie together, and begin where a kernel's array may") {
    const auto cut = [](int begin, int end) {
        return [=](Net &n, Tensor x) {
            const Tensor h = n.up(x), part = rows_of(h, begin, end);
            return n.head(h + concat({2.0 * part, 3.0 * rows_of(h, 0, rows - end + begin)}, 1));
        };
    };
    const Step48 aligned(cut(16, 48)), early(cut(15, 48)),
        device(cut(16, 48), {}, fp32, {}, test_target({Halide::Target::OpenCL, Halide::Target::CLDoubles}));
    CHECK(aligned.lies("slice") == "up from 384");
    CHECK(device.lies("slice") == "up from 384");  // 3 x 512 bytes
    CHECK(early.lies("slice") == "copy");
    CHECK(early.lies("slice", 1) == "up from 0");
    REQUIRE(early.ops("slice").size() == 1);
    CHECK(early.ops("slice")[0].rule == "view-begins");
    CHECK(early.ops("slice")[0].why ==
          "it is a copy: it begins 1440 bytes into 'up', and an array of a kernel must begin at a multiple of 64");
    const auto inner = [](Net &n, Tensor x) {
        const Tensor h = n.up(x);
        return n.head(concat({slice(h, 0, 8, 24), n.relu(slice(h, 0, 0, 8))}, 0));
    };
    const Step48 apart(inner), copied(inner, {.views = false});
    CHECK(apart.lies("slice") == "copy");
    CHECK(apart.lies("slice", 1) == "copy");
    REQUIRE(!apart.ops("slice").empty());
    CHECK(apart.ops("slice")[0].rule == "view-apart");
    CHECK(apart.kernels() == copied.kernels());
    CHECK(apart.bytes() == copied.bytes());
}

TEST_CASE("views: adjoints of the parts of a value are written into its adjoint; those of a concatenation are parts") {
    const auto thirds = [](int last) {
        return [=](Net &n, Tensor x) {
            const Tensor h = n.up(x);
            return n.head(
                concat({n.relu(rows_of(h, 0, 16)), n.gelu(rows_of(h, 16, 32)), n.other(rows_of(h, last, rows))}, 1));
        };
    };
    const Step48 views(thirds(32)), copies(thirds(32), {.views = false});
    for (int k : {0, 1, 2}) {
        CHECK(views.lies("slice", k) == fmt::format("up from {}", 384 * k));
        CHECK(views.lies("d(slice)", k) == fmt::format("d(up) from {}", 384 * (2 - k)));
    }
    CHECK(views.lies("d(gelu)") == "d(concat) from 384");
    CHECK(views.ops("d(up)").empty());
    CHECK(views.kernels() == copies.kernels() - 9);  // three slices, their adjoints, and those of what is put together
    CHECK(views.bytes() < copies.bytes());
    // Where two parts overlap their adjoints are added.
    CHECK(Step48([](Net &n, Tensor x) {
              const Tensor h = n.up(x);
              return n.head(concat({n.relu(rows_of(h, 0, 32)), n.other(rows_of(h, 16, 32))}, 1));
          }).lies("d(slice)") == "copy");
}

TEST_CASE("views: a part that the backward pass reads stays a copy where it would keep the rest") {
    const auto first = [](bool both) {
        return [=](Net &n, Tensor x) {
            const Tensor h = n.up(x), a = n.relu(rows_of(h, 0, 16));
            return n.head(concat({a, both ? n.other(rows_of(h, 16, 48)) : 2.0 * rows_of(h, 16, 48)}, 1));
        };
    };
    const Step48 one(first(false)), all(first(true));
    CHECK(one.lies("slice") == "copy");
    REQUIRE(!one.ops("slice").empty());
    CHECK(one.ops("slice")[0].rule == "view-keeps");
    CHECK(one.lies("slice", 1) == "up from 384");
    CHECK(all.lies("slice") == "up from 0");
    CHECK(all.lies("slice", 1) == "up from 384");
}

TEST_CASE("views: results of the model and values of another format are copies") {
    const Step48 result([](Net &n, Tensor x) {
        const Tensor y = n.head(n.up(x));
        return reshape(reshape(y, {1, 3, rows}), {3, rows});
    });
    CHECK(result.lies("output") == "copy");
    const auto folded = [](Net &n, Tensor x) {
        const Tensor h = n.mix()(reshape(n.relu(n.up(x)), {8, 3, rows}));
        return n.head(n.relu(reshape(h, {24, rows})));
    };
    const Step48 half(folded, {}, bf16);
    for (int k : {0, 1}) {
        const ir::Value &v = half.value("reshape", k);
        CHECK((v.part_of || !half.ops("reshape").empty()));
        if (v.part_of) CHECK(v.type == half.program.values[v.part_of].type);
    }
}

TEST_CASE("views: of a view that is read in blocks of rows, blocks are parts of the whole") {
    const auto folded = [](Net &n, Tensor x) {
        return n.head(reshape(n.mix()(reshape(n.up(x), {8, 3, rows})), {24, rows}));
    };
    const Step48 c(folded, {}, fp32, [](Net &n, Step &s) { s(n.head).compute_at(n.criterion, 32); });
    REQUIRE(c.program.chunks.rows == 32);
    CHECK(c.lies("reshape", 1) == "mix from 0");
    CHECK(c.lies("reshape[0:32]") == "mix from 0");
    CHECK(c.lies("reshape[32:48]") == "mix from 768");
    CHECK(c.lies("d(mix)") == "d(reshape) from 0");
}

TEST_CASE("views: a named layer leaves the kernel that it shares, unless it is computed inside of it") {
    const auto folded = [](Net &n, Tensor x) {
        return n.head(n.relu(n.flatten(n.mix()(reshape(n.up(x), {8, 3, rows})))));
    };
    const Step48 with(folded, {}, fp32, [](Net &n, Step &s) { s(n.relu).compute_with(n.flatten); });
    const Step48 inside(folded, {}, fp32, [](Net &n, Step &s) { s(n.flatten).compute_at(n.relu); });
    const Step48 copies(folded, {.views = false}, fp32, [](Net &n, Step &s) { s(n.relu).compute_with(n.flatten); });
    CHECK(with.lies("flatten") == "mix from 0");
    CHECK(with.ops("flatten").empty());
    CHECK(with.bytes() < copies.bytes());
    CHECK(inside.ops("flatten").size() == 1);
    CHECK(inside.lies("flatten") == "copy");
    CHECK_FALSE(inside.value("flatten").stored);
    const Compiled<Digits> digits(Values{{"batch", "5"}});
    for (const auto &[entry, e] : digits.program.entries)
        for (OpId id : e.ops) CHECK(digits.program.ops[id].name != "flatten");
}

TEST_CASE("views: with a value that is computed again its views are, too") {
    const Step48 c(
        [](Net &n, Tensor x) {
            return n.head(n.relu(n.flatten(n.mix()(reshape(n.up(x), {8, 3, rows})))));
        },
        {}, fp32,
        [](Net &n, Step &s) {
            s(n.mix()).store_at(forward);
            s(n.flatten).store_at(forward);
        });
    CHECK(c.lies("flatten") == "mix from 0");
    CHECK(c.lies("flatten again") == "mix again from 0");
    CHECK(c.ops("mix again").size() == 1);
    CHECK(c.ops("flatten again").empty());
}

}  // namespace cryolite::test
