#pragma once
// A product by the dialect cublaslt on a GPU, against doubles of the driver and of the library.

#include <array>
#include <deque>
#include <map>

#include "dialects/dialect.h"
#include "runtime/device/make_device.h"
#include "tests/cuda/number_formats.h"
#include "tests/cuda/use_cublaslt_recorder.h"
#include "tests/cuda/use_recorder.h"
#include "tests/runtime/formula.h"

namespace cryolite::test {

using Words = std::vector<std::string>;

inline int format_of(const std::string &type) {
    return type == "float16" ? float16 : type == "bfloat16" ? bfloat16 : float32;
}

/// A product with arrays of its own on a GPU, and what plain loops make of them.
class ProductTrial {
public:
    UseRecorder cuda;
    UseCublasLtRecorder lt;

    explicit ProductTrial(Product given, const Words &ops = {}, bool bias_gradient = false) : p(std::move(given)) {
        const int64_t of_x = int64_t(p.rows) * p.in, of_y = int64_t(p.rows) * p.out, of_W = weights();
        const int64_t of_result = p.form == Product::forward ? of_y : p.form == Product::d_input ? of_x : of_W;
        if (p.form != Product::d_parameter) p.weight = add(p.type, of_W, false);
        if (p.form != Product::d_input) p.x = add(p.type, of_x, false);
        if (p.form != Product::forward) p.dy = add(p.type, of_y, false);
        for (const std::string &op : ops) {
            if (op == "kept") {
                p.then.back().stores = add(p.result, of_result, true);
                continue;
            }
            const bool reads = op == "bias" || op == "add" || op.starts_with("d_");
            p.then.push_back({op, reads ? add(p.result, op == "bias" ? p.out : of_result, false) : -1, -1});
        }
        (p.then.empty() ? p.stores : p.then.back().stores) = add(p.result, of_result, true);
        if (bias_gradient) p.bias_gradient = add(p.result, p.out, true);
        p.check(arguments);
        device = make_device("cuda", 1);
    }
    ~ProductTrial() {
        ready.reset();
        for (DeviceMemory &m : memory) device->release(m);
        if (workspace.address) device->release(workspace);
        device.reset();
        CHECK(lt.recorder.handles == 0);
        CHECK(lt.recorder.objects == 0);
        for (const std::string &wrong : lt.recorder.wrong) CHECK(wrong == "");
    }

    void prepare(size_t workspace_bytes = 1 << 16) {
        if (memory.empty())
            for (const Product::Argument &a : arguments)
                memory.push_back(device->allocate(size_t(a.elements * bytes_of(format_of(a.type))), "argument"));
        constexpr size_t apart = 64;  // as places of an arena are
        if (!workspace.address) workspace = device->allocate(workspace_bytes + apart, "workspace");
        ProductPlace place{.arguments = {},
                           .workspace = static_cast<char *>(workspace.address) + apart,
                           .workspace_bytes = workspace_bytes,
                           .gpu = device->gpu()};
        for (const DeviceMemory &m : memory) place.arguments.push_back(m.address);
        ready = load_dialect("cublaslt")->prepare(p, place);
    }
    /// Numbers from a formula into every array, those that are written among them.
    void fill() {
        values.clear();
        for (size_t a = 0; a < arguments.size(); a++) {
            const int format = format_of(arguments[a].type);
            auto &v = values.emplace_back(size_t(arguments[a].elements));
            std::vector<char> stored(v.size() * size_t(bytes_of(format)));
            for (size_t i = 0; i < v.size(); i++) {
                const double x = double(formula_bits("cublaslt " + std::to_string(a), i) >> 11) * 0x1p-53 - 0.5;
                store(stored.data(), int64_t(i), format, float(2 * x)), v[i] = load(stored.data(), int64_t(i), format);
            }
            device->upload(memory[a], 0, stored.data(), stored.size());
        }
    }
    CallFailure run(Replay *replay = nullptr) {
        const KernelCall call{run_ready, argv.data()};
        argv[1] = ready.get();
        context = device->context();
        return device->run({&call, 1}, replay);
    }
    std::vector<float> get(int argument) {
        const Product::Argument &a = arguments[size_t(argument)];
        std::vector<char> stored(size_t(a.elements * bytes_of(format_of(a.type))));
        device->download(stored.data(), memory[size_t(argument)], 0, stored.size());
        device->finish();
        std::vector<float> v(static_cast<size_t>(a.elements));
        for (size_t i = 0; i < v.size(); i++) v[i] = load(stored.data(), int64_t(i), format_of(a.type));
        return v;
    }
    /// All that is stored, and what is between the columns of a panel and its end, as it was.
    void check() {
        const double bits = p.result == "float16" ? 0x1p-10 : p.result == "bfloat16" ? 0x1p-7 : 1e-5;
        for (auto &[argument, expected] : expected_values()) {
            const std::vector<float> got = get(argument);
            double worst = 0;
            for (size_t i = 0; i < got.size(); i++)
                worst = std::max(worst, std::abs(got[i] - expected[i]) / (1 + std::abs(expected[i])));
            CAPTURE(argument);
            CHECK(worst < bits);
        }
    }

    Product p;
    std::vector<Product::Argument> arguments;
    std::unique_ptr<Device> device;
    std::unique_ptr<Ready> ready;

private:
    std::deque<DeviceMemory> memory;
    DeviceMemory workspace;
    std::deque<std::vector<float>> values;
    void *context = nullptr;
    std::array<void *, 2> argv = {&context, nullptr};

    int add(const std::string &type, int64_t elements, bool written) {
        arguments.push_back({type == "tfloat32" ? "float32" : type, elements, written});
        return int(arguments.size()) - 1;
    }
    int64_t weights() const {
        return p.panel ? int64_t(p.out + p.panel - 1) / p.panel * p.panel * p.in : int64_t(p.out) * p.in;
    }
    size_t at_weight(int o, int i) const {
        if (p.inputs_innermost) return size_t(o) * size_t(p.in) + size_t(i);
        if (!p.panel) return size_t(i) * size_t(p.out) + size_t(o);
        return size_t(o / p.panel) * size_t(p.panel * p.in) + size_t(i * p.panel + o % p.panel);
    }
    double factor(int argument, size_t i) const {
        const float x = values[size_t(argument)][i];
        return p.type == "tfloat32" ? rounded(x, 10) : x;
    }
    double product(int row, int column) const {  // of the result, `column` innermost
        double sum = 0;
        if (p.form == Product::forward)
            for (int i = 0; i < p.in; i++) sum += factor(p.weight, at_weight(column, i)) * factor(p.x, at_x(i, row));
        else if (p.form == Product::d_input)
            for (int o = 0; o < p.out; o++) sum += factor(p.weight, at_weight(o, column)) * factor(p.dy, at_y(o, row));
        else
            for (int r = 0; r < p.rows; r++) sum += factor(p.dy, at_y(column, r)) * factor(p.x, at_x(row, r));
        return sum;
    }
    size_t at_x(int i, int r) const { return size_t(r) * size_t(p.in) + size_t(i); }
    size_t at_y(int o, int r) const { return size_t(r) * size_t(p.out) + size_t(o); }

    std::map<int, std::vector<double>> expected_values() const {
        std::map<int, std::vector<double>> all;
        for (size_t a = 0; a < arguments.size(); a++)
            if (arguments[a].written) all[int(a)] = {values[a].begin(), values[a].end()};
        const int columns = p.form == Product::d_input ? p.in : p.out;
        const int rows = p.form == Product::d_parameter ? p.in : p.rows;
        for (int r = 0; r < rows; r++)
            for (int c = 0; c < columns; c++) {
                const size_t at = p.form == Product::d_parameter ? at_weight(c, r) : size_t(r * columns + c);
                double x = product(r, c);
                if (p.accumulate) x += values[size_t(p.stores)][at];
                if (p.stores >= 0) all[p.stores][at] = x;
                for (const Product::Then &t : p.then) {
                    const double read = t.reads < 0 ? 0 : values[size_t(t.reads)][t.op == "bias" ? size_t(c) : at];
                    x = after(t.op, x, read);
                    if (t.stores >= 0) all[t.stores][at] = x;
                }
            }
        for (int o = 0; p.bias_gradient >= 0 && o < p.out; o++) {
            double sum = 0;
            for (int r = 0; r < p.rows; r++) sum += values[size_t(p.dy)][at_y(o, r)];
            all[p.bias_gradient][size_t(o)] = sum;
        }
        return all;
    }
    static double after(const std::string &op, double x, double read) {
        const double k = std::sqrt(2 / std::acos(-1));
        auto tanh_at = [&](double v) { return std::tanh(k * (v + 0.044715 * v * v * v)); };
        if (op == "bias" || op == "add") return x + read;
        if (op == "relu") return std::max(x, 0.0);
        if (op == "gelu_tanh") return 0.5 * x * (1 + tanh_at(x));
        const double t = tanh_at(read);
        return x * (0.5 * (1 + t) + 0.5 * read * (1 - t * t) * k * (1 + 3 * 0.044715 * read * read));
    }
};

}  // namespace cryolite::test
