#include "runtime/exec/peak.h"

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "runtime/io/threads.h"

namespace cryolite {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

constexpr int chains = 12;  // independent, so that latency is hidden

// One body for every vector width, which the compiler turns into fused multiply-adds of the
// function's own target. Twelve variables, as an array of them would live in memory.
#define CRYOLITE_EACH(DO) DO(s0) DO(s1) DO(s2) DO(s3) DO(s4) DO(s5) DO(s6) DO(s7) DO(s8) DO(s9) DO(s10) DO(s11)
#define CRYOLITE_START(s) Vector s = Vector{} + 0.5f;
#define CRYOLITE_FMA(s) s = s * a + b;
#define CRYOLITE_HIDE(s) asm volatile("" : "+" CRYOLITE_REGISTER(s));  // nothing is left out
#define CRYOLITE_ADD(s) *sink += s[0];
#if defined(__x86_64__)
#define CRYOLITE_REGISTER "v"
#else
#define CRYOLITE_REGISTER "w"
#endif
#define CRYOLITE_DOT(s) asm volatile("vdpbf16ps %2, %1, %0" : "+v"(s) : "v"(a), "v"(b));
#define CRYOLITE_FMA_BODY(lanes)                                                                                       \
    typedef float Vector __attribute__((vector_size(4 * (lanes))));                                                    \
    CRYOLITE_EACH(CRYOLITE_START)                                                                                      \
    Vector a = Vector{} + 0.999f, b = Vector{} + 0.001f;                                                               \
    for (int64_t i = 0; i < rounds; i++) {                                                                             \
        CRYOLITE_EACH(CRYOLITE_FMA)                                                                                    \
        CRYOLITE_EACH(CRYOLITE_HIDE)                                                                                   \
    }                                                                                                                  \
    CRYOLITE_EACH(CRYOLITE_ADD)                                                                                        \
    return 2.0 * chains * (lanes) * double(rounds);

#if defined(__x86_64__)
__attribute__((target("avx512f,prefer-vector-width=512"), optimize("O3", "fp-contract=fast"))) double
fma_512(int64_t rounds, float *sink) {
    CRYOLITE_FMA_BODY(16)
}
__attribute__((target("avx512f,prefer-vector-width=512"), optimize("O3"))) double dot_512(int64_t rounds, float *sink) {
    typedef float Vector __attribute__((vector_size(64)));
    CRYOLITE_EACH(CRYOLITE_START)
    Vector a = Vector{} + 0.5f, b = Vector{} + 0.25f;
    for (int64_t i = 0; i < rounds; i++) {
        CRYOLITE_EACH(CRYOLITE_DOT)
    }
    CRYOLITE_EACH(CRYOLITE_ADD)
    return 4.0 * chains * 16 * double(rounds);
}
__attribute__((target("avx2,fma"), optimize("O3", "fp-contract=fast"))) double fma_256(int64_t rounds, float *sink) {
    CRYOLITE_FMA_BODY(8)
}
#endif
__attribute__((optimize("O3", "fp-contract=fast"))) double fma_128(int64_t rounds, float *sink) { CRYOLITE_FMA_BODY(4) }

using Body = double (*)(int64_t, float *);

Body widest() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return fma_512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return fma_256;
#endif
    return fma_128;
}

double measure(Body body, int threads, double seconds) {
    const int64_t rounds = 20000;  // well below a millisecond
    double total = 0;
    require_threads(threads);
    // Every thread's own best: nobody waits for one that the system has put aside.
#pragma omp parallel num_threads(threads) reduction(+ : total)
    {
        double best = 0;
        float sink = 0;
        const auto start = Clock::now();
        do {
            const auto piece = Clock::now();
            const double operations = body(rounds, &sink);
            best = std::max(best, operations / seconds_since(piece));
        } while (seconds_since(start) < seconds);
        total += best;
    }
    return total * 1e-9;
}

}  // namespace

double measure_fma_peak(int threads, double seconds) { return measure(widest(), threads, seconds); }

double measure_dot_peak(int threads, double seconds) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bf16")) return measure(dot_512, threads, seconds);
#endif
    return measure(widest(), threads, seconds);
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
            // The median: threads share the memory, so one's best is when the others wait.
            std::nth_element(rates.begin(), rates.begin() + long(rates.size() / 2), rates.end());
            total += rates[rates.size() / 2];
        }
        std::free(data);
    }
    return total * 1e-9;
}

}  // namespace cryolite
