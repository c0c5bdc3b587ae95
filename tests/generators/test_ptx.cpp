// The kernels of a GPT and of the digits model for NVIDIA GPUs: PTX that ptxas assembles. No GPU is needed.

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "dsl/models/digits.h"
#include "dsl/models/gpt.h"
#include "dsl/models/llama.h"
#include "dsl/models/vision.h"
#include "generators/codegen/kernel_store.h"
#include "schedules/models/gpt.h"
#include "schedules/models/llama.h"
#include "tests/support/slow.h"
#include "tests/support/step.h"

namespace cryolite::test {

namespace {

const std::string ptxas = CRYOLITE_PTXAS;

bool ptxas_is_here() {
    if (ptxas.empty()) MESSAGE("skipped: there is no ptxas; it comes with the CUDA toolkit");
    return !ptxas.empty();
}

/// The PTX that a kernel's object carries.
std::string ptx_of(const std::string &object) {
    const std::string bytes = read_whole(object);
    const size_t begin = bytes.find(".version"), end = bytes.find('\0', begin);
    if (begin == std::string::npos) fail("the object has no PTX");
    return bytes.substr(begin, end - begin);
}

/// Compiles one kernel and assembles it for those architectures that its PTX is for; returns the number of entries.
std::string assemble(const BuiltKernel &built, const Machine &m) {
    char folder[] = "/tmp/cryolite-test-XXXXXX";
    if (!mkdtemp(folder)) fail("no folder");
    const std::string path = folder, object = path + "/k.o", ptx = path + "/k.ptx";
    compile_kernel(built, m, object);
    const std::string text = ptx_of(object);
    const int capability = m.target.get_cuda_capability_lower_bound();
    if (text.find(fmt::format(".target sm_{}\n", capability)) == std::string::npos)
        fail("the PTX is not for sm_{}: {}", capability, text.substr(0, 200));
    write_whole(ptx, text);
    for (const char *arch : {"sm_80", "sm_90"}) {
        if (capability > 80 && arch == std::string("sm_80")) continue;
        const std::string command =
            fmt::format("'{}' -arch={} -o '{}/k.cubin' '{}' > '{}/words' 2>&1", ptxas, arch, path, ptx, path);
        if (std::system(command.c_str()) != 0) fail("ptxas -arch={}: {}", arch, read_whole(path + "/words"));
    }
    int entries = 0;
    for (size_t at = 0; (at = text.find(".entry", at)) != std::string::npos; at++) entries++;
    if (std::system(("rm -rf '" + path + "'").c_str()) != 0) fail("cannot remove {}", path);
    return std::to_string(entries);
}

struct Assembled {
    int kernels = 0;   ///< that are distinct
    int launches = 0;  ///< of a step, all of its kernels
};

template <typename M> Assembled assemble_all(std::vector<std::pair<std::string, std::string>> arguments,
                                             typename Compiled<M>::Schedule schedule, const StepOptions &options,
                                             Halide::Target::Feature capability = Halide::Target::CUDACapability80,
                                             Format format = fp32) {
    Compiled<M> c(std::move(arguments), schedule, options, format, test_target({Halide::Target::CUDA, capability}));
    std::set<std::string> seen;
    std::vector<int> list;
    const std::vector<std::string> keys = c.keys();
    for (int k = 0; k < int(keys.size()); k++)
        if (seen.insert(keys[size_t(k)]).second) list.push_back(k);
    std::map<std::string, int> entries;
    run_children(
        int(list.size()), 2, 120,
        [&](int i) {
            return assemble(build_kernel(c.program, c.program.kernels[KernelId(list[size_t(i)])], c.machine),
                            c.machine);
        },
        [&](int i, const ChildResult &r) {
            INFO(c.program.kernels[KernelId(list[size_t(i)])].name);
            CHECK(r.error == "");
            CHECK(std::atoi(r.output.c_str()) > 0);
            entries[keys[size_t(list[size_t(i)])]] = std::atoi(r.output.c_str());
        });
    int launches = 0;
    for (const auto &[name, entry] : c.program.entries)
        if (name == "forward" || name == "step")
            for (KernelId k : entry.kernels) launches += entries[keys[size_t(k.index)]];
    MESSAGE(list.size() << " kernels, " << launches << " launches a step");
    return {int(list.size()), launches};
}

const std::vector<std::pair<std::string, std::string>> nano = {{"layers", "4"},   {"heads", "4"},  {"width", "128"},
                                                               {"context", "64"}, {"batch", "12"}, {"vocab", "65"}};
}  // namespace

TEST_CASE("ptx: every kernel of nano assembles for sm_80 and sm_90" * slow()) {
    if (!ptxas_is_here()) return;
    for (const char *update : {"separate", "backward"}) {
        StepOptions options{.clip = true};
        options.update = update;
        const Assembled a = assemble_all<Gpt>(nano, schedule_gpt, options);
        CHECK(a.kernels > 20);
        CHECK(a.launches < 300);  // a sum that becomes two of them is seen here
    }
}

TEST_CASE("ptx: every kernel of a small GPT, with the PTX of --target sm_90" * slow()) {
    if (!ptxas_is_here()) return;
    CHECK(assemble_all<Gpt>({{"layers", "1"}, {"heads", "2"}, {"width", "16"}, {"context", "8"}, {"batch", "2"}},
                            schedule_gpt, {.clip = true}, Halide::Target::CUDACapability86)
              .kernels > 20);
}

TEST_CASE("ptx: every kernel of a small GPT in bf16 and fp16" * slow()) {
    if (!ptxas_is_here()) return;
    for (Format format : {bf16, fp16})
        CHECK(assemble_all<Gpt>({{"layers", "1"}, {"heads", "2"}, {"width", "16"}, {"context", "8"}, {"batch", "2"}},
                                schedule_gpt, {.clip = true}, Halide::Target::CUDACapability80, format)
                  .kernels > 20);
}

TEST_CASE("ptx: every kernel of a small Llama, and of a residual network and a transformer of images" * slow()) {
    if (!ptxas_is_here()) return;
    CHECK(assemble_all<Llama>(
              {{"layers", "1"}, {"heads", "2"}, {"kv-heads", "1"}, {"width", "16"}, {"context", "8"}, {"batch", "2"}},
              schedule_llama, {.clip = true})
              .kernels > 20);
    for (const char *transformer : {"false", "true"})
        CHECK(assemble_all<Vision>({{"transformer", transformer},
                                    {"size", "8"},
                                    {"width", "8"},
                                    {"heads", "2"},
                                    {"layers", "1"},
                                    {"batch", "2"}},
                                   {}, {})
                  .kernels > 20);
}

TEST_CASE("ptx: every kernel of the digits model does") {
    if (!ptxas_is_here()) return;
    CHECK(assemble_all<Digits>({}, {}, {}).kernels > 20);
}

namespace {

/// The PTX of a GPT's distinct kernels with loops of this name; ptxas assembles it.
std::vector<std::string> ptx_of_loops(std::vector<std::pair<std::string, std::string>> arguments,
                                      const std::string &loops) {
    Compiled<Gpt> c(std::move(arguments), schedule_gpt, {.clip = true}, fp32,
                    test_target({Halide::Target::CUDA, Halide::Target::CUDACapability80}));
    const std::vector<std::string> keys = c.keys();
    std::map<std::string, KernelId> distinct;
    for (KernelId k : c.program.kernels.ids()) distinct.emplace(keys[size_t(k.index)], k);
    std::vector<KernelId> list;
    for (auto &[key, k] : distinct) list.push_back(k);
    std::vector<std::string> texts;
    run_children(
        int(list.size()), 2, 120,
        [&](int i) -> std::string {
            const BuiltKernel built = build_kernel(c.program, c.program.kernels[list[size_t(i)]], c.machine);
            if (built.loops != loops) return "";
            assemble(built, c.machine);
            char object[] = "/tmp/cryolite-test-XXXXXX";
            close(mkstemp(object));
            compile_kernel(built, c.machine, object);
            const std::string text = ptx_of(object);
            unlink(object);
            return text;
        },
        [&](int i, const ChildResult &r) {
            INFO(c.program.kernels[list[size_t(i)]].name);
            CHECK(r.error == "");
            if (!r.output.empty()) texts.push_back(r.output);
        });
    return texts;
}

bool has(const std::string &text, const char *word) { return text.find(word) != std::string::npos; }

/// Whether a shuffle stands between a branch and its label, where some lanes of a warp may miss it.
bool some_lanes_may_miss_a_shuffle(const std::string &ptx) {
    std::map<std::string, size_t> labels;
    std::vector<std::pair<size_t, std::string>> branches;
    std::vector<size_t> shuffles;
    std::istringstream in(ptx);
    std::string line;
    for (size_t n = 0; std::getline(in, line); n++) {
        const size_t label = line.find("$L");
        if (label == 0) labels[line.substr(0, line.find(':'))] = n;
        if (has(line, "shfl.sync")) shuffles.push_back(n);
        if (label > 0 && has(line, "bra")) branches.emplace_back(n, line.substr(label, line.find(';') - label));
    }
    for (const auto &[from, label] : branches)
        for (const size_t n : shuffles)
            if (std::min(from, labels.at(label)) < n && n < std::max(from, labels.at(label))) return true;
    return false;
}

}  // namespace

TEST_CASE("ptx: rows that fill warps are summed by shuffles of all lanes, without a barrier") {
    if (!ptxas_is_here()) return;
    const std::vector<std::string> texts = ptx_of_loops(
        {{"layers", "1"}, {"heads", "2"}, {"width", "64"}, {"context", "8"}, {"batch", "2"}}, "gpu rowwise");
    CHECK(texts.size() >= 3);
    for (const std::string &text : texts) {
        CHECK(has(text, "shfl.sync"));
        CHECK(!has(text, "bar.sync"));
        CHECK(!some_lanes_may_miss_a_shuffle(text));
    }
}

// Blocks of four warps are full: a warp without a row, which branches as a whole, is not asked for here.
TEST_CASE("ptx: rows of any length" * slow()) {
    if (!ptxas_is_here()) return;
    for (const int width : {1, 2, 7, 31, 32, 33, 96, 131}) {
        CAPTURE(width);
        const std::vector<std::string> texts = ptx_of_loops(
            {{"layers", "1"}, {"heads", "1"}, {"width", std::to_string(width)}, {"context", "4"}, {"batch", "2"}},
            "gpu rowwise");
        CHECK(texts.size() >= 3);
        for (const std::string &text : texts) {
            CHECK(has(text, "shfl.sync") == (width >= 32));
            CHECK(has(text, "bar.sync") == (width < 32));
            CHECK(!some_lanes_may_miss_a_shuffle(text));
        }
    }
}

TEST_CASE("ptx: elements that lie side by side are loaded and stored by fours") {
    if (!ptxas_is_here()) return;
    for (const auto &[width, loops] : {std::pair{"128", "gpu rowwise"}, {"20", "gpu pointwise"}}) {
        CAPTURE(loops);
        const auto texts =
            ptx_of_loops({{"layers", "1"}, {"heads", "2"}, {"width", width}, {"context", "8"}, {"batch", "2"}}, loops);
        const auto fours = [](const std::string &t) {
            return has(t, "global.nc.v4.b32") && has(t, "st.global.v4.b32");
        };
        CHECK(texts.size() >= 3);
        CHECK(std::ranges::count_if(texts, fours) >= 3);
    }
}

}  // namespace cryolite::test
