#include "runtime/data/loader.h"
#include "tests/runtime/scratch.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <set>

namespace cryolite::test {

namespace {

/// Tokens 0, 1, 2, ...: a window shows where it was cut.
TokenStream counting(size_t count) {
    std::vector<int32_t> tokens(count);
    std::iota(tokens.begin(), tokens.end(), 0);
    return TokenStream(std::move(tokens));
}

/// Row i has the features (i, 10 i) and the label i.
Table counting_table(int rows) {
    Table table;
    table.columns = 2;
    table.classes = rows;
    for (int i = 0; i < rows; ++i) {
        table.features.insert(table.features.end(), {float(i), float(10 * i)});
        table.labels.push_back(i);
    }
    return table;
}

std::vector<Batch> take(Loader &loader, int count) {
    std::vector<Batch> batches;
    for (int i = 0; i < count; ++i) batches.push_back(loader.next());
    return batches;
}

bool same(const Batch &a, const Batch &b) {
    return a.tokens == b.tokens && a.targets == b.targets && a.features == b.features;
}

/// Fails at micro-batch 7.
struct Failing : BatchSource {
    void allocate(Batch &batch) const override { batch.tokens.resize(1); }
    void fill(uint64_t index, Batch &batch) override {
        if (index == 7) fail("micro-batch 7 cannot be read");
        batch.tokens[0] = static_cast<int32_t>(index);
    }
};

}  // namespace

TEST_CASE("loader: sequential micro-batches share their edge token and start again") {
    Loader loader(sequential_windows(counting(14), {.batch = 2, .context = 3}));
    for (int j = 0; j < 9; ++j) {
        const Batch &batch = loader.next();
        const int first = j % 2 * 6;  // two whole micro-batches: tokens 0 ... 6 and 6 ... 12
        std::vector<int32_t> tokens(6), targets(6);
        std::iota(tokens.begin(), tokens.end(), first);
        std::iota(targets.begin(), targets.end(), first + 1);
        CHECK(batch.tokens == tokens);
        CHECK(batch.targets == targets);
    }
    CHECK_NOTHROW(sequential_windows(counting(7), {.batch = 2, .context = 3}));
    CHECK_ERROR(sequential_windows(counting(6), {.batch = 2, .context = 3}),
                "the data has 6 tokens, but a micro-batch of 2 x 3 in sequential order needs 7");
}

TEST_CASE("loader: random windows are uniform, shifted by one, and a function of seed and position") {
    const WindowShape shape{.batch = 3, .context = 4};
    Loader loader(random_windows(counting(20), shape, 5)), same_seed(random_windows(counting(20), shape, 5)),
        other_seed(random_windows(counting(20), shape, 6));
    std::set<int> starts;
    bool differs = false;
    for (int k = 0; k < 200; ++k) {
        const Batch &batch = loader.next();
        CHECK(same(batch, same_seed.next()));
        differs |= !same(batch, other_seed.next());
        for (size_t row = 0; row < 3; ++row) {
            starts.insert(batch.tokens[row * 4]);
            for (size_t i = 0; i < 4; ++i) {
                CHECK(batch.tokens[row * 4 + i] == batch.tokens[row * 4] + static_cast<int>(i));
                CHECK(batch.targets[row * 4 + i] == batch.tokens[row * 4 + i] + 1);
            }
        }
    }
    CHECK(differs);
    CHECK(starts.size() == 16);  // offsets 0 ... 15: the last target is the last token
    CHECK(*starts.rbegin() == 15);
    CHECK_ERROR(random_windows(counting(4), shape, 1), "the data has 4 tokens, but context 4 needs at least 5");
    CHECK_ERROR(random_windows(counting(9), {.batch = 0}, 1), "batch 0 and context 1 must be at least 1");
}

TEST_CASE("loader: seeking goes on exactly, from anywhere") {
    const auto sources = std::vector<std::function<std::unique_ptr<BatchSource>()>>{
        [] { return random_windows(counting(100), {.batch = 3, .context = 8}, 1); },
        [] { return sequential_windows(counting(100), {.batch = 3, .context = 8}); },
        [] { return shuffled_rows(counting_table(10), 4, 1); }};
    for (const auto &make : sources) {
        Loader loader(make());
        const std::vector<Batch> all = take(loader, 30);
        CHECK(loader.position() == 30);
        for (uint64_t k : {17, 0, 29, 3, 3, 18}) {
            loader.seek(k);
            CHECK(same(loader.next(), all[k]));
            CHECK(loader.position() == k + 1);
        }
        Loader resumed(make(), 23);
        for (size_t k = 23; k < 30; ++k) CHECK(same(resumed.next(), all[k]));
    }
}

TEST_CASE("loader: a table's numbers to predict go with their rows, unscaled") {
    Table table;
    table.columns = 1, table.targets = 2;
    for (int i = 0; i < 5; ++i)
        table.features.push_back(float(i)), table.numbers.insert(table.numbers.end(), {10.0f * i, -1.0f * i});
    Loader loader(shuffled_rows(table, 4, 3, 0.5f));
    for (const Batch &batch : take(loader, 5)) {
        CHECK(batch.targets.empty());
        for (size_t row = 0; row < 4; ++row) {
            CHECK(batch.numbers[row * 2] == 20 * batch.features[row]);
            CHECK(batch.numbers[row * 2 + 1] == -2 * batch.features[row]);
        }
    }
    Batch batch;
    CHECK(Rows(table, 4).fill(1, batch) == 1);
    CHECK(batch.numbers == std::vector<float>{40, -4, 40, -4, 40, -4, 40, -4});
}

TEST_CASE("loader: each epoch has every row once, in an order of its own") {
    Loader loader(shuffled_rows(counting_table(10), 4, 3, 0.5f));
    std::vector<int32_t> labels;
    for (const Batch &batch : take(loader, 15)) {
        for (size_t row = 0; row < 4; ++row) {
            CHECK(batch.features[row * 2] == 0.5f * batch.targets[row]);
            CHECK(batch.features[row * 2 + 1] == 5.0f * batch.targets[row]);
        }
        labels.insert(labels.end(), batch.targets.begin(), batch.targets.end());
    }
    std::set<std::vector<int32_t>> orders;
    for (size_t epoch = 0; epoch < 6; ++epoch) {
        std::vector<int32_t> order(labels.begin() + epoch * 10, labels.begin() + epoch * 10 + 10);
        orders.insert(order);
        std::sort(order.begin(), order.end());
        for (int i = 0; i < 10; ++i) CHECK(order[i] == i);
    }
    CHECK(orders.size() == 6);
    Loader larger(shuffled_rows(counting_table(3), 8, 3));  // a batch of more rows than an epoch has
    CHECK(larger.next().targets.size() == 8);
    CHECK_ERROR(shuffled_rows(Table(), 4, 1), "no rows");
}

TEST_CASE("loader: a batch keeps until the next call, and memory is reused") {
    Loader loader(sequential_windows(counting(1000), {.batch = 1, .context = 9}), 0, 2);
    std::set<const int32_t *> buffers;
    for (int j = 0; j < 50; ++j) {
        const Batch &batch = loader.next();
        buffers.insert(batch.tokens.data());
        std::this_thread::sleep_for(std::chrono::microseconds(200));  // let the thread run ahead
        CHECK(batch.tokens[0] == j * 9);
    }
    CHECK(buffers.size() == 3);
}

TEST_CASE("loader: an exception of the thread is thrown in its place") {
    Loader loader(std::make_unique<Failing>());
    for (int i = 0; i < 7; ++i) CHECK(loader.next().tokens[0] == i);
    CHECK_ERROR(loader.next(), "micro-batch 7 cannot be read");
    CHECK_ERROR(loader.next(), "micro-batch 7 cannot be read");
    loader.seek(8);
    CHECK(loader.next().tokens[0] == 8);
    loader.seek(6);
    CHECK(loader.next().tokens[0] == 6);
    CHECK_ERROR(loader.next(), "micro-batch 7 cannot be read");
}

TEST_CASE("loader: starts and stops at any moment") {
    for (int i = 0; i < 50; ++i) {
        Loader loader(random_windows(counting(1000), {.batch = 4, .context = 16}, 1));
        for (int j = 0; j < i % 7; ++j) loader.next();
    }
    CHECK_ERROR(Loader(std::make_unique<Failing>(), 0, 0), "at least 1 micro-batch");
}

TEST_CASE("windows: the whole split once, the last batch filled up") {
    const Windows windows(counting(30), {.batch = 3, .context = 4});
    CHECK(windows.count() == 7);  // (30 - 1) / 4
    CHECK(windows.batches() == 3);
    Batch batch;
    std::vector<int32_t> seen;
    for (size_t b = 0; b < 3; ++b) {
        const int valid = windows.fill(b, batch);
        CHECK(valid == (b < 2 ? 3 : 1));
        seen.insert(seen.end(), batch.tokens.begin(), batch.tokens.begin() + valid * 4);
        for (size_t i = 0; i < batch.tokens.size(); ++i) CHECK(batch.targets[i] == batch.tokens[i] + 1);
    }
    std::vector<int32_t> expected(28);
    std::iota(expected.begin(), expected.end(), 0);
    CHECK(seen == expected);
    CHECK(batch.tokens[4] == 24);  // row 1 of the last batch repeats row 0
    CHECK_ERROR(windows.fill(3, batch), "evaluation batch 3 of 3 does not exist");
    CHECK_ERROR(Windows(counting(4), {.batch = 1, .context = 4}), "has 4 tokens, but context 4 needs at least 5");

    const Rows rows(counting_table(5), 2, 2);
    CHECK(rows.batches() == 3);
    CHECK(rows.fill(2, batch) == 1);
    CHECK(batch.features == std::vector<float>{8, 80, 8, 80});
    CHECK(batch.targets == std::vector<int32_t>{4, 4});
}

}  // namespace cryolite::test
