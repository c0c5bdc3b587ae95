#include "apps/cryolite/report/events.h"
#include "apps/cryolite/report/progress.h"

#include <cmath>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "tests/runtime/scratch.h"

namespace cryolite {

TEST_CASE("events have the fields and digits of the contract") {
    CHECK(compile_json(37, 30, 1.25) == R"({"event":"compile","kernels":37,"cached":30,"seconds":1.25})");
    CHECK(to_json(StepEvent{12, 4.16487980, 4683.29, 0.0136656, 1e-3, 3}) ==
          R"({"event":"step","step":12,"loss":4.1648798,"tok_s":4683.29,"step_s":0.0136656,"lr":0.001,"withheld":3})");
    StepEvent several{1, 2.5, 10, 1, 1e-3};
    several.losses = {{"loss", 1.75}, {"other \"x\"", 2.5}};
    CHECK(to_json(several) == R"({"event":"step","step":1,"loss":2.5,"tok_s":10,"step_s":1,"lr":0.001,"withheld":0,)"
                              R"("losses":{"loss":1.75,"other \"x\"":2.5}})");
    CHECK(to_json(StepEvent{.step = 1, .loss = 2.5, .tok_s = 10, .step_s = 1, .lr = 1e-3, .loss_scale = 65536}) ==
          R"({"event":"step","step":1,"loss":2.5,"tok_s":10,"step_s":1,"lr":0.001,"withheld":0,"loss_scale":65536})");
    CHECK(to_json(EvalEvent{250, 1.9, {}}) == R"({"event":"eval","step":250,"val_loss":1.9})");
    CHECK(to_json(EvalEvent{250, 0.5, 0.985}) == R"({"event":"eval","step":250,"val_loss":0.5,"accuracy":0.985})");
    const EvalEvent numbers{.step = 250, .val_loss = 0.25, .rmse = 0.5, .r2 = 0.875};
    CHECK(to_json(numbers) == R"({"event":"eval","step":250,"val_loss":0.25,"rmse":0.5,"r2":0.875})");
    CHECK(metric_words(numbers) == ", RMSE 0.5, R2 0.8750");
    EvalEvent named{.step = 250, .val_loss = 0.25, .of_averages = true};
    named.losses = {{"loss", 0.125}, {"accuracy", 0.5}};
    CHECK(to_json(named) == R"({"event":"eval","step":250,"val_loss":0.25,)"
                            R"("losses":{"loss":0.125,"accuracy":0.5},"of_averages":true})");
    CHECK(metric_words(EvalEvent{250, 0.5, 0.985}) == ", accuracy 98.50 %");
    const EvalEvent some{.step = 250, .val_loss = 0.25, .of_averages = true, .batches = 20, .of_batches = 4350};
    CHECK(metric_words(some) == ", of the weights' averages, of 20 of 4,350 batches");
    CHECK(to_json(some).ends_with(R"(,"of_averages":true,"batches":20})"));
    CHECK(to_json(DoneEvent{0.5, 0.03, 0.031, 24000, 25000, 118, 0.62}) ==
          R"({"event":"done","first_step_s":0.5,"best_s":0.03,"median_s":0.031,"tok_s":24000,)"
          R"("best_tok_s":25000,"peak_rss_mb":118,"fraction_of_peak":0.62})");
    HostWaits waits;
    waits.after_step(std::nullopt);
    CHECK(!waits.count);
    for (uint64_t n : {5, 9, 9, 11}) waits.after_step(n);
    CHECK(waits.count == 2);
    CHECK(to_json(DoneEvent{.host_waits = 3}).ends_with(R"(,"host_waits":3})"));
    CHECK(to_json(DoneEvent{.host_waits = 0, .step_waits = 7}).ends_with(R"(,"host_waits":0,"step_waits":7})"));
    CHECK(peer_json("torch eager", 0.04, 0.05, 1.5, 900) ==
          R"({"event":"peer","name":"torch eager","best_s":0.04,"median_s":0.05,"ratio":1.5,"peak_rss_mb":900})");
}

TEST_CASE("nine digits give a float back") {
    for (float loss : {4.17438793f, 1e-20f, 3.4e38f, 0.1f}) {
        const auto j = nlohmann::json::parse(to_json(StepEvent{1, loss, 1, 1, 1}));
        CHECK(j["loss"].get<float>() == loss);
    }
}

TEST_CASE("the time of a step has digits, however short it is") {
    CHECK(step_time_text(0.01234) == "12.3 ms");
    CHECK(step_time_text(1e-4) == "0.1 ms");
    CHECK(step_time_text(4.56e-5) == "45.6 µs");
    CHECK(step_time_text(0) == "0.0 µs");
}

TEST_CASE("where nobody looks, kernels that are compiled are counted in few lines") {
    const std::string said = test::stderr_of([] {
        Progress progress;
        for (int done = 0; done <= 300; done++) progress.compiling(done, 300, 7);
        progress.compiling(300, 300, 300);
    });
    CHECK(said == "compiling kernels: 0 of 300, 7 from the cache\ncompiling kernels: 300 of 300, 7 from the cache\n"
                  "compiling kernels: 300 of 300, 300 from the cache\n");
}

TEST_CASE("what is no number is still JSON") {
    const auto j = nlohmann::json::parse(to_json(StepEvent{1, NAN, INFINITY, 1, 1}));
    CHECK(j["loss"].is_null());
    CHECK(j["tok_s"].is_null());
}

}  // namespace cryolite
