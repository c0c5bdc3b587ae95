// Several workers: the losses of one on the same global batch, and the same bits each time.

#include "tests/parity/case.h"
#include "tests/runtime/hanging_device.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

struct Run {
    std::vector<double> losses;
    std::vector<float> weights;
};

json small(int workers, double clip = 0, int accumulate = 1) {
    return {{"layers", 2},       {"heads", 2},   {"width", 96},
            {"context", 13},     {"batch", 4},   {"vocab", 37},
            {"lr", 3e-3},        {"clip", clip}, {"accumulate", accumulate},
            {"workers", workers}};
}

void go_on(TrainingCase &c, Run &r, int steps) {
    for (int s = 0; s < steps; s++) r.losses.push_back(c.step());
    r.weights.clear();
    for (const std::string &name : c.parameters()) {
        const std::vector<float> w = c.values(Role::parameter, name);
        r.weights.insert(r.weights.end(), w.begin(), w.end());
    }
}

Run train(const json &args, const std::string &flags, int steps) {
    TrainingCase c(args, flags);
    Run r;
    go_on(c, r, steps);
    return r;
}

void check_near(const Run &a, const Run &b) {
    REQUIRE(a.losses.size() == b.losses.size());
    for (size_t s = 0; s < a.losses.size(); s++) {
        CAPTURE(s);
        CHECK(std::abs(a.losses[s] - b.losses[s]) <= 1e-5 * a.losses[s]);
    }
}

}  // namespace

TEST_CASE("workers: 1, 2 and 4 have the losses of one another over 100 steps") {
    const Run one = train(small(1), "--update separate", 100);
    CHECK(one.losses.back() < 0.999 * one.losses.front());
    for (int workers : {2, 4}) {
        CAPTURE(workers);
        const Run many = train(small(workers), "--update auto", 100),
                  again = train(small(workers), "--update auto", 20);
        check_near(one, many);
        for (size_t s = 0; s < again.losses.size(); s++) CHECK(many.losses[s] == again.losses[s]);
        CHECK(train(small(workers), "--update auto", 20).weights == again.weights);
    }
}

TEST_CASE("workers: clipped, accumulated, in bf16, and with every placement that is asked for" * slow()) {
    for (const char *precision : {"fp32", "bf16"})
        for (double clip : {0.0, 0.3})
            for (int accumulate : {1, 3}) {
                if (precision == std::string("bf16") && (clip > 0) != (accumulate > 1))
                    continue;  // half of them will do
                const std::string format = std::string("--precision ") + precision;
                CAPTURE(format);
                CAPTURE(clip);
                CAPTURE(accumulate);
                const Run one = train(small(1, clip, accumulate), format + " --update separate", 4);
                const Run two = train(small(2, clip, accumulate), format + " --update separate", 4);
                // In bf16 a sum in another order may round to another half.
                for (size_t s = 0; s < one.losses.size(); s++)
                    CHECK(std::abs(one.losses[s] - two.losses[s]) <=
                          (format.ends_with("bf16") ? 2e-4 : 1e-5) * one.losses[s]);
                // Where an update is placed changes no bit.
                for (const char *update : {"backward", "forward"}) {
                    const Run placed = train(small(2, clip, accumulate), format + " --update " + update, 4);
                    CHECK(placed.losses == two.losses);
                    CHECK(placed.weights == two.weights);
                }
            }
}

TEST_CASE("workers: a rule that takes norms of whole parameters and gradients gets them from all parts" * slow()) {
    for (double clip : {0.0, 0.3}) {
        const std::string flags = "--optimizer lars --update separate";
        const Run one = train(small(1, clip), flags, 10), two = train(small(2, clip), flags, 10);
        check_near(one, two);
        const Run forward = train(small(2, clip), "--optimizer lars --update forward", 10);
        CHECK(forward.losses == two.losses);
        CHECK(forward.weights == two.weights);
    }
}

TEST_CASE("workers: checkpoints go from any number of them to any other") {
    const Scratch files;
    TrainingCase first(small(2, 0.3), "--update auto");
    Run whole;
    go_on(first, whole, 4);
    const uint64_t at = first.trainer.steps();
    first.trainer.write_parameters(files / "model"), first.trainer.write_state(files / "state");
    go_on(first, whole, 4);
    for (int workers : {1, 2, 4}) {
        CAPTURE(workers);
        TrainingCase c(small(workers, 0.3), "--update auto");
        c.trainer.load_parameters(files / "model", [](const std::string &name) { return name; });
        c.trainer.read_state(files / "state");
        while (c.trainer.steps() < at) c.skip();
        Run rest;
        go_on(c, rest, 4);
        for (size_t s = 0; s < rest.losses.size(); s++) {
            if (workers == 2)
                CHECK(rest.losses[s] == whole.losses[4 + s]);
            else
                CHECK(std::abs(rest.losses[s] - whole.losses[4 + s]) <= 1e-5 * rest.losses[s]);
        }
        if (workers == 2) CHECK(rest.weights == whole.weights);
    }
}

TEST_CASE("workers: padding of the last batch is not counted, whoever has it") {
    for (int rows : {1, 2, 3, 4}) {
        TrainingCase one(small(1), "--update auto"), two(small(2), "--update auto");
        CAPTURE(rows);
        CHECK(two.trainer.evaluate(two.batch(5), rows) ==
              doctest::Approx(one.trainer.evaluate(one.batch(5), rows)).epsilon(1e-6));
        const auto a = one.trainer.predict(one.batch(5), rows), b = two.trainer.predict(two.batch(5), rows);
        REQUIRE(a.size() == b.size());
        CHECK(std::ranges::equal(a, b, [](float x, float y) { return std::abs(x - y) < 1e-5f; }));
    }
}

TEST_CASE("workers: one that hangs is named, and the last whole step can be saved where no update has begun") {
    struct Hanging {
        std::unique_ptr<Device> first = make_device("cpu", 1);
        HangingDevice second;
        Trainer trainer;
        Hanging(const std::shared_ptr<Bundle> &bundle, int hangs_at)
            : second(make_device("cpu", 1), hangs_at), trainer(bundle, {first.get(), &second}, processes(), 0.5) {}
    };
    static std::vector<std::unique_ptr<Hanging>> kept;  // what is left behind may still use it
    const Scratch files;
    const auto bundle = compile_gpt(small(2), "--update separate", files / "bundle");
    TrainingCase whole(small(2), "--update separate");
    for (int hangs_at : {2, 3}) {  // a step has a run of the forward pass, then one of the rest
        CAPTURE(hangs_at);
        Trainer &trainer = kept.emplace_back(std::make_unique<Hanging>(bundle, hangs_at))->trainer;
        trainer.initialise(1);
        auto step = [&] { trainer.step([&]() -> const Batch & { return whole.batch(trainer.steps()); }, 1); };
        step();
        trainer.write_parameters(files / "model"), trainer.write_state(files / "state");
        CHECK_ERROR(step(), "worker 1 has given no sign of life for 0.5 s");
        CHECK(trainer.left_behind());
        CHECK(trainer.steps() == 1);
        REQUIRE(trainer.settled());
        trainer.write_parameters(files / "saved_model"), trainer.write_state(files / "saved_state");
        CHECK(read_file(files / "saved_model") == read_file(files / "model"));
        CHECK(read_file(files / "saved_state") == read_file(files / "state"));
    }
}

TEST_CASE("workers: a step that is compiled for another number is refused") {
    Scratch folder;
    auto bundle = compile_gpt(small(2), "", folder / "bundle");
    auto device = make_device("cpu", 1);
    CHECK_ERROR(Trainer(bundle, *device), "the step was compiled for 2 workers, but 1 run it");
}

}  // namespace cryolite::test
