// Images from a folder, through the command: the flags that are for them, and two networks that learn.

#include "apps/cryolite/cli/commands.h"
#include "apps/cryolite/inputs/run_data.h"
#include "apps/cryolite/session/session.h"
#include "apps/cryolite/session/step_questions.h"
#include "runtime/files/checkpoint.h"
#include "tests/runtime/idx.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

struct Images {
    IdxFolder folder{30, 12, 8, 8};
    Scratch scratch;

    Request request(const std::vector<std::pair<std::string, std::string>> &flags = {}) const {
        Request r;
        r.app = "vision";
        r.program = find_program(r.app, Cache(scratch / "cache"));
        r.values.give("data", {folder.scratch.path.string(), Origin::command_line});
        r.values.give("cache", {(scratch / "cache").string(), Origin::command_line});
        r.values.give("size", {"8", Origin::command_line});
        r.values.give("batch", {"6", Origin::command_line});
        for (auto &[flag, text] : flags) r.values.give(flag, {text, Origin::command_line});
        return r;
    }
    static RunData open(const Request &r) {
        TrainSettings s = understand(r);
        return open_data(s, r);
    }
};

}  // namespace

TEST_CASE("vision: a folder of images is the data of a model of rows") {
    const Images images;
    const Request r = images.request({{"shift", "1"}, {"flip", "yes"}});
    TrainSettings s = understand(r);
    const RunData data = open_data(s, r);
    CHECK(data.class_names.empty());
    CHECK(data.rows.rows() == 30);
    CHECK(data.held_out.rows() == 12);
    CHECK(s.params.at("classes") == "3");
    CHECK(data.about == "30 images of 8 x 8 to train on, 12 held out, 3 classes");
    Batch b;
    const auto source = data.source(s);
    source->allocate(b), source->fill(0, b);
    CHECK(*std::ranges::max_element(b.features) <= 1);
    CHECK(*std::ranges::max_element(b.features) > 0.5);
    const auto plain = understand(images.request());
    const auto as_they_are = data.source(plain);
    Batch c;
    as_they_are->allocate(c), as_they_are->fill(0, c);
    CHECK(b.features != c.features);
    CHECK(b.targets == c.targets);
}

TEST_CASE("vision: a step is shown without images, as Fashion-MNIST's") {
    const Images images;
    const auto shown = [&](const std::vector<std::pair<std::string, std::string>> &flags) {
        Request r = images.request(flags);
        r.command = Command::explain;
        r.values.erase("data");
        TrainSettings s = understand(r);
        CHECK(data_of_step(s, r).train.empty());
        return s.params.at("classes");
    };
    CHECK(shown({}) == "10");
    CHECK(shown({{"classes", "7"}}) == "7");
    Request r = images.request();
    r.command = Command::explain;
    TrainSettings s = understand(r);
    CHECK(data_of_step(s, r).rows.rows() == 30);  // those that are named decide
    CHECK(s.params.at("classes") == "3");
}

TEST_CASE("vision: flags of images say nothing to text and to tables, which is an error") {
    const Images images;
    CHECK_ERROR(images.open(images.request({{"val", images.folder.scratch.path.string()}})),
                "has images to validate of its own");
    CHECK_ERROR(images.open(images.request({{"classes", "2"}})), "is not one of 2 classes (0 to 1)");
    CHECK_ERROR(understand(images.request({{"flip", "maybe"}})), "--flip is \"maybe\", expected no or yes");
    const Scratch scratch;
    const std::string csv = write_plainly(scratch / "a.csv", "1,2,0\n3,4,1\n").string();
    CHECK_ERROR(images.open(images.request({{"data", csv}, {"shift", "1"}})),
                "is a file: name the folder of the images' IDX files, or, if it is a table of numbers, add --shift 0 "
                "--flip no");
    CHECK_ERROR(images.open(images.request({{"data", scratch.path.string()}})), "train-images-idx3-ubyte");
    CHECK_ERROR(images.open(images.request({{"size", "16"}})),
                "has images of 8 x 8, 64 pixels, the model reads 256: name another --data, or give --size 8");
    CHECK_ERROR(images.open(images.request({{"shift", "8"}})),
                "--shift 8 may move an image of 8 x 8 out of the picture, expected less than 8");
    images.folder.write("t10k-labels-idx1-ubyte", IdxFolder::file({12}, {0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 4}));
    CHECK(
        contains(images.open(images.request()).warning, "the largest label is 4 in the images to validate, and 2 in"));
    Request text = images.request({{"shift", "1"}});
    text.program.description.task = "tokens";
    CHECK_ERROR(understand(text), "--shift is for images; this model reads text");
}

TEST_CASE("vision: sizes of the transformer are refused for a residual network") {
    const Images images;
    const auto weights = [&](const std::vector<std::pair<std::string, std::string>> &flags) {
        const Request r = images.request(flags);
        return model_weights(r.program, bundle_request(understand(r)));
    };
    for (const char *flag : {"heads", "patch"})
        CHECK_ERROR(weights({{flag, "2"}}),
                    fmt::format("a residual network has no heads and no patches: leave them out, "
                                "or choose the transformer (--{} 2)",
                                flag));
    CHECK(!weights({{"heads", "2"}, {"patch", "2"}, {"transformer", "true"}}).empty());
}

TEST_CASE("vision: a residual network and a vision transformer learn, and go on with the same bits" * slow()) {
    const Images images;
    for (const char *preset : {"resnet", "vit"}) {
        CAPTURE(preset);
        const Scratch scratch;
        const auto train = [&](const std::string &out, const std::string &steps, bool resume = false) {
            std::vector<std::string> flags = {"vision",
                                              "--out",
                                              scratch / out,
                                              "--steps",
                                              steps,
                                              "--cache",
                                              fs::path(CRYOLITE_BINARY_DIR) / "test_init_cache"};
            const std::vector<std::string> more = {
                "--preset",     preset, "--size",   "8",    "--width",  "8",
                "--layers",     "1",    "--batch",  "6",    "--warmup", "5",
                "--lr",         "0.01", "--min-lr", "0.01", "--data",   images.folder.scratch.path,
                "--eval-every", "20"};
            if (resume)
                flags.push_back("--resume");
            else
                flags.insert(flags.end(), more.begin(), more.end());
            return run_train(flags);
        };
        REQUIRE(train("whole", "60") == 0);
        REQUIRE(train("parts", "20") == 0);
        REQUIRE(train("parts", "60", true) == 0);
        CHECK(read_file(scratch / "whole/model.safetensors") == read_file(scratch / "parts/model.safetensors"));
        CHECK(read_file(scratch / "whole/confusion.svg").find("vision " + std::string(preset)) != std::string::npos);
        const std::string metrics = read_file(scratch / "whole/metrics.jsonl");
        const size_t at = metrics.rfind("\"accuracy\":");
        REQUIRE(at != std::string::npos);
        CHECK(std::stod(metrics.substr(at + 11)) > 0.9);
    }
}

}  // namespace cryolite::test
