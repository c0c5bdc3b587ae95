#include "bundle/matrix_tiles.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "bundle/flops.h"

namespace cryolite {

namespace {

/// The matrices of a product, or of a part of it. A factor is the sum of `parts` matrices.
template <int parts> struct Tiles {
    std::array<const char *, parts> a;
    int64_t a_stride;
    std::array<const char *, parts> b;
    int64_t b_stride;
    char *c;
    int64_t c_stride;

    Tiles from(int row, int column, int pair) const {
        constexpr int word = 4;
        Tiles t = *this;
        for (auto &part : t.a) part += row * a_stride + int64_t(pair) * word;
        for (auto &part : t.b) part += pair * b_stride + int64_t(column) * word;
        t.c += row * c_stride + int64_t(column) * word;
        return t;
    }
};

Tiles<1> tiles_of(const void *a, int a_stride, const void *b, int b_stride, float *c, int c_stride) {
    return {{static_cast<const char *>(a)}, a_stride, {static_cast<const char *>(b)}, b_stride,
            reinterpret_cast<char *>(c),    c_stride};
}

Tiles<3> tiles_of(const SplitFactor &a, const SplitFactor &b, float *c, int c_stride) {
    const auto parts = [](const SplitFactor &f) {
        return std::array{static_cast<const char *>(f.high), static_cast<const char *>(f.middle),
                          static_cast<const char *>(f.low)};
    };
    return {parts(a), a.stride, parts(b), b.stride, reinterpret_cast<char *>(c), c_stride};
}

float widened(uint32_t pair, int term) { return std::bit_cast<float>(term ? pair & 0xffff0000 : pair << 16); }

#if defined(__x86_64__)

constexpr int side = 16;  // rows, columns and pairs of a tile, at most

struct alignas(64) TileShapes {
    uint8_t palette = 1, start = 0, zero[14] = {};
    uint16_t bytes_of_row[16] = {};
    uint8_t rows[16] = {};
};

/// The shapes of the processor's eight tiles. Tiles of b begin at 6. Of a there is one, 7, or there are those from
/// `first_a`. What is below holds sums.
void set_shapes(int rows, int columns, int pairs, int first_a = 7) {
    TileShapes s;
    for (int tile = 0; tile < 8; tile++) {
        const bool of_a = tile == 7 ? first_a == 7 : tile >= first_a && tile < 6, of_b = !of_a && tile >= 6;
        s.rows[tile] = uint8_t(of_b ? pairs : rows), s.bytes_of_row[tile] = uint16_t(4 * (of_a ? pairs : columns));
    }
    TileShapes now;
    asm volatile("sttilecfg %0" : "=m"(now));  // faster than setting them
    if (std::memcmp(&s, &now, sizeof s) != 0) asm volatile("ldtilecfg %0" : : "m"(s));
}

// A tile's number is a constant of the instruction, hence macros.
#define CRYOLITE_SUMS(DO) DO(0, 0, 0) DO(1, 0, 1) DO(2, 0, 2) DO(3, 1, 0) DO(4, 1, 1) DO(5, 1, 2)
#define CRYOLITE_TILE(instruction, n, at, stride)                                                                      \
    asm volatile(instruction #n : : "r"(at), "r"(int64_t(stride)) : "memory");
#define CRYOLITE_READ(n, at, stride) CRYOLITE_TILE("tileloadd (%0,%1,1), %%tmm", n, at, stride)
#define CRYOLITE_MULTIPLY(n, a, b) asm volatile("tdpbf16ps %%tmm" #b ", %%tmm" #a ", %%tmm" #n : : : "memory");
#define CRYOLITE_LOAD(n, r, x)                                                                                         \
    if constexpr (r < high && x < wide) CRYOLITE_READ(n, t.c + r * side * t.c_stride + x * 64, t.c_stride)
#define CRYOLITE_ZERO(n, r, x)                                                                                         \
    if constexpr (r < high && x < wide) asm volatile("tilezero %%tmm" #n : : : "memory");
#define CRYOLITE_STORE(n, r, x)                                                                                        \
    if constexpr (r < high && x < wide)                                                                                \
        asm volatile("tilestored %%tmm" #n ", (%0,%1,1)"                                                               \
                     :                                                                                                 \
                     : "r"(t.c + r * side * t.c_stride + x * 64), "r"(t.c_stride)                                      \
                     : "memory");
#define CRYOLITE_BEGIN(EACH_SUM)                                                                                       \
    if (add) {                                                                                                         \
        EACH_SUM(CRYOLITE_LOAD)                                                                                        \
    } else {                                                                                                           \
        EACH_SUM(CRYOLITE_ZERO)                                                                                        \
    }
// The tile of `a` that a column reads last is the one that the next column begins with.
#define CRYOLITE_COLUMN(x, row, first, other, second)                                                                  \
    if constexpr (x < wide) {                                                                                          \
        CRYOLITE_READ(6, b + x * 64, t.b_stride)                                                                       \
        if constexpr (x == 0) CRYOLITE_READ(7, a, t.a_stride)                                                          \
        if constexpr (row < high) CRYOLITE_MULTIPLY(first, 7, 6)                                                       \
        if constexpr (high > 1) CRYOLITE_READ(7, a + other * side * t.a_stride, t.a_stride)                            \
        if constexpr (other < high) CRYOLITE_MULTIPLY(second, 7, 6)                                                    \
    }

/// The sums of high x wide tiles, which stay in the processor, over `steps` tiles of a and of b.
template <int high, int wide> void sum(const Tiles<1> &t, int steps, bool add) {
    CRYOLITE_BEGIN(CRYOLITE_SUMS)
    const char *a = t.a[0], *b = t.b[0];
    for (int s = 0; s < steps; s++, a += 64, b += side * t.b_stride) {
        CRYOLITE_COLUMN(0, 0, 0, 1, 3)
        CRYOLITE_COLUMN(1, 1, 4, 0, 1)
        CRYOLITE_COLUMN(2, 0, 2, 1, 5)
    }
    CRYOLITE_SUMS(CRYOLITE_STORE)
}

#define CRYOLITE_SQUARE(DO) DO(0, 0, 0) DO(1, 0, 1) DO(2, 1, 0) DO(3, 1, 1)
#define CRYOLITE_READ_A(part)                                                                                          \
    CRYOLITE_READ(4, a[part], t.a_stride)                                                                              \
    if constexpr (high > 1) CRYOLITE_READ(5, a[part] + side * t.a_stride, t.a_stride)
#define CRYOLITE_READ_B(part)                                                                                          \
    CRYOLITE_READ(6, b[part], t.b_stride)                                                                              \
    if constexpr (wide > 1) CRYOLITE_READ(7, b[part] + 64, t.b_stride)
#define CRYOLITE_MULTIPLY_SQUARE                                                                                       \
    CRYOLITE_MULTIPLY(0, 4, 6)                                                                                         \
    if constexpr (wide > 1) CRYOLITE_MULTIPLY(1, 4, 7)                                                                 \
    if constexpr (high > 1) CRYOLITE_MULTIPLY(2, 5, 6)                                                                 \
    if constexpr (high > 1 && wide > 1) CRYOLITE_MULTIPLY(3, 5, 7)

/// The same of factors in three parts: from one product of parts to the next, only one factor's tiles are read. All of
/// these functions add the products in one order, so that a sum has the same bits wherever it lies in a call.
template <int high, int wide> void sum(const Tiles<3> &t, int steps, bool add) {
    CRYOLITE_BEGIN(CRYOLITE_SQUARE)
    auto a = t.a, b = t.b;
    for (int s = 0; s < steps; s++) {
        CRYOLITE_READ_A(0);
        CRYOLITE_READ_B(2);
        CRYOLITE_MULTIPLY_SQUARE;
        CRYOLITE_READ_B(0);
        CRYOLITE_MULTIPLY_SQUARE;
        CRYOLITE_READ_B(1);
        CRYOLITE_MULTIPLY_SQUARE;
        CRYOLITE_READ_A(1);
        CRYOLITE_MULTIPLY_SQUARE;
        CRYOLITE_READ_B(0);
        CRYOLITE_MULTIPLY_SQUARE;
        CRYOLITE_READ_A(2);
        CRYOLITE_MULTIPLY_SQUARE;
        for (auto &part : a) part += 64;
        for (auto &part : b) part += side * t.b_stride;
    }
    CRYOLITE_SQUARE(CRYOLITE_STORE)
}

#define CRYOLITE_ROW(DO) DO(0, 0, 0) DO(1, 0, 1) DO(2, 0, 2)
#define CRYOLITE_SPLIT_COLUMN(x)                                                                                       \
    CRYOLITE_READ(6, b[2] + x * 64, t.b_stride);                                                                       \
    CRYOLITE_MULTIPLY(x, 3, 6);                                                                                        \
    CRYOLITE_READ(7, b[0] + x * 64, t.b_stride);                                                                       \
    CRYOLITE_MULTIPLY(x, 3, 7);                                                                                        \
    CRYOLITE_READ(6, b[1] + x * 64, t.b_stride);                                                                       \
    CRYOLITE_MULTIPLY(x, 3, 6);                                                                                        \
    CRYOLITE_MULTIPLY(x, 4, 6);                                                                                        \
    CRYOLITE_MULTIPLY(x, 4, 7);                                                                                        \
    CRYOLITE_MULTIPLY(x, 5, 7)

/// The same for a row of three tiles, with all parts of `a` in tiles.
template <> void sum<1, 3>(const Tiles<3> &t, int steps, bool add) {
    constexpr int high = 1, wide = 3;
    CRYOLITE_BEGIN(CRYOLITE_ROW)
    auto a = t.a, b = t.b;
    for (int s = 0; s < steps; s++) {
        CRYOLITE_READ(3, a[0], t.a_stride);
        CRYOLITE_READ(4, a[1], t.a_stride);
        CRYOLITE_READ(5, a[2], t.a_stride);
        CRYOLITE_SPLIT_COLUMN(0);
        CRYOLITE_SPLIT_COLUMN(1);
        CRYOLITE_SPLIT_COLUMN(2);
        for (auto &part : a) part += 64;
        for (auto &part : b) part += side * t.b_stride;
    }
    CRYOLITE_ROW(CRYOLITE_STORE)
}

/// Tiles of one shape, `rows` x `columns` in all.
template <int parts>
void multiply_equal(const Tiles<parts> &t, int rows, int columns, int high, int wide, int pairs, int steps, bool add) {
    using Sum = void (*)(const Tiles<parts> &, int, bool);
    constexpr int highest_of_three = parts == 1 ? 2 : 1;
    constexpr Sum sums[2][3] = {{sum<1, 1>, sum<1, 2>, sum<1, 3>}, {sum<2, 1>, sum<2, 2>, sum<highest_of_three, 3>}};
    if (rows <= 0 || columns <= 0) return;
    const int across = columns / wide, together = across % 2 == 0 && (parts > 1 || across == 4) ? 2 : 3;
    for (int x = 0; x < across; x += together) {
        const int wide_now = std::min(together, across - x), highest = wide_now == 3 ? highest_of_three : 2;
        set_shapes(high, wide, pairs, parts == 1 ? 7 : wide_now == 3 ? 3 : 4);
        for (int y = 0; y < rows; y += highest * high) {
            const int high_now = std::min(highest, (rows - y) / high);
            sums[high_now - 1][wide_now - 1](t.from(y, x * wide, 0), steps, add);
        }
    }
}

/// The tiles stay configured for the thread, as the next call is near. The system saves them when it switches threads.
/// Tiles that are not whole are those of the last rows, of the last columns and of the last pairs.
template <int parts> void multiply_tiles(const Tiles<parts> &t, int rows, int columns, int pairs, bool add) {
    const int high = rows / side * side, wide = columns / side * side, deep = pairs / side * side;
    const auto over = [&](int pair, int of_tile, int steps, bool add) {
        const auto part = [&](int y, int x, int part_rows, int part_columns, int of_row, int of_column) {
            multiply_equal(t.from(y, x, pair), part_rows, part_columns, of_row, of_column, of_tile, steps, add);
        };
        part(0, 0, high, wide, side, side);
        part(0, wide, high, columns - wide, side, columns - wide);
        part(high, 0, rows - high, wide, rows - high, side);
        part(high, wide, rows - high, columns - wide, rows - high, columns - wide);
    };
    if (deep) over(0, side, deep / side, add);
    if (pairs > deep) over(deep, pairs - deep, 1, add || deep);
}

/// Six tiles of sums, and two of factors, which are zero.
double multiply_registers(int64_t rounds, float *) {
    constexpr int tiles = 6;
    set_shapes(side, side, side);
    for (int64_t i = 0; i < rounds; i++)
        asm volatile("tdpbf16ps %tmm6, %tmm7, %tmm0\n\ttdpbf16ps %tmm6, %tmm7, %tmm1\n\t"
                     "tdpbf16ps %tmm6, %tmm7, %tmm2\n\ttdpbf16ps %tmm6, %tmm7, %tmm3\n\t"
                     "tdpbf16ps %tmm6, %tmm7, %tmm4\n\ttdpbf16ps %tmm6, %tmm7, %tmm5");
    asm volatile("tilerelease");
    return 2.0 * tiles * side * side * (2 * side) * double(rounds);
}

#endif

template <int parts> void by_elements(const Tiles<parts> &t, int rows, int columns, int pairs, bool add) {
    const auto word = [](const char *at) {
        uint32_t pair = 0;
        std::memcpy(&pair, at, sizeof pair);
        return pair;
    };
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < columns; x++) {
            const Tiles<parts> sum = t.from(y, x, 0);
            float before = 0;
            if (add) std::memcpy(&before, sum.c, sizeof before);
            double total = before;
            for (int k = 0; k < pairs; k++) {
                const Tiles<parts> at = t.from(y, x, k);
                for (int p : {0, 1})
                    for (int of_b = parts; of_b--;)
                        for (int of_a = parts - of_b; of_a--;)
                            total +=
                                double(widened(word(at.a[size_t(of_a)]), p)) * widened(word(at.b[size_t(of_b)]), p);
            }
            const auto rounded = float(total);
            std::memcpy(sum.c, &rounded, sizeof rounded);
        }
}

template <int parts> void multiply(const Tiles<parts> &t, int rows, int columns, int pairs, bool add) {
#if defined(__x86_64__)
    if (has_matrix_tiles()) return multiply_tiles(t, rows, columns, pairs, add);
#endif
    by_elements(t, rows, columns, pairs, add);
}

}  // namespace

FlopLoop matrix_tiles() {
#if defined(__x86_64__)
    if (has_matrix_tiles()) return multiply_registers;
#endif
    return nullptr;
}

void multiply_elements(const void *a, int a_stride, const void *b, int b_stride, float *c, int c_stride, int rows,
                       int columns, int pairs, int add) {
    by_elements(tiles_of(a, a_stride, b, b_stride, c, c_stride), rows, columns, pairs, add != 0);
}

void multiply_split_elements(const SplitFactor &a, const SplitFactor &b, float *c, int c_stride, int rows, int columns,
                             int pairs, int add) {
    by_elements(tiles_of(a, b, c, c_stride), rows, columns, pairs, add != 0);
}

}  // namespace cryolite

void cryolite_multiply_tiles(const void *a, int a_stride, const void *b, int b_stride, float *c, int c_stride, int rows,
                             int columns, int pairs, int add) {
    using namespace cryolite;
    multiply(tiles_of(a, a_stride, b, b_stride, c, c_stride), rows, columns, pairs, add != 0);
}

void cryolite_multiply_split(const void *a_high, const void *a_middle, const void *a_low, int a_stride,
                             const void *b_high, const void *b_middle, const void *b_low, int b_stride, float *c,
                             int c_stride, int rows, int columns, int pairs, int add) {
    using namespace cryolite;
    multiply(tiles_of({a_high, a_middle, a_low, a_stride}, {b_high, b_middle, b_low, b_stride}, c, c_stride), rows,
             columns, pairs, add != 0);
}
