#pragma once
// Micro-batches. A source says what micro-batch k of a run is: a pure function of k, so that
// resuming is seeking. A loader prepares them ahead on a thread of its own.

#include "runtime/data/table.h"
#include "runtime/data/tokens.h"

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

namespace cryolite {

/// Row-major, one row per example. Tokens: tokens and targets are [batch, context], targets the
/// tokens one later. Tables: features are [batch, columns], targets [batch] labels; where numbers are predicted they
/// are the targets, [batch, columns of them].
struct Batch {
    std::vector<int32_t> tokens, targets;
    std::vector<float> features, numbers;
};

class BatchSource {
public:
    virtual ~BatchSource() = default;
    /// Gives the vectors of a new batch their sizes, once.
    virtual void allocate(Batch &batch) const = 0;
    /// Micro-batch `index` of the run; allocates nothing. Called by one thread at a time.
    virtual void fill(uint64_t index, Batch &batch) = 0;
};

struct WindowShape {
    int batch = 1, context = 1;
    size_t tokens() const { return static_cast<size_t>(batch) * static_cast<size_t>(context); }
};

/// Windows that begin anywhere, each offset 0 ... size - context - 1 equally likely, as nanoGPT
/// draws them.
std::unique_ptr<BatchSource> random_windows(TokenStream tokens, WindowShape shape, uint64_t seed);

/// Micro-batch j reads tokens j*B*T ... (j+1)*B*T inclusive; when they end it starts again at 0,
/// with whole micro-batches. Errors: fewer than B*T + 1 tokens.
std::unique_ptr<BatchSource> sequential_windows(TokenStream tokens, WindowShape shape);

/// How an image is changed each time it is drawn for training: a pure function of (seed, number of rows drawn before),
/// so that a resumed run, and one with any number of workers, sees the same.
struct Augmentation {
    int shift = 0;      ///< moves it by up to this many pixels in each direction, filling with zeros
    bool flip = false;  ///< mirrors half of the images, left to right
};

/// Every row once per epoch, in an order that is a pure function of (seed, epoch); epochs follow
/// without a gap, so a micro-batch may begin in one and end in the next. Features are multiplied by
/// `scale`.
std::unique_ptr<BatchSource> shuffled_rows(Table table, int batch, uint64_t seed, float scale = 1,
                                           Augmentation augmentation = {});

class Loader {
public:
    /// Begins to prepare micro-batches `first`, first + 1, ..., `ahead` of them at most.
    explicit Loader(std::unique_ptr<BatchSource> source, uint64_t first = 0, int ahead = 4);
    ~Loader();
    Loader(const Loader &) = delete;

    /// The micro-batch at `position`, good until the next call; waits when it is not ready. No
    /// lock, no allocation. An exception of the loader's thread is thrown here, in its place.
    const Batch &next();

    /// The index of the micro-batch that `next` gives next: what a checkpoint keeps.
    uint64_t position() const { return position_; }
    void seek(uint64_t position);

private:
    void start();
    void stop();
    void run();

    std::unique_ptr<BatchSource> source_;
    std::vector<Batch> slots_;  ///< micro-batch first_ + n is in slot n % slots_.size()
    uint64_t position_ = 0, first_ = 0;
    /// Counted from `first_`: batches made, batches that may be made.
    std::atomic<uint64_t> made_{0}, wanted_{0};
    std::exception_ptr failure_;  ///< set before the last increment of made_
    std::atomic<bool> failed_{false};
    std::thread thread_;
};

/// Consecutive windows that do not overlap, for evaluation: window i is tokens i*T ... (i+1)*T
/// inclusive, (size - 1) / T of them.
class Windows {
public:
    Windows(TokenStream tokens, WindowShape shape);

    size_t count() const { return count_; }
    size_t batches() const;
    /// Fills batch `index` and returns the number of windows in it. Only the last batch may have fewer windows than
    /// rows: its other rows repeat its first window, and must not be counted.
    int fill(size_t index, Batch &batch) const;

private:
    TokenStream tokens_;
    WindowShape shape_;
    size_t count_;
};

/// The rows of a table in order, for evaluation, as `Windows` gives windows.
class Rows {
public:
    Rows(Table table, int batch, float scale = 1);

    size_t count() const { return table_.rows(); }
    size_t batches() const;
    int fill(size_t index, Batch &batch) const;

private:
    Table table_;
    int batch_;
    float scale_;
};

}  // namespace cryolite
