// The scale of the loss in fp16: it follows its model over many steps on all workers, each step tells its own, nothing
// waits for it, files that have none that a step leaves are refused; and the step without it.

#include "runtime/files/safetensors.h"
#include "tests/parity/scaled_case.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

/// 2000 steps that overflow where they are made to, in turn in the first and in the last example, which is another
/// worker's where there are two.
void follow_model(const std::string &flags, int workers, double clip = 0) {
    CAPTURE(flags);
    CAPTURE(workers);
    CAPTURE(clip);
    ScaledCase c(flags + (clip > 0 ? " --clip" : ""), workers);
    ScaleModel m{.scale = 1, .interval = 7};
    c.begin(m);
    c.trainer.set("lr", 1e-5), c.trainer.set("clip", clip);
    const auto before = c.kept();
    int32_t withheld = 0, clipped = 0;
    double most = 0, least = INFINITY;
    for (int32_t k = 0; k < 2000; k++) {
        // From 2^15 on an adjoint might overflow by itself.
        const bool overflows = m.scale >= 0x1p14 || formula_bits("overflows", uint64_t(k)) % 12 == 0;
        const double scale = m.scale;
        overflows ? c.overflow(withheld % 2 ? ScaledCase::examples - 1 : 0) : c.step();
        m.step(overflows), withheld += overflows;
        most = std::max(most, m.scale), least = std::min(least, m.scale);
        for (int w = 0; w < workers; w++) {
            CAPTURE(w);
            REQUIRE(c.numbers<float>(Role::loss_scaler, "loss_scale", w).at(0) == m.scale);
            REQUIRE(c.numbers<int32_t>(Role::loss_scaler, "good_steps", w).at(0) == m.good);
            REQUIRE(c.numbers<int32_t>(Role::loss_scaler, "low_steps", w).at(0) == m.low);
            REQUIRE(c.numbers<int32_t>(Role::count, "", w) == std::vector<int32_t>{k + 1 - withheld, withheld});
        }
        if (overflows) continue;
        const double factor = c.numbers<float>(Role::scale).at(0) * scale;  // of gradients that were not scaled
        clipped += factor < 1;
        REQUIRE(factor > 0);
        REQUIRE(factor <= 1);
    }
    CHECK(most / least >= 0x1p14);
    CHECK(c.kept() != before);
    CHECK(clipped == (clip > 0 ? 2000 - withheld : 0));
}

/// A checkpoint's file with other bytes in one of its tensors.
fs::path with_bytes(const fs::path &from, const fs::path &to, const std::string &tensor, std::string_view bytes) {
    std::string file = read_file(from);
    uint64_t header = 0;
    std::memcpy(&header, file.data(), sizeof header);
    const json at = json::parse(file.substr(8, header)).at(tensor).at("data_offsets");
    REQUIRE(at[1].get<size_t>() - at[0].get<size_t>() == bytes.size());
    file.replace(8 + header + at[0].get<size_t>(), bytes.size(), bytes);
    return write_plainly(to, file);
}
template <typename T> std::string bytes_of(const std::vector<T> &numbers) {
    return {reinterpret_cast<const char *>(numbers.data()), numbers.size() * sizeof(T)};
}

}  // namespace

TEST_CASE("loss scale: it follows its model over 2000 steps that overflow where they are made to") {
    for (int workers : {1, 2}) follow_model("--optimizer adamw", workers);
    follow_model("--optimizer adamw", 2, 0.01);
}

TEST_CASE("loss scale: the same of every rule, clipped or not, wherever the update is" * slow()) {
    for (const char *optimizer : {"adamw", "sgd", "lion", "lars", "root"}) {
        const std::string flags = fmt::format("--optimizer {} --update ", optimizer);
        follow_model(flags + "backward", 1, 0.01);
        follow_model(flags + "backward", 2, 0.01);
        follow_model(flags + "forward", 2);
    }
}

TEST_CASE("loss scale: on a device that runs ahead a step tells its own, and the host waits for none") {
    for (const char *update : {"separate", "backward", "forward"}) {
        CAPTURE(update);
        const UseRecorder use;
        ScaledCase c(fmt::format("--optimizer adamw --update {}", update), 1, true);
        ScaleModel m{.scale = 4, .interval = 3};
        c.begin(m);
        std::vector<ScaleModel> after = {m};  // by the step's number
        std::set<double> scales;
        for (uint64_t k = 1; k <= 20; k++) {
            const bool overflows = k % 8 == 2 || k % 8 == 3 || k % 8 == 4;
            m.step(overflows), after.push_back(m);
            if (k == 4) use.recorder.calls.clear();  // two steps run and capture, and those behind them wait
            const StepResult *r = c.advance(overflows ? ScaledCase::overflowing : 1);
            REQUIRE((r == nullptr) == (k == 1));
            if (!r) continue;
            REQUIRE(r->step == k - 1);
            CHECK(r->loss_scale == after[k - 1].scale);
            CHECK(r->low_scale_in_a_row == uint64_t(after[k - 1].low));
            scales.insert(r->loss_scale);
        }
        CHECK(use.recorder.waits() == 0);
        CHECK(scales.size() >= 4);
        CHECK(std::ranges::any_of(after, [](const ScaleModel &s) { return s.low > 1; }));
        const StepResult *last = c.trainer.rest();
        REQUIRE(last);
        CHECK(last->loss_scale == m.scale);
        CHECK(c.trainer.loss_scale() == m.scale);
        CHECK(use.recorder.waits() > 0);  // as that asks the device itself
    }
}

TEST_CASE("loss scale: a file with one that no step leaves is refused, and changes nothing") {
    ScaledCase c("--optimizer adamw"), other("--optimizer adamw");
    c.step(), c.overflow(), c.step();
    const Scratch folder;
    c.trainer.write_state(folder / "state");
    other.step();
    const auto before = other.kept();
    const auto refused = [&](const char *tensor, const std::string &bytes, const std::string &words) {
        CAPTURE(words);
        const fs::path bad = with_bytes(folder / "state", folder / "bad", tensor, bytes);
        CHECK_ERROR(other.trainer.check_state(bad), words);
        CHECK_ERROR(other.trainer.read_state(bad), words);
        CHECK(other.kept() == before);
        CHECK(other.trainer.loss_scale() == 65536);
        CHECK(other.trainer.withheld() == 0);
        CHECK(other.trainer.low_scale_in_a_row() == 0);
    };
    for (float scale : {0.0f, -1.0f, NAN, 3.0f, INFINITY, 0x1p127f, 0x1p-127f})
        refused("loss_scale", bytes_of<float>({scale}),
                fmt::format("tensor 'loss_scale' is {}, expected a power of two from 2^-126 to 2^126; go on from "
                            "another checkpoint",
                            scale));
    for (const auto &pair : {std::vector<int32_t>{-1, 0}, {0, -1}, {5, INT32_MIN}})
        for (const char *tensor : {"loss_scale_steps", "updates"})
            refused(tensor, bytes_of(pair),
                    fmt::format("tensor '{}' is [{}, {}], expected two counts from 0 on", tensor, pair[0], pair[1]));
    other.trainer.check_state(folder / "state");
    CHECK(other.kept() == before);
    other.trainer.read_state(folder / "state");
    CHECK(other.trainer.loss_scale() == 32768);
    CHECK(other.trainer.withheld() == 1);
}

TEST_CASE("loss scale: without the check of gradients there is none, and an update is done whatever its gradient") {
    ScaledCase c("--optimizer sgd --finite-check off"), scaled("--optimizer sgd");
    CHECK(!c.trainer.scales_loss());
    CHECK(scaled.trainer.scales_loss());
    for (Role role : {Role::loss_scaler, Role::count}) CHECK(c.trainer.plan().find(role) < 0);
    CHECK_ERROR(c.trainer.set_loss_scale(1024), "the plan has no scale of the loss");
    CHECK(c.trainer.loss_scale() == 1);
    CHECK(c.step() == scaled.step());
    const auto good = c.numbers<float>(Role::master, "last.weight.master");
    CHECK(std::ranges::all_of(good, [](float w) { return std::isfinite(w); }));
    c.overflow(), scaled.overflow();
    CHECK(c.trainer.withheld() == 0);
    CHECK(scaled.trainer.withheld() == 1);
    const auto bad = c.numbers<float>(Role::master, "last.weight.master");
    CHECK(!std::ranges::all_of(bad, [](float w) { return std::isfinite(w); }));
}

}  // namespace cryolite::test
