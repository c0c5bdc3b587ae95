// Convolutions by oneDNN. Each task takes some of the images. The weight is first copied into the library's own format.
// Its gradient is computed in that format, as one sum for each task; the sums are added and the total is copied back.
// With the weight in the arrays' format the library has only one kernel, several times slower (docs/dialects.md).

#include <algorithm>

#include "dialects/onednn/tasks.h"

namespace cryolite::of_onednn {

namespace {

using dnnl::memory;
constexpr auto f32 = memory::data_type::f32;

class ReadyConvolution : public ReadyTasks {
public:
    ReadyConvolution(const Product &p, const std::vector<void *> &arguments)
        : ReadyTasks(p, arguments), w(*p.window), each(images_of_task()),
          packed((convolution().packed().get_size() + sizeof(float) - 1) / sizeof(float)) {
        const Md stored = stored_weight(), fast = convolution().packed();
        if (p.form == Product::d_parameter)
            turn = {{Action::copy(fast, nullptr, stored, argument(p.stores), p.accumulate)}};
        else
            turn = {{Action::copy(stored, argument(p.weight), fast, nullptr)}};
        for (int image = 0; image < w.images; image += each) make(image);
    }

    int run(void *context) override {
        const size_t parts = p.form == Product::d_parameter ? tasks.size() : 1;
        auto *room = static_cast<float *>(halide_malloc(context, sizeof(float) * packed * parts));
        if (!room) return halide_error_code_out_of_memory;
        const int code = p.form == Product::d_parameter ? d_weight(context, room) : images(context, room);
        halide_free(context, room);
        return code;
    }

private:
    const Product::Window w;
    const int each;       ///< images of a task: equal for all tasks, so that they share one best format
    const size_t packed;  ///< elements of the weight in the library's format
    std::vector<Task> turn, tasks;

    /// Tasks must be long enough to outweigh the cost of a library call, and enough to balance many threads. In
    /// d_parameter each task has a sum of its own, which takes memory, and time to be added.
    int images_of_task() const {
        constexpr int64_t room = 8 << 20;  // elements
        const bool sums = p.form == Product::d_parameter;
        const double flops = p.flops() / w.images,
                     enough = sums ? std::max(8e6, 256.0 * double(weight_elements())) : 2e6;
        const int64_t most = sums ? std::clamp<int64_t>(room / weight_elements(), 8, 32) : 48;
        const double least = std::max(enough / flops, double(w.images) / double(most));
        for (int n = 1; n < w.images; n++)
            if (w.images % n == 0 && n >= least) return n;
        return w.images;
    }
    int64_t weight_elements() const { return int64_t(p.out) * (p.in / w.groups) * w.size * w.size; }

    Convolution convolution() const {
        const memory::dim pitch = w.dilation - 1;
        return {.form = p.form,
                .x = Md({each, p.in, w.height, w.width}, f32, memory::format_tag::nhwc),
                .weight = Md(weight_dims(), f32, memory::format_tag::any),
                .y = Md({each, p.out, high(), wide()}, f32, memory::format_tag::nhwc),
                .stride = {w.stride, w.stride},
                .dilation = {pitch, pitch},
                .padding = {w.padding, w.padding},
                .bias = bias() >= 0};
    }
    int64_t wide() const { return w.places(w.width); }
    int64_t high() const { return w.places(w.height); }
    int bias() const {
        const auto b = std::ranges::find(p.then, "bias", &Product::Then::op);
        return b == p.then.end() ? -1 : b->reads;
    }
    Dims weight_dims() const {
        if (w.groups == 1) return {p.out, p.in, w.size, w.size};
        return {w.groups, p.out / w.groups, p.in / w.groups, w.size, w.size};
    }
    Md stored_weight() const {
        const int64_t of_in = p.out, of_width = of_in * (p.in / w.groups), of_height = of_width * w.size;
        Dims strides = {1, of_in, of_height, of_width};
        if (w.groups > 1) strides.insert(strides.begin(), p.out / w.groups);
        return Md(weight_dims(), f32, strides);
    }

    void make(int image) {
        const int of_x = w.width * w.height, of_y = int(wide() * high());
        const int64_t in_x = int64_t(image) * of_x * p.in, in_y = int64_t(image) * of_y * p.out;
        float *x = argument(p.form == Product::d_input ? p.place(-1) : p.x) + in_x;
        float *y = argument(p.form == Product::forward ? p.place(-1) : p.dy) + in_y;
        Task &t = tasks.emplace_back();
        t.push_back(Action::convolution(convolution(), x, y, bias() >= 0 ? argument(bias()) : nullptr));
        if (p.form == Product::forward) then(t, int64_t(image) * of_y, int64_t(each) * of_y, p.out);
        if (p.form == Product::d_input) then(t, int64_t(image) * of_x, int64_t(each) * of_x, p.in);
    }

    int images(void *context, float *room) {
        turn[0][0].move(1, room);
        for (Task &t : tasks) t[0].move(1, room);
        if (const int code = loop(context, turn)) return code;
        return loop(context, tasks);
    }

    struct Sum {
        float *room;
        size_t parts, elements;
    };
    static constexpr size_t summed = 1 << 12;  ///< elements that one task adds
    static int sum_task(void *, int i, uint8_t *closure) {
        const Sum &s = *reinterpret_cast<Sum *>(closure);
        const size_t begin = size_t(i) * summed, end = std::min(s.elements, begin + summed);
        for (size_t part = 1; part < s.parts; part++)
            for (size_t k = begin; k < end; k++) s.room[k] += s.room[part * s.elements + k];
        return 0;
    }
    int d_weight(void *context, float *room) {
        for (size_t part = 0; part < tasks.size(); part++) tasks[part][0].move(1, room + part * packed);
        if (const int code = loop(context, tasks)) return code;
        Sum sum{room, tasks.size(), packed};
        if (const int code = halide_do_par_for(context, sum_task, 0, ceil_div(int64_t(packed), int64_t(summed)),
                                               reinterpret_cast<uint8_t *>(&sum)))
            return code;
        turn[0][0].move(0, room);
        return loop(context, turn);
    }
};

}  // namespace

std::unique_ptr<Ready> ready_convolution(const Product &p, const std::vector<void *> &arguments) {
    return std::make_unique<ReadyConvolution>(p, arguments);
}

}  // namespace cryolite::of_onednn
