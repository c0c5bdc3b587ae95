// What a micro-batch is: windows of tokens and rows of tables.

#include "runtime/data/loader.h"
#include "runtime/io/error.h"
#include "runtime/system/rng.h"

#include <numeric>

namespace cryolite {

namespace {

void allocate_windows(const WindowShape &shape, Batch &batch) {
    batch.tokens.resize(shape.tokens());
    batch.targets.resize(shape.tokens());
}

/// Row `row` of the batch is the window that begins at `first`.
void copy_window(const TokenStream &tokens, size_t first, int context, size_t row, Batch &batch) {
    const auto length = static_cast<size_t>(context);
    tokens.copy(first, std::span(batch.tokens).subspan(row * length, length));
    tokens.copy(first + 1, std::span(batch.targets).subspan(row * length, length));
}

/// Row `from` of a table of images, moved by (dx, dy), perhaps mirrored before.
void copy_image(const Table &table, size_t from, float scale, int dx, int dy, bool mirrored, float *out) {
    const int width = static_cast<int>(table.width), height = static_cast<int>(table.height);
    const uint8_t *pixels = table.pixels->data() + from * table.columns;
    for (int y = 0; y < height; ++y)
        for (int x = 0; x < width; ++x, ++out) {
            const int u = x - dx, v = y - dy;
            const bool inside = u >= 0 && u < width && v >= 0 && v < height;
            *out = inside ? static_cast<float>(pixels[v * width + (mirrored ? width - 1 - u : u)]) * scale : 0;
        }
}

void copy_row(const Table &table, size_t from, float scale, size_t row, Batch &batch) {
    float *out = batch.features.data() + row * table.columns;
    if (table.pixels) {
        copy_image(table, from, scale, 0, 0, false, out);
        batch.targets[row] = table.labels[from];
        return;
    }
    const auto features = table.row(from);
    for (size_t i = 0; i < features.size(); ++i) out[i] = features[i] * scale;
    const auto numbers = table.numbers_of(from);
    std::ranges::copy(numbers, batch.numbers.begin() + long(row * table.targets));
    if (numbers.empty()) batch.targets[row] = table.labels[from];
}

void allocate_rows(const Table &table, int batch, Batch &to) {
    const auto rows = static_cast<size_t>(batch);
    to.features.resize(rows * table.columns);
    to.numbers.resize(rows * table.targets);
    to.targets.resize(table.targets ? 0 : rows);
}

void check_shape(const WindowShape &shape) {
    if (shape.batch < 1 || shape.context < 1)
        fail("batch {} and context {} must be at least 1", shape.batch, shape.context);
}

class RandomWindows : public BatchSource {
public:
    RandomWindows(TokenStream tokens, WindowShape shape, uint64_t seed)
        : tokens_(std::move(tokens)), shape_(shape), rng_(seed, "data.windows") {
        check_shape(shape);
        if (tokens_.size() < static_cast<size_t>(shape.context) + 1)
            fail("the data has {} tokens, but context {} needs at least {}", tokens_.size(), shape.context,
                 static_cast<size_t>(shape.context) + 1);
    }
    void allocate(Batch &batch) const override { allocate_windows(shape_, batch); }
    void fill(uint64_t index, Batch &batch) override {
        const uint64_t starts = tokens_.size() - static_cast<size_t>(shape_.context);
        const auto rows = static_cast<uint64_t>(shape_.batch);
        for (uint64_t row = 0; row < rows; ++row)
            copy_window(tokens_, rng_.below(starts, index * rows + row), shape_.context, row, batch);
    }

private:
    TokenStream tokens_;
    WindowShape shape_;
    Rng rng_;
};

class SequentialWindows : public BatchSource {
public:
    SequentialWindows(TokenStream tokens, WindowShape shape) : tokens_(std::move(tokens)), shape_(shape) {
        check_shape(shape);
        if (tokens_.size() < shape.tokens() + 1)
            fail("the data has {} tokens, but a micro-batch of {} x {} in sequential order needs {}", tokens_.size(),
                 shape.batch, shape.context, shape.tokens() + 1);
        cycle_ = (tokens_.size() - 1) / shape.tokens();
    }
    void allocate(Batch &batch) const override { allocate_windows(shape_, batch); }
    void fill(uint64_t index, Batch &batch) override {
        const size_t first = index % cycle_ * shape_.tokens();
        tokens_.copy(first, batch.tokens);
        tokens_.copy(first + 1, batch.targets);
    }

private:
    TokenStream tokens_;
    WindowShape shape_;
    uint64_t cycle_ = 1;  ///< micro-batches until it starts again
};

class ShuffledRows : public BatchSource {
public:
    ShuffledRows(Table table, int batch, uint64_t seed, float scale, Augmentation augmentation)
        : table_(std::move(table)), batch_(batch), seed_(seed), scale_(scale), augmentation_(augmentation),
          order_(table_.rows()) {
        if (batch < 1) fail("batch {} must be at least 1", batch);
        if (!table_.pixels && (augmentation.shift || augmentation.flip))
            fail("rows of numbers are no images, which could be shifted or flipped");
        if (table_.rows() == 0) fail("the data has no rows to train on");
        shuffle(0);
    }
    void allocate(Batch &batch) const override { allocate_rows(table_, batch_, batch); }
    void fill(uint64_t index, Batch &batch) override {
        const auto rows = static_cast<uint64_t>(batch_);
        for (uint64_t row = 0; row < rows; ++row) {
            const uint64_t example = index * rows + row, epoch = example / order_.size();
            if (epoch != epoch_) shuffle(epoch);
            copy_row(table_, order_[example % order_.size()], scale_, row, batch);
            if (augmentation_.shift || augmentation_.flip)
                augment(order_[example % order_.size()], example, batch.features.data() + row * table_.columns);
        }
    }

private:
    /// Fisher-Yates.
    void shuffle(uint64_t epoch) {
        std::iota(order_.begin(), order_.end(), uint32_t{0});
        const Rng rng(seed_, stream_named("data.rows") + epoch);
        for (size_t i = order_.size() - 1; i > 0; --i) std::swap(order_[i], order_[rng.below(i + 1, i)]);
        epoch_ = epoch;
    }

    /// `example`: rows drawn before, in the whole run.
    void augment(uint32_t from, uint64_t example, float *out) const {
        const auto bits = Rng(seed_, "data.augment").block(example);
        const auto span = static_cast<uint32_t>(2 * augmentation_.shift + 1);
        const int dx = static_cast<int>(bits[0] % span) - augmentation_.shift;
        const int dy = static_cast<int>(bits[1] % span) - augmentation_.shift;
        copy_image(table_, from, scale_, dx, dy, augmentation_.flip && bits[2] & 1, out);
    }

    Table table_;
    int batch_;
    uint64_t seed_, epoch_ = 0;
    float scale_;
    Augmentation augmentation_;
    std::vector<uint32_t> order_;
};

size_t batches_of(size_t count, int batch) {
    return (count + static_cast<size_t>(batch) - 1) / static_cast<size_t>(batch);
}

/// Copies rows with copy(from, row): those of batch `index`, then its first one again.
template <typename Copy> int fill_rows(size_t count, int batch, size_t index, Copy copy) {
    const auto rows = static_cast<size_t>(batch);
    if (index >= batches_of(count, batch))
        fail("evaluation batch {} of {} does not exist", index, batches_of(count, batch));
    const size_t valid = std::min(rows, count - index * rows);
    for (size_t row = 0; row < rows; ++row) copy(index * rows + (row < valid ? row : 0), row);
    return static_cast<int>(valid);
}

}  // namespace

std::unique_ptr<BatchSource> random_windows(TokenStream tokens, WindowShape shape, uint64_t seed) {
    return std::make_unique<RandomWindows>(std::move(tokens), shape, seed);
}

std::unique_ptr<BatchSource> sequential_windows(TokenStream tokens, WindowShape shape) {
    return std::make_unique<SequentialWindows>(std::move(tokens), shape);
}

std::unique_ptr<BatchSource> shuffled_rows(Table table, int batch, uint64_t seed, float scale,
                                           Augmentation augmentation) {
    return std::make_unique<ShuffledRows>(std::move(table), batch, seed, scale, augmentation);
}

Windows::Windows(TokenStream tokens, WindowShape shape) : tokens_(std::move(tokens)), shape_(shape) {
    check_shape(shape);
    count_ = tokens_.empty() ? 0 : (tokens_.size() - 1) / static_cast<size_t>(shape.context);
    if (count_ == 0)
        fail("the validation data has {} tokens, but context {} needs at least {}", tokens_.size(), shape.context,
             static_cast<size_t>(shape.context) + 1);
}

size_t Windows::batches() const { return batches_of(count_, shape_.batch); }

int Windows::fill(size_t index, Batch &batch) const {
    allocate_windows(shape_, batch);
    return fill_rows(count_, shape_.batch, index, [&](size_t window, size_t row) {
        copy_window(tokens_, window * static_cast<size_t>(shape_.context), shape_.context, row, batch);
    });
}

Rows::Rows(Table table, int batch, float scale) : table_(std::move(table)), batch_(batch), scale_(scale) {
    if (batch < 1 || table_.rows() == 0) fail("evaluation needs rows and a batch of at least 1");
}

size_t Rows::batches() const { return batches_of(table_.rows(), batch_); }

int Rows::fill(size_t index, Batch &batch) const {
    allocate_rows(table_, batch_, batch);
    return fill_rows(table_.rows(), batch_, index,
                     [&](size_t from, size_t row) { copy_row(table_, from, scale_, row, batch); });
}

}  // namespace cryolite
