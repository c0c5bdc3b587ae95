// Products by oneDNN. A call runs parallel loops over tasks, which are blocks of rows or of weights. A task runs
// single-threaded primitives one after the other, on data that is in its core's cache.
//
// Forward and dW take a panel as a plain matrix. Forward may also take the whole weight in a blocked format of the
// library (BA16a48b for panels of 48), whose result must have no gaps between rows. dX copies the panels of a weight
// into rows first, which is faster than adding the products of the panels.

#include <HalideRuntime.h>

#include <algorithm>
#include <cstring>

#include "dialects/onednn/tasks.h"

namespace cryolite::of_onednn {

namespace {

/// Columns of `out` whose weights are a plain matrix of `in` rows and `count` columns, rows `stride` elements apart.
struct Columns {
    int begin, count;
    int64_t offset, stride;
};

class ReadyProduct : public ReadyTasks {
public:
    ReadyProduct(const Product &p, const std::vector<void *> &arguments) : ReadyTasks(p, arguments) {
        switch (p.form) {
        case Product::forward:
            forward();
            break;
        case Product::d_input:
            d_input();
            break;
        case Product::d_parameter:
            d_weight();
            break;
        }
    }

    int run(void *context) override {
        if (chunks.empty()) return loop(context, tasks);
        float *rows = static_cast<float *>(halide_malloc(context, sizeof(float) * size_t(chunk) * size_t(p.in)));
        if (!rows) return halide_error_code_out_of_memory;
        int code = 0;
        for (size_t c = 0; c < chunks.size() && !code; c++) {
            Unpack unpack{this, rows, &chunks[c]};
            code = halide_do_par_for(context, unpack_task, 0, ceil_div(p.in, unpacked_rows),
                                     reinterpret_cast<uint8_t *>(&unpack));
            if (!code) code = product_of_chunk(context, chunks[c], rows);
        }
        halide_free(context, rows);
        return code;
    }

private:
    std::vector<Task> tasks;

    /// For d_input on panels: outputs whose weights are copied together into a plain matrix of `in` rows of `count`.
    struct Chunk {
        int begin, count;
        std::vector<Task> tasks;
    };
    std::vector<Chunk> chunks;
    int chunk = 0;
    struct Unpack {
        ReadyProduct *of;
        float *rows;
        Chunk *chunk;
    };
    static constexpr int unpacked_rows = 32;

    std::vector<Columns> columns() const {
        std::vector<Columns> list;
        const int width = p.panel ? p.panel : 64;
        for (int o = 0; o < p.out; o += width) {
            const int64_t offset = p.panel ? int64_t(o) * p.in : o;
            list.push_back({o, std::min(width, p.out - o), offset, p.panel ? p.panel : p.out});
        }
        return list;
    }

    /// Cuts rows of `work` multiply-adds each into blocks, and makes a task of each. A task is long enough to outweigh
    /// the cost of a library call. With `groups` of columns there are enough tasks to balance many threads.
    template <typename Make>
    static void by_rows(int rows, int64_t work, int groups, std::vector<Task> &list, const Make &make) {
        constexpr int64_t enough = 4 << 20;
        const int64_t least = std::clamp<int64_t>(enough / std::max<int64_t>(1, work), 32, 128);
        const int blocks = int(std::clamp<int64_t>(rows / least, 1, ceil_div(48, groups))),
                  step = ceil_div(rows, blocks);
        for (int r = 0; r < rows; r += step) make(list.emplace_back(), r, std::min(step, rows - r));
    }

    /// Tasks are blocks of whole rows where the library reads the whole weight, if that is small, or where an epilogue
    /// follows. Otherwise they are blocks of rows and columns.
    void forward() {
        float *bias = nullptr;
        bool more = false;
        for (const Product::Then &t : p.then) t.op == "bias" ? void(bias = argument(t.reads)) : void(more = true);
        float *x = argument(p.x), *W = argument(p.weight), *y = argument(p.place(-1));
        const Md whole = whole_weight();
        auto good = [&](int n) {
            return !whole.is_zero() && Action::good(matrix(n, p.in, p.in), whole, matrix(n, p.out, p.out), bias);
        };
        const bool direct = good(64);
        const int64_t work = int64_t(p.in) * p.out;
        auto by_columns = [&](Task &t, const Columns &c, int r, int count) {
            t.push_back(Action::product(matrix(count, p.in, p.in), x + int64_t(r) * p.in,
                                        matrix(p.in, c.count, c.stride), W + c.offset, matrix(count, c.count, p.out),
                                        y + int64_t(r) * p.out + c.begin, bias ? bias + c.begin : nullptr, false));
        };
        const std::vector<Columns> list = columns();
        if (!more && (!direct || work > (8 << 20))) {  // each weight is read once
            for (const Columns &c : list)
                by_rows(p.rows, int64_t(p.in) * c.count, int(list.size()), tasks,
                        [&](Task &t, int r, int n) { by_columns(t, c, r, n); });
            return;
        }
        by_rows(p.rows, work, 1, tasks, [&](Task &t, int r, int n) {
            if (direct && good(n))
                t.push_back(Action::product(matrix(n, p.in, p.in), x + int64_t(r) * p.in, whole, W,
                                            matrix(n, p.out, p.out), y + int64_t(r) * p.out, bias, false));
            else
                for (const Columns &c : list) by_columns(t, c, r, n);
            then(t, r, n, p.out);
        });
    }

    /// The whole W [in, out] in a format that the library's fastest loops read; a zero descriptor: there is none.
    Md whole_weight() const {
        using Tag = dnnl::memory::format_tag;
        if (!p.panel) return matrix(p.in, p.out, p.out);
        if (p.in % 16 || p.out % p.panel) return {};
        const Tag tag = p.panel == 64   ? Tag::BA16a64b
                        : p.panel == 48 ? Tag::BA16a48b
                        : p.panel == 32 ? Tag::BA16a32b
                        : p.panel == 16 ? Tag::BA16a16b
                                        : Tag::undef;
        return tag == Tag::undef ? Md() : Md({p.in, p.out}, dnnl::memory::data_type::f32, tag);
    }

    void d_input() {
        float *dy = argument(p.dy), *dx = argument(p.place(-1));
        auto product = [&](Task &t, int r, int n, const Md &weight, float *W, int begin, int count, bool last) {
            t.push_back(Action::product(matrix(n, count, p.out), dy + int64_t(r) * p.out + begin, weight, W,
                                        matrix(n, p.in, p.in), dx + int64_t(r) * p.in, nullptr, begin > 0));
            if (last) then(t, r, n, p.in);
        };
        if (!p.panel)
            return by_rows(p.rows, int64_t(p.in) * p.out, 1, tasks, [&](Task &t, int r, int n) {
                product(t, r, n, matrix(p.out, p.in, 1, p.out), argument(p.weight), 0, p.out, true);
            });
        constexpr int64_t whole = 4 << 20, part = 1 << 20;  // elements
        chunk = int64_t(p.in) * p.out <= whole ? p.out : int(std::max<int64_t>(1, part / p.in / p.panel) * p.panel);
        for (int o = 0; o < p.out; o += chunk) {
            Chunk &c = chunks.emplace_back(Chunk{o, std::min(chunk, p.out - o), {}});
            by_rows(p.rows, int64_t(p.in) * c.count, 1, c.tasks, [&](Task &t, int r, int n) {
                product(t, r, n, matrix(c.count, p.in, 1, c.count), nullptr, o, c.count, o + c.count == p.out);
            });
        }
    }
    static int unpack_task(void *, int i, uint8_t *closure) {
        const Unpack &u = *reinterpret_cast<Unpack *>(closure);
        const Product &p = u.of->p;
        const float *W = u.of->argument(p.weight);
        const int begin = i * unpacked_rows, end = std::min(p.in, begin + unpacked_rows);
        for (int o = 0; o < u.chunk->count; o += p.panel) {
            const float *panel = W + int64_t(u.chunk->begin + o) * p.in;
            const size_t bytes = sizeof(float) * size_t(std::min(p.panel, u.chunk->count - o));
            for (int k = begin; k < end; k++)
                std::memcpy(u.rows + int64_t(k) * u.chunk->count + o, panel + int64_t(k) * p.panel, bytes);
        }
        return 0;
    }
    int product_of_chunk(void *context, Chunk &c, float *rows) {
        for (Task &t : c.tasks) t[0].move(1, rows);
        return loop(context, c.tasks);
    }

    void d_weight() {
        float *x = argument(p.x), *dy = argument(p.dy), *dW = argument(p.stores);
        const std::vector<Columns> list = columns();
        for (const Columns &c : list)
            by_rows(p.in, int64_t(p.rows) * c.count, int(list.size()), tasks, [&](Task &t, int i, int n) {
                t.push_back(Action::product(matrix(n, p.rows, 1, p.in), x + i, matrix(p.rows, c.count, p.out),
                                            dy + c.begin, matrix(n, c.count, c.stride), dW + c.offset + i * c.stride,
                                            nullptr, p.accumulate));
            });
    }
};

class OneDnn : public Dialect {
public:
    std::string version() const override {
        const dnnl_version_t *v = dnnl_version();
        return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
    }
    std::unique_ptr<Ready> prepare(const Product &p, const ProductPlace &place) const override {
        if (p.window) return ready_convolution(p, place.arguments);
        return std::make_unique<ReadyProduct>(p, place.arguments);
    }
};

}  // namespace

}  // namespace cryolite::of_onednn

extern "C" const cryolite::Dialect *cryolite_dialect() {
    static const cryolite::of_onednn::OneDnn one;
    return &one;
}
