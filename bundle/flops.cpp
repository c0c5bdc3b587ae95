#include "bundle/flops.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace cryolite {

namespace {

constexpr int chains = 12;  // independent, so that latency is hidden

// One body for every vector width, which the compiler turns into fused multiply-adds of the
// function's own target. Twelve variables, as an array of them would live in memory.
#define CRYOLITE_EACH(DO) DO(s0) DO(s1) DO(s2) DO(s3) DO(s4) DO(s5) DO(s6) DO(s7) DO(s8) DO(s9) DO(s10) DO(s11)
#define CRYOLITE_START(s) Vector s = Vector{} + 0.5f;
#define CRYOLITE_FMA(s) s = s * a + b;
#define CRYOLITE_HIDE(s) asm volatile("" : "+" CRYOLITE_REGISTER(s));  // the compiler leaves nothing out
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

}  // namespace

FlopLoop multiply_adds() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return fma_512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return fma_256;
#endif
    return fma_128;
}

FlopLoop dot_products() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bf16")) return dot_512;
#endif
    return nullptr;
}

bool has_matrix_tiles() {
#if defined(__x86_64__) && defined(__linux__)
    static const bool has = [] {
        constexpr unsigned bf16_tiles = 1u << 22, tiles = 1u << 24;  // of register d
        constexpr long ask = 0x1023, tile_data = 18;                 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
        unsigned a = 0, b = 0, c = 0, d = 0;
        if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & bf16_tiles) || !(d & tiles)) return false;
        return syscall(SYS_arch_prctl, ask, tile_data) == 0;
    }();
    return has;
#else
    return false;
#endif
}

double best_rate(FlopLoop loop, double seconds) {
    using Clock = std::chrono::steady_clock;
    const auto since = [](Clock::time_point start) {
        return std::chrono::duration<double>(Clock::now() - start).count();
    };
    // Processor time of this thread: what others do on a busy machine is not counted.
    const auto processor_seconds = [] {
        timespec t{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
        return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
    };
    const int64_t rounds = 20000;  // well below a millisecond
    double best = 0;
    float sink = 0;
    const auto start = Clock::now();
    do {
        const double before = processor_seconds(), operations = loop(rounds, &sink);
        best = std::max(best, operations / (processor_seconds() - before));
    } while (since(start) < seconds);
    return best * 1e-9;
}

bool dot_products_are_faster() {
    constexpr double seconds = 0.004;
    static const bool faster =
        dot_products() && best_rate(dot_products(), seconds) > best_rate(multiply_adds(), seconds);
    return faster;
}

}  // namespace cryolite
