#include "dialects/cublaslt/matmul.h"

#include <HalideRuntime.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <stdexcept>

namespace cryolite::of_cublaslt {

namespace {

constexpr const char *library = "cublaslt";

/// The library's handle for a GPU, made at first use. It needs the stream's context, which `stream()` makes current.
Api::Object handle_of(const Api &api, GpuStream &gpu) {
    gpu.stream();
    std::shared_ptr<void> &kept = gpu.kept(library);
    if (!kept) {
        Api::Object handle = nullptr;
        api.check(api.create(&handle), "cublasLtCreate");
        kept.reset(handle, api.destroy);
    }
    return kept.get();
}

template <typename Value> void set(const Api &api, Api::Status (*function)(Api::Object, int, const void *, size_t),
                                   Api::Object object, int attribute, const Value &value) {
    api.check(function(object, attribute, &value, sizeof value), fmt::format("setting attribute {}", attribute));
}

/// The largest power of two up to 256, the library's own alignment, that divides an address.
uint32_t alignment(const void *at) {
    const auto address = reinterpret_cast<uintptr_t>(at);
    return uint32_t(std::min<uintptr_t>(256, address & -address));
}

std::string text_of(const Api::Algorithm &a) {
    std::string text;
    for (const uint64_t word : a.data) text += fmt::format("{:016x}", word);
    return text;
}

/// The inverse of `text_of`. False where the text, which may come from a file, is no algorithm.
bool read(const std::string &text, Api::Algorithm &a) {
    if (text.size() != 16 * std::size(a.data) || text.find_first_not_of("0123456789abcdef") != std::string::npos)
        return false;
    for (size_t w = 0; w < std::size(a.data); w++) a.data[w] = std::stoull(text.substr(16 * w, 16), nullptr, 16);
    return true;
}

}  // namespace

Matmul::Matmul(const MatmulCall &call, const ProductPlace &place)
    : api_(Api::get(place.gpu->driver())), call_(call), place_(place), handle_(handle_of(api_, *place.gpu)),
      product_(nullptr, api_.destroy_product), a_(describe(call.a)), b_(describe(call.b)), c_(describe(call.c)),
      d_(describe(call.d)) {
    describe_product();
    choose();
}

Matmul::Owned Matmul::describe(const Matrix &m) const {
    Api::Object made = nullptr;
    api_.check(api_.create_matrix(&made, m.type, uint64_t(m.rows), uint64_t(m.columns), m.stride),
               "cublasLtMatrixLayoutCreate");
    Owned matrix(made, api_.destroy_matrix);
    if (call_.batch > 1) {
        set(api_, api_.set_matrix, made, Api::batch, int32_t(call_.batch));
        set(api_, api_.set_matrix, made, Api::apart, int64_t(m.apart));
    }
    return matrix;
}

void Matmul::describe_product() {
    Api::Object made = nullptr;
    api_.check(api_.create_product(&made, call_.compute, Api::float32), "cublasLtMatmulDescCreate");
    product_.reset(made);
    auto attribute = [&](int name, const auto &value) { set(api_, api_.set_product, made, name, value); };
    if (call_.a.transposed) attribute(Api::transposes_a, Api::transpose);
    if (call_.b.transposed) attribute(Api::transposes_b, Api::transpose);
    attribute(Api::epilogue, call_.epilogue);
    if (call_.bias) attribute(Api::bias_pointer, call_.bias);
    if (call_.bias && call_.batch > 1) attribute(Api::bias_apart, call_.bias_apart);
    if (!call_.argument) return;
    attribute(Api::argument_pointer, call_.argument);
    attribute(Api::argument_stride, int64_t(call_.d.stride));
    if (call_.batch > 1) attribute(Api::argument_apart, int64_t(call_.d.apart));
}

/// The key of a remembered algorithm. It is equal for calls that the same algorithm suits.
std::string Matmul::words() const {
    std::string text = fmt::format("version {} compute {}{} batch {} epilogue {} adds {} workspace {}", api_.version(),
                                   int(call_.compute), call_.d.type == Api::float32 ? "" : ", sums in fp32,",
                                   call_.batch, call_.epilogue, call_.adds, place_.workspace_bytes);
    for (const Matrix *m : {&call_.a, &call_.b, &call_.c, &call_.d})
        text += fmt::format("; {} {} x {} by {} apart {}{} at {}", int(m->type), m->rows, m->columns, m->stride,
                            m->apart, m->transposed ? " transposed" : "", alignment(m->at));
    return text;
}

std::vector<Api::Candidate> Matmul::candidates() const {
    Api::Object made = nullptr;
    api_.check(api_.create_preference(&made), "cublasLtMatmulPreferenceCreate");
    const Owned preference(made, api_.destroy_preference);
    set(api_, api_.set_preference, made, Api::most_workspace, uint64_t(place_.workspace_bytes));
    // Else the parts of a sum may be rounded to 16 bits before they are added.
    if (call_.d.type != Api::float32)
        set(api_, api_.set_preference, made, Api::reductions, Api::reduces_in_compute_type);
    for (auto [attribute, matrix] : {std::pair{Api::alignment_a, &call_.a},
                                     {Api::alignment_b, &call_.b},
                                     {Api::alignment_c, &call_.c},
                                     {Api::alignment_d, &call_.d}})
        set(api_, api_.set_preference, made, attribute, alignment(matrix->at));
    std::vector<Api::Candidate> found(8);
    int count = 0;
    const Api::Status status = api_.find_algorithms(handle_, product_.get(), a_.get(), b_.get(), c_.get(), d_.get(),
                                                    made, int(found.size()), found.data(), &count);
    found.resize(status == 0 ? size_t(count) : 0);
    std::erase_if(found, [&](const Api::Candidate &c) { return c.state != 0 || c.workspace > place_.workspace_bytes; });
    if (found.empty())
        throw std::runtime_error(
            fmt::format("cuBLASLt has no algorithm for it ({}); compute it by Halide: --dialect halide, or a line "
                        "s(...).dialect(halide)",
                        api_.status_name(status)));
    return found;
}

bool Matmul::works(const Api::Algorithm &algorithm) const {
    Api::Candidate answer{};
    return api_.check_algorithm(handle_, product_.get(), a_.get(), b_.get(), c_.get(), d_.get(), &algorithm, &answer) ==
               0 &&
           answer.workspace <= place_.workspace_bytes;
}

/// Takes the remembered algorithm. Where there is none, times the algorithms that the library proposes, several times
/// each and in turn, and takes the one with the best time.
void Matmul::choose() {
    const std::string operation = words();
    // One run now has the driver load the algorithm's kernel, which must not happen while workers wait for each other.
    if (read(place_.gpu->find(library, operation), algorithm_) && works(algorithm_) && start(algorithm_) == 0) return;
    const std::vector<Api::Candidate> list = candidates();
    constexpr double never = std::numeric_limits<double>::infinity();
    std::vector<double> best(list.size(), never);
    constexpr int rounds = 4;  // the first is not counted: memory and code are touched for the first time
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < list.size(); i++) {
            const double s = place_.gpu->seconds([&] { return start(list[i].algorithm); });
            if (round > 0) best[i] = std::min(best[i], s);
        }
    const size_t fastest = size_t(std::ranges::min_element(best) - best.begin());
    if (best[fastest] == never)
        throw std::runtime_error("none of the algorithms that cuBLASLt proposes for it could be started");
    algorithm_ = list[fastest].algorithm;
    place_.gpu->keep(library, operation, text_of(algorithm_), best[fastest]);
}

int Matmul::start(const Api::Algorithm &algorithm) const {
    static constexpr float zero = 0, one = 1;
    return api_.multiply(handle_, product_.get(), &one, call_.a.at, a_.get(), call_.b.at, b_.get(),
                         call_.adds ? &one : &zero, call_.c.at, c_.get(), call_.d.at, d_.get(), &algorithm,
                         place_.workspace, place_.workspace_bytes, place_.gpu->stream());
}

int Matmul::run(void *context) const {
    const Api::Status status = start(algorithm_);
    if (status) halide_error(context, fmt::format("cublasLtMatmul: {}", api_.status_name(status)).c_str());
    return -status;
}

}  // namespace cryolite::of_cublaslt
