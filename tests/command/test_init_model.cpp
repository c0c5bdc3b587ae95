// --init FOLDER through training: losses of Llama and Qwen 2.5 as a reference in plain Python has them, and the run's
// folder as one to begin with.

#include "apps/cryolite/cli/commands.h"
#include "apps/cryolite/run/run_folder.h"
#include "apps/cryolite/session/session.h"
#include "apps/cryolite/session/step_questions.h"
#include "runtime/files/tensor_files.h"
#include "tests/runtime/llama_folder.h"
#include "tests/support/slow.h"

namespace cryolite::test {

namespace {

class Model {
public:
    Scratch scratch;
    const json golden;

    /// Kernels are kept in the build folder.
    explicit Model(const std::string &name) : golden(llama_golden(name)) {
        std::vector<uint16_t> words(512 + 100);
        const int32_t header[] = {20240520, 1, 100};
        std::memcpy(words.data(), header, sizeof header);
        for (size_t i = 0; i < 100; i++) words[512 + i] = uint16_t(token(i));
        write_plainly(scratch / "tokens.bin", {reinterpret_cast<const char *>(words.data()), words.size() * 2});
    }
    fs::path write(const std::string &name, Dtype dtype, size_t shards = 1) const {
        return write(name, llama_tensors(golden, dtype), shards);
    }
    fs::path write(const std::string &name, const std::vector<TensorSpec> &specs, size_t shards = 1) const {
        write_model(scratch / name, specs, shards);
        write_plainly(scratch / name / "config.json", config_of(golden).dump());
        return scratch / name;
    }
    std::vector<std::string> flags(const fs::path &init, const std::vector<std::string> &more = {}) const {
        std::vector<std::string> list = {"llama",
                                         "--init",
                                         init,
                                         "--data",
                                         scratch / "tokens.bin",
                                         "--context",
                                         golden["context"].dump(),
                                         "--batch",
                                         golden["batch"].dump(),
                                         "--clip",
                                         "0",
                                         "--cache",
                                         fs::path(CRYOLITE_BINARY_DIR) / "test_init_cache"};
        list.insert(list.end(), more.begin(), more.end());
        return list;
    }
    /// What is checked before kernels are compiled.
    void check(const fs::path &init) const {
        const Request r = read_request(Command::train, flags(init));
        TrainSettings s = understand(r);
        open_data(s, r);
        check_init(s, r);
    }
    /// The loss before any step of a model of this folder, and its weights written to `to`.
    double loss(const fs::path &init, const fs::path &to = "", const std::vector<std::string> &more = {}) {
        const Request r = read_request(Command::train, flags(init, more));
        TrainSettings s = understand(r);
        open_data(s, r);
        check_init(s, r);
        if (!session_) session_ = open_session(s, r, progress_, [](const std::string &) {});
        begin_weights(*session_->trainer, s, r);
        if (!to.empty()) session_->trainer->write_parameters(to);
        Batch batch;
        const int n = golden["context"].get<int>() * golden["batch"].get<int>();
        for (int i = 0; i < n; i++) batch.tokens.push_back(token(i)), batch.targets.push_back(token(i + 1));
        return session_->trainer->evaluate(batch, golden["batch"]);
    }

private:
    Progress progress_;
    std::unique_ptr<Session> session_;

    int32_t token(size_t i) const { return int32_t(formula_bits("tokens", i) % golden["vocab"].get<uint64_t>()); }
};

void check_loss(const std::string &name) {
    Model m(name);
    CHECK(m.loss(m.write("saved", Dtype::f32)) == doctest::Approx(m.golden["loss"].get<double>()).epsilon(2e-6));
}

}  // namespace

TEST_CASE(
    "init: a Qwen 2.5 in three formats, in one file and in several, is the same model, and is written as it was") {
    Model m("qwen2");
    const double expected = m.golden["loss"];
    std::string first;
    for (Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16})
        for (size_t shards : {1, 3}) {
            CAPTURE(name_of(dtype));
            CAPTURE(shards);
            const fs::path to = m.scratch / "written.safetensors";
            const fs::path folder = m.write(fmt::format("{}{}", name_of(dtype), shards), dtype, shards);
            CHECK(m.loss(folder, to) == doctest::Approx(expected).epsilon(2e-6));
            const SafetensorsFile written(to);
            const std::vector<TensorSpec> specs = llama_tensors(m.golden);
            CHECK(written.entries().size() == specs.size());
            for (const TensorSpec &spec : specs) {
                CAPTURE(spec.name);
                std::vector<std::byte> bytes(spec.bytes());
                written.read(written.at(spec.name, spec.shape), 0, bytes);
                CHECK(std::memcmp(bytes.data(), formula_bytes(spec).data(), bytes.size()) == 0);
            }
            first = first.empty() ? read_file(to) : first;
            CHECK(read_file(to) == first);
        }
}

TEST_CASE("init: tensors that are missing, unknown or of another shape are named before anything is compiled") {
    Model m("qwen2");
    std::vector<TensorSpec> specs = llama_tensors(m.golden);
    const auto k = std::ranges::find(specs, "model.layers.1.self_attn.k_proj.weight", &TensorSpec::name);
    const TensorSpec as_it_was = *k;
    k->shape = {8, 32};
    CHECK_ERROR(m.check(m.write("shape", specs)), "tensor 'model.layers.1.self_attn.k_proj.weight' has shape [8, 32], "
                                                  "the model expects [16, 32]");
    *k = as_it_was, k->name = "model.layers.1.self_attn.key.weight";
    const fs::path odd = m.write("odd", specs);
    CHECK_ERROR(m.check(odd), "tensor 'model.layers.1.self_attn.key.weight' is not a parameter of this model, whose "
                              "'model.layers.1.self_attn.k_proj.weight' of shape [16, 32] is missing there");
    m.loss(odd, "", {"--rename", "key=k_proj"});
    specs.erase(k);
    CHECK_ERROR(m.check(m.write("missing", specs)),
                "tensor 'model.layers.1.self_attn.k_proj.weight' of shape [16, 32] is missing");
}

TEST_CASE("init: the weights that a program says are those of its plan") {
    for (const char *app : {"llama", "gpt", "vision", "digits"}) {
        CAPTURE(app);
        const Request r = read_request(Command::train, {app});
        TrainSettings s = understand(r);
        std::map<std::string, TensorShape> said, planned;
        for (const TensorSpec &w : model_weights(r.program, bundle_request(s)))
            CHECK(said.emplace(w.name, w.shape).second);
        for (const PlanBuffer &b : step_plan(r.program, bundle_request(s)).buffers)
            if (b.role == Role::parameter) planned.emplace(b.name, TensorShape(b.shape.rbegin(), b.shape.rend()));
        CHECK(said == planned);
        CHECK(!said.empty());
    }
}

TEST_CASE("init: a run begins with a folder, and its own folder is one to begin with") {
    Model m("qwen2");
    const fs::path out = m.scratch / "run", again = m.scratch / "again";
    CHECK(run_train(m.flags(m.write("saved", Dtype::bf16, 2),
                            {"--out", out, "--steps", "1", "--lr", "0.01", "--warmup", "0"})) == 0);
    const json config = json::parse(read_file(out / "config.json"));
    CHECK(config["model_type"] == "qwen2");
    CHECK(config["eos_token_id"] == 3);  // of the folder
    CHECK(config["torch_dtype"] == "float32");
    const SafetensorsFile written(out / "model.safetensors");
    CHECK(written.find("model.layers.0.self_attn.q_proj.bias"));
    CHECK(!written.find("model.layers.0.self_attn.qkv_proj.weight"));
    const double after = m.loss(out, again);
    CHECK(read_file(again) == read_file(out / "model.safetensors"));
    CHECK(after < m.loss(m.scratch / "saved"));
    fs::remove_all(m.scratch / "saved");  // the run's own files suffice to go on with it
    CHECK(run_train({"llama", "--out", out, "--resume", "--steps", "2", "--cache",
                     fs::path(CRYOLITE_BINARY_DIR) / "test_init_cache"}) == 0);
    CHECK(json::parse(read_file(out / "config.json")) == config);
}

TEST_CASE("init: the loss of a Llama with a tied head" * slow()) { check_loss("llama"); }
TEST_CASE("init: the loss of a Llama 3, whose long wavelengths are stretched" * slow()) { check_loss("llama 3"); }

}  // namespace cryolite::test
