#include "runtime/exec/peak.h"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "bundle/flops.h"
#include "bundle/matrix_tiles.h"
#include "runtime/system/threads.h"

namespace cryolite {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double measure(FlopLoop loop, int threads, double seconds) {
    double total = 0;
    require_threads(threads);
    // The sum of each thread's own best rate: a thread that the system preempts holds up no other.
#pragma omp parallel num_threads(threads) reduction(+ : total)
    total += best_rate(loop, seconds);
    return total;
}

}  // namespace

double measure_fma_peak(int threads, double seconds) { return measure(multiply_adds(), threads, seconds); }

double measure_product_peak(int threads, const std::string &precision, bool tiles, double seconds) {
    if (precision == "bf16") {
        const FlopLoop of_vectors = dot_products_are_faster() ? dot_products() : multiply_adds();
        return measure(tiles ? matrix_tiles() : of_vectors, threads, seconds);
    }
    const double of_vectors = measure_fma_peak(threads, seconds);
    return tiles ? std::max(of_vectors, measure(matrix_tiles(), threads, seconds) / products_of_split) : of_vectors;
}

double measure_bandwidth(int threads, double seconds) {
    constexpr size_t page = size_t(2) << 20, piece = page / 4 * 2, pieces = 12;  // 48 MiB a thread
    double total = 0;
    require_threads(threads);
#pragma omp parallel num_threads(threads) reduction(+ : total)
    {
        auto *data = static_cast<float *>(std::aligned_alloc(page, pieces * piece * sizeof(float)));
        std::vector<double> rates;
        if (data) {
            madvise(data, pieces * piece * sizeof(float), MADV_HUGEPAGE);
            std::fill_n(data, pieces * piece, 1.0f);
            const auto start = Clock::now();
            for (size_t k = 0; k == 0 || seconds_since(start) < seconds; k++) {
                float *p = data + k % pieces * piece;
                const auto began = Clock::now();
#pragma omp simd
                for (size_t i = 0; i < piece; i++) p[i] = p[i] * 0.5f + 1;
                asm volatile("" ::"r"(p) : "memory");
                rates.push_back(2.0 * sizeof(float) * double(piece) / seconds_since(began));
            }
            // The median: threads share the bandwidth, so a thread is at its best while others wait.
            std::nth_element(rates.begin(), rates.begin() + long(rates.size() / 2), rates.end());
            total += rates[rates.size() / 2];
        }
        std::free(data);
    }
    return total * 1e-9;
}

}  // namespace cryolite
