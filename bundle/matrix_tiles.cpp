#include "bundle/matrix_tiles.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "bundle/flops.h"

namespace cryolite {

namespace {

/// The matrices of a product, or of a part of it.
struct Tiles {
    const char *a;
    int64_t a_stride;
    const char *b;
    int64_t b_stride;
    char *c;
    int64_t c_stride;

    Tiles from(int row, int column, int pair) const {
        constexpr int word = 4;
        return {a + row * a_stride + int64_t(pair) * word,    a_stride,
                b + pair * b_stride + int64_t(column) * word, b_stride,
                c + row * c_stride + int64_t(column) * word,  c_stride};
    }
};

Tiles tiles_of(const void *a, int a_stride, const void *b, int b_stride, float *c, int c_stride) {
    return {static_cast<const char *>(a), a_stride, static_cast<const char *>(b), b_stride,
            reinterpret_cast<char *>(c),  c_stride};
}

float widened(uint32_t pair, int term) { return std::bit_cast<float>(term ? pair & 0xffff0000 : pair << 16); }

#if defined(__x86_64__)

constexpr int side = 16;  // rows, columns and pairs of a tile, at most

/// What the processor's eight tiles hold: sums in 0 to 5, a part of b in 6 and of a in 7.
struct alignas(64) TileShapes {
    uint8_t palette = 1, start = 0, zero[14] = {};
    uint16_t bytes_of_row[16] = {};
    uint8_t rows[16] = {};
};

void set_shapes(int rows, int columns, int pairs) {
    TileShapes s;
    for (int tile = 0; tile < 6; tile++) s.rows[tile] = uint8_t(rows), s.bytes_of_row[tile] = uint16_t(4 * columns);
    s.rows[6] = uint8_t(pairs), s.bytes_of_row[6] = uint16_t(4 * columns);
    s.rows[7] = uint8_t(rows), s.bytes_of_row[7] = uint16_t(4 * pairs);
    asm volatile("ldtilecfg %0" : : "m"(s));
}

// A tile's number is a constant of the instruction, hence macros.
#define CRYOLITE_SUMS(DO) DO(0, 0, 0) DO(1, 0, 1) DO(2, 0, 2) DO(3, 1, 0) DO(4, 1, 1) DO(5, 1, 2)
#define CRYOLITE_TILE(instruction, n, at, stride)                                                                      \
    asm volatile(instruction #n : : "r"(at), "r"(int64_t(stride)) : "memory");
#define CRYOLITE_READ(n, at, stride) CRYOLITE_TILE("tileloadd (%0,%1,1), %%tmm", n, at, stride)
#define CRYOLITE_MULTIPLY(n) asm volatile("tdpbf16ps %%tmm6, %%tmm7, %%tmm" #n : : : "memory");
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
#define CRYOLITE_COLUMN(x, upper, lower)                                                                               \
    if constexpr (x < wide) {                                                                                          \
        CRYOLITE_READ(6, b + x * 64, t.b_stride)                                                                       \
        CRYOLITE_READ(7, a, t.a_stride)                                                                                \
        CRYOLITE_MULTIPLY(upper)                                                                                       \
        if constexpr (high > 1) {                                                                                      \
            CRYOLITE_READ(7, a + side * t.a_stride, t.a_stride)                                                        \
            CRYOLITE_MULTIPLY(lower)                                                                                   \
        }                                                                                                              \
    }

/// The sums of high x wide tiles, which stay in the processor, over `steps` tiles of a and of b.
template <int high, int wide> void sum(const Tiles &t, int steps, bool add) {
    if (add) {
        CRYOLITE_SUMS(CRYOLITE_LOAD)
    } else {
        CRYOLITE_SUMS(CRYOLITE_ZERO)
    }
    const char *a = t.a, *b = t.b;
    for (int s = 0; s < steps; s++, a += 64, b += side * t.b_stride) {
        CRYOLITE_COLUMN(0, 0, 3)
        CRYOLITE_COLUMN(1, 1, 4)
        CRYOLITE_COLUMN(2, 2, 5)
    }
    CRYOLITE_SUMS(CRYOLITE_STORE)
}

using Sum = void (*)(const Tiles &, int, bool);
constexpr Sum sums[2][3] = {{sum<1, 1>, sum<1, 2>, sum<1, 3>}, {sum<2, 1>, sum<2, 2>, sum<2, 3>}};

/// Tiles of one shape, `rows` x `columns` in all.
void multiply_equal(const Tiles &t, int rows, int columns, int high, int wide, int pairs, int steps, bool add) {
    if (rows <= 0 || columns <= 0) return;
    set_shapes(high, wide, pairs);
    const int across = columns / wide, together = across == 4 ? 2 : 3;  // none of four is alone
    for (int x = 0; x < across; x += together)
        for (int y = 0; y < rows; y += 2 * high) {
            const int wide_now = std::min(together, across - x), high_now = std::min(2, (rows - y) / high);
            sums[high_now - 1][wide_now - 1](t.from(y, x * wide, 0), steps, add);
        }
}

/// The tiles stay configured for the thread, as the next call is near. The system saves them when it switches threads.
/// Tiles that are not whole are those of the last rows, of the last columns and of the last pairs.
void multiply_tiles(const Tiles &t, int rows, int columns, int pairs, bool add) {
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

}  // namespace

FlopLoop matrix_tiles() {
#if defined(__x86_64__)
    if (has_matrix_tiles()) return multiply_registers;
#endif
    return nullptr;
}

void multiply_elements(const void *a, int a_stride, const void *b, int b_stride, float *c, int c_stride, int rows,
                       int columns, int pairs, int add) {
    const Tiles t = tiles_of(a, a_stride, b, b_stride, c, c_stride);
    for (int y = 0; y < rows; y++)
        for (int x = 0; x < columns; x++) {
            const Tiles sum = t.from(y, x, 0);
            float total = 0;
            if (add) std::memcpy(&total, sum.c, sizeof total);
            for (int k = 0; k < pairs; k++) {
                const Tiles at = t.from(y, x, k);
                uint32_t of_a = 0, of_b = 0;
                std::memcpy(&of_a, at.a, sizeof of_a), std::memcpy(&of_b, at.b, sizeof of_b);
                for (int p : {0, 1}) total += widened(of_a, p) * widened(of_b, p);
            }
            std::memcpy(sum.c, &total, sizeof total);
        }
}

}  // namespace cryolite

void cryolite_multiply_tiles(const void *a, int a_stride, const void *b, int b_stride, float *c, int c_stride, int rows,
                             int columns, int pairs, int add) {
    using namespace cryolite;
#if defined(__x86_64__)
    if (has_matrix_tiles())
        return multiply_tiles(tiles_of(a, a_stride, b, b_stride, c, c_stride), rows, columns, pairs, add != 0);
#endif
    multiply_elements(a, a_stride, b, b_stride, c, c_stride, rows, columns, pairs, add);
}
