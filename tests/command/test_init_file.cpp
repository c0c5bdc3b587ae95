// Weights in the names of other programs, as a generator program says them: nothing here knows a model.

#include <nlohmann/json.hpp>

#include "apps/cryolite/run/run_folder.h"
#include "apps/cryolite/inputs/init_file.h"
#include "runtime/files/safetensors.h"
#include "tests/runtime/scratch.h"

namespace cryolite::test {

namespace {

/// A file of two layers, a table of 7 rows of 3 and a head that repeats it.
struct Other {
    Scratch scratch;
    fs::path path = scratch / "weights.safetensors";

    explicit Other(const std::string &prefix = "", float head = 0.5f) {
        const std::vector<TensorSpec> specs = {{prefix + "table", Dtype::f32, {7, 3}},
                                               {"head", Dtype::f32, {7, 3}},
                                               {prefix + "block.0.norm", Dtype::f32, {3}},
                                               {prefix + "block.1.norm", Dtype::f32, {3}}};
        SafetensorsWriter writer(path, specs, {});
        for (const TensorSpec &s : specs) {
            const std::vector<float> values(s.shape.size() == 2 ? 21 : 3, s.name == "head" ? head : 0.5f);
            writer.write(s.name, std::span<const float>(values));
        }
        writer.finish();
    }
};

Request request() {
    Request r;
    r.program.description.name = "some";
    r.program.description.weights = {
        .prefix = "outer.",
        .repeats = {{"head", "table"}},
        .extents = {{"vocab", "table", 0, true}, {"width", "table", 1}},
        .numbered = {{"layers", "block.#.norm"}},
        .config = {.written = R"({"kind": "other", "d": "$width", "n": ["$layers"], "end": "$end_of_text"})"}};
    return r;
}

TrainSettings settings(const fs::path &init, const std::string &width = "3", const std::string &layers = "2") {
    TrainSettings s;
    s.app = "some", s.init = init;
    s.params = {{"vocab", "7"}, {"width", width}, {"layers", layers}};
    return s;
}

}  // namespace

TEST_CASE("--init: a file decides what the program says it decides, by its own names or with their prefix") {
    for (const char *prefix : {"", "outer."}) {
        const Other file(prefix);
        CHECK(param_of_init(settings(file.path), request(), "vocab") == 7);
        CHECK(!param_of_init(settings(file.path), request(), "width"));  // it has to be so, and is not decided
        check_init(settings(file.path), request());
    }
    CHECK(!param_of_init(settings(Other("else.").path), request(), "vocab"));
    CHECK(!param_of_init(settings(""), request(), "vocab"));
}

TEST_CASE("--init: a file of another model is refused before anything is compiled") {
    const Other file("outer.");
    CHECK_ERROR(check_init(settings(file.path, "4"), request()),
                "tensor 'outer.table' has shape [7, 3], for --width 3, but this model has 4");
    for (const char *layers : {"1", "3"})
        CHECK_ERROR(
            check_init(settings(file.path, "3", layers), request()),
            fmt::format("it does not have {} layers, as this model does: give its own number with --layers", layers));
    CHECK_ERROR(check_init(settings(Other("", 0.25f).path), request()),
                "head and table differ, but this model uses one tensor for both");
    CHECK_ERROR(check_init(settings("none.safetensors"), request()), "--init: cannot read none.safetensors");
}

TEST_CASE("config.json is what the program says of it, with the run's numbers") {
    const Request r = request();
    TrainSettings s = settings("");
    CHECK(nlohmann::json::parse(model_config(s, r.program)).dump() == R"({"d":3,"end":null,"kind":"other","n":[2]})");
    s.tokenizer = "gpt2";
    CHECK(nlohmann::json::parse(model_config(s, r.program))["end"] == 50256);
    s.params.erase("width");
    CHECK_ERROR(model_config(s, r.program), "the program's config has $width, which is no parameter of its model");
}

}  // namespace cryolite::test
