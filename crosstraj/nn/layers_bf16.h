// What IMPALA is made of, in bfloat16: convolution, its gradients, max pooling and the way back through it.
// Included by impala_bf16.c, whose first lines say what is kept in which precision.
//
// A dot product takes two numbers at a time. In a convolution these are two channels of one pixel, which
// lie side by side. In the gradient by the weights they are two neighbouring pixels of one channel: those
// are laid side by side first (`pairs`).
#include <immintrin.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifndef __AVX512BF16__
#error "this processor has no AVX512_BF16"
#endif

typedef uint16_t bf;  // the upper half of a float
#define INLINE static inline __attribute__((always_inline))
#define PAD(w, c) (((w) + 2) * ((w) + 2) * (c))        // numbers of a W x W image with its border
#define AT(y, x, w, c) (((y) * ((w) + 2) + (x)) * (c))  // where a pixel is, border included
#define PAIR(y, x, w, c) (((y) * (w) + (x)) * (c))     // where a pair of pixels begins, x even, no border
#define SUM(y, x, w, c) (((y) * ((w) + 1) + (x)) * (c))  // in fp32 maps: one more row and column, see `unpool`

enum { STAGES = 3, FRAME = SIDE * SIDE * 3, TOP = SIDE / STRIDE, END = TOP / 8 };
enum { RESULT = END * END * 32, LINE = (SIDE + 2) * 3, SLACK = 32, TAPS = 10 };
static const int CI[] = {3, 16, MIDDLE}, CO[] = {16, MIDDLE, 32};
static const int SIZE[] = {TOP / 2, TOP / 4, TOP / 8};  // after pooling

INLINE __m512 dot(__m512 sum, __m512i a, __m512i b) {
    return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
}
INLINE __m512i both(const bf *p) {  // two numbers, sixteen times
    int32_t two;
    memcpy(&two, p, 4);
    return _mm512_set1_epi32(two);
}
INLINE __m512i load(const void *p) { return _mm512_loadu_si512(p); }
INLINE __m512i packed(__m512 first, __m512 second) {
    return (__m512i)_mm512_cvtne2ps_pbh(second, first);
}
INLINE __m512i interleave(__m512i v) {  // a0..a15 b0..b15 -> a0 b0 a1 b1 ..
    const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23,
                                           7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    return _mm512_permutexvar_epi16(order, v);
}
INLINE __m512i ordered(__m512i v) {  // bfloat16 <-> integers that compare as they do
    return _mm512_xor_si512(v, _mm512_and_si512(_mm512_srai_epi16(v, 15), _mm512_set1_epi16(0x7fff)));
}
INLINE void store_two(bf *at, int c, __m512i v) {  // 16 channels of a pixel and of the next
    _mm256_storeu_si256((void *)at, _mm512_castsi512_si256(v));
    _mm256_storeu_si256((void *)(at + c), _mm512_extracti64x4_epi64(v, 1));
}

// What happens to a convolution's result, in this order; null or 0: not done.
typedef struct {
    const float *bias;
    const bf *mask;  // zero where this is not above 0
    float *add, *sum;  // + add; kept in fp32
    int relu;
    bf *plain, *pairs, *keys;  // kept in bfloat16: with a border, as pairs of pixels, to be compared
} Then;

INLINE __m512 finish_one(__m512 v, int at, int here, int b, const Then *t) {
    if (t->bias) v = _mm512_add_ps(v, _mm512_loadu_ps(t->bias + b));
    if (t->mask) {
        __m256i m = _mm256_loadu_si256((const void *)(t->mask + at));
        v = _mm512_maskz_mov_ps(_mm256_cmpgt_epi16_mask(m, _mm256_setzero_si256()), v);
    }
    if (t->add) v = _mm512_add_ps(v, _mm512_loadu_ps(t->add + here));
    if (t->sum) _mm512_storeu_ps(t->sum + here, v);
    return t->relu ? _mm512_max_ps(v, _mm512_setzero_ps()) : v;
}

// 16 channels, from b on, of pixel x and of the next.
INLINE void finish_two(__m512 first, __m512 second, int y, int x, int W, int co, int b, const Then *t) {
    int at = AT(y + 1, x + 1, W, co) + b, here = SUM(y, x, W, co) + b;
    __m512i two = packed(finish_one(first, at, here, b, t), finish_one(second, at + co, here + co, b, t));
    if (t->plain) store_two(t->plain + at, co, two);
    if (t->pairs) _mm512_storeu_si512(t->pairs + PAIR(y, x, W, co) + 2 * b, interleave(two));
    if (t->keys) store_two(t->keys + at, co, ordered(two));
}

// P pixels x 16 B output channels. A pixel reads K pairs in each of three rows; the next one's are `step`
// further. Weights: [block of 16][row][K][16][2], blocks `block` apart.
INLINE void conv_tile(const int P, const int B, const bf *in, const int step, const int K, int row,
                      const bf *w, int block, int y, int x, int W, int co, int b, const Then *t) {
    __m512 acc[2][16];
    for (int j = 0; j < B; j++)
        for (int p = 0; p < P; p++) acc[j][p] = _mm512_setzero_ps();
    for (int ky = 0; ky < 3; ky++, in += row)
#pragma GCC unroll 4
        for (int k = 0; k < K; k++, w += 32) {
            __m512i weight[2];
            for (int j = 0; j < B; j++) weight[j] = load(w + j * block);
#pragma GCC unroll 16
            for (int p = 0; p < P; p++) {
                __m512i a = both(in + p * step + 2 * k);
#pragma GCC unroll 2
                for (int j = 0; j < B; j++) acc[j][p] = dot(acc[j][p], weight[j], a);
            }
        }
#pragma GCC unroll 2
    for (int j = 0; j < B; j++)
#pragma GCC unroll 8
        for (int p = 0; p < P; p += 2)
            finish_two(acc[j][p], acc[j][p + 1], y, x + p, W, co, b + 16 * j, t);
}

INLINE void conv_any(const bf *in, const int step, const int K, int down, int row, int W, const bf *w,
                     const int co, Then t) {
    const int B = co / 16, block = 3 * K * 32;
    for (int y = 0; y < W; y++)
        for (int x = 0; x < W;) {
            const bf *a = in + y * down * row + x * step;
            if (B == 1 && W - x >= 16) {
                conv_tile(16, B, a, step, K, row, w, block, y, x, W, co, 0, &t), x += 16;
            } else if (W - x >= 8) {
                conv_tile(8, B, a, step, K, row, w, block, y, x, W, co, 0, &t), x += 8;
            } else {
                conv_tile(4, B, a, step, K, row, w, block, y, x, W, co, 0, &t), x += 4;
            }
        }
}

// 3x3 convolution of a W x W image of c channels with its border; of a frame, c = 3, with STRIDE.
static void conv(const bf *in, int c, int W, const bf *w, int co, Then t) {
    int row = (W + 2) * c;
    if (c == 3) conv_any(in, 3 * STRIDE, TAPS / 2, STRIDE, LINE, W, w, 16, t);
    else if (c == 16 && co == 16) conv_any(in, 16, 24, 1, row, W, w, 16, t);
    else if (c == 16) conv_any(in, 16, 24, 1, row, W, w, 32, t);
    else if (co == 16) conv_any(in, 32, 48, 1, row, W, w, 16, t);
    else conv_any(in, 32, 48, 1, row, W, w, 32, t);
}

// Pairs of neighbouring pixels of an image with its border: those that begin at even and at odd places,
// [W + 2][W + 2][c] each, of which the last is not used.
static void pair_up(const bf *in, int W, int c, bf *even, bf *odd) {
    for (int y = 0; y < W + 2; y++)
        for (int x = 0; x < W + 1; x++) {
            bf *to = (x % 2 ? odd : even) + AT(y, x - x % 2, W, c);
            for (int b = 0; b < c; b += 16) {
                const bf *a = in + AT(y, x, W, c) + b;
                __m256i one = _mm256_loadu_si256((const void *)a);
                __m256i next = _mm256_loadu_si256((const void *)(a + c));
                __m512i two = _mm512_inserti64x4(_mm512_castsi256_si512(one), next, 1);
                _mm512_storeu_si512(to + 2 * b, interleave(two));
            }
        }
}

// The same for a frame: for each pair of results in a row, the nine numbers of one row that each reads.
static void pair_up_frame(const bf *image, bf *out) {
    bf order[32] = {0};
    for (int j = 0; j < TAPS; j++) order[2 * j] = j, order[2 * j + 1] = j + 3 * STRIDE;
    __m512i pick = load(order);
    for (int y = 0; y < SIDE + 2; y++)
        for (int x = 0; x < TOP; x += 2, out += 2 * TAPS)
            _mm512_mask_storeu_epi16(out, (1u << 2 * TAPS) - 1,
                                     _mm512_permutexvar_epi16(pick, load(image + y * LINE + 3 * STRIDE * x)));
}

// P rows of the weights' gradient x 16 output channels, over some lines of pairs of pixels.
INLINE void grad_tile(const int P, const bf *in, const int step, int line, const bf *g, const int co, int W,
                      int lines, float *dw) {
    __m512 acc[16];
    for (int p = 0; p < P; p++) acc[p] = _mm512_loadu_ps(dw + p * co);
    for (int y = 0; y < lines; y++, in += line, g += W * co)
        for (int x = 0; x < W / 2; x++) {
            __m512i weight = load(g + x * 2 * co);
#pragma GCC unroll 16
            for (int p = 0; p < P; p++) acc[p] = dot(acc[p], weight, both(in + x * step + 2 * p));
        }
    for (int p = 0; p < P; p++) _mm512_storeu_ps(dw + p * co, acc[p]);
}

INLINE void bias_grad(const bf *g, int W, const int co, float *db) {
    const __m512i ones = _mm512_set1_epi16(0x3f80);
    for (int b = 0; b < co; b += 16) {
        __m512 sum = _mm512_loadu_ps(db + b);
        for (int i = 0; i < W * W / 2; i++) sum = dot(sum, load(g + i * 2 * co + 2 * b), ones);
        _mm512_storeu_ps(db + b, sum);
    }
}

// Adds to the weights' gradient dw [ky][kx][ci][co], and to the bias' gradient that follows it; a few
// lines at a time, for the L1 cache. g: pairs.
INLINE void conv_grad_any(const bf *even, const bf *odd, const int c, int W, const bf *g, const int co,
                          float *dw) {
    int lines = W < 8 ? W : W == 8 ? 8 : 4;
    for (int y = 0; y < W; y += lines)
        for (int ky = 0; ky < 3; ky++)
            for (int kx = 0; kx < 3; kx++)
                for (int i = 0; i < c; i += 16)
                    for (int b = 0; b < co; b += 16) {
                        const bf *in = (kx == 1 ? odd : even) + AT(y + ky, kx == 2 ? 2 : 0, W, c) + 2 * i;
                        float *d = dw + ((ky * 3 + kx) * c + i) * co + b;
                        grad_tile(16, in, 2 * c, (W + 2) * c, g + PAIR(y, 0, W, co) + 2 * b, co, W, lines, d);
                    }
    bias_grad(g, W, co, dw + 9 * c * co);
}

static void conv_grad(const bf *even, const bf *odd, int c, int W, const bf *g, int co, float *dw) {
    if (c == 16 && co == 16) conv_grad_any(even, odd, 16, W, g, 16, dw);
    else if (c == 16) conv_grad_any(even, odd, 16, W, g, 32, dw);
    else conv_grad_any(even, odd, 32, W, g, 32, dw);
}

static void frame_grad(const bf *pairs, const bf *g, float *dw) {
    for (int y = 0; y < TOP; y += 4)
        for (int ky = 0; ky < 3; ky++)
            for (int r = 0; r < (STRIDE > 1 ? 4 : 1); r++) {  // with a stride, lines are not neighbours
                int lines = STRIDE > 1 ? 1 : 4;
                const bf *in = pairs + (STRIDE * (y + r) + ky) * (TOP / 2) * 2 * TAPS;
                grad_tile(9, in, 2 * TAPS, TOP / 2 * 2 * TAPS, g + PAIR(y + r, 0, TOP, 16), 16, TOP, lines,
                          dw + ky * 9 * 16);
            }
    bias_grad(g, TOP, 16, dw + 27 * 16);
}

// 3x3 max pooling, stride 2, of a 2W x 2W image of keys whose border is the least of them. The result is kept
// as a sum, and rectified; which of the nine won goes to won [W+1][W+1][c], unless that is null.
INLINE void pool_any(const bf *keys, int W, const int c, float *sum, bf *plain, uint8_t *won) {
    for (int y = 0; y < W; y++)
        for (int x = 0; x < W; x++)
            for (int b = 0; b < c; b += 16) {
                const bf *from = keys + AT(2 * y, 2 * x, 2 * W, c) + b;
                __m256i most = _mm256_loadu_si256((const void *)from), best = _mm256_setzero_si256();
#pragma GCC unroll 9
                for (int k = 1; k < 9; k++) {
                    __m256i v = _mm256_loadu_si256((const void *)(from + AT(k / 3, k % 3, 2 * W, c)));
                    if (won) {
                        __mmask16 more = _mm256_cmpgt_epi16_mask(v, most);
                        best = _mm256_mask_mov_epi16(best, more, _mm256_set1_epi16(k));
                    }
                    most = _mm256_max_epi16(most, v);
                }
                __m512i value = ordered(_mm512_castsi256_si512(most));
                __m256i half = _mm512_castsi512_si256(value), zero = _mm256_setzero_si256();
                __m512i whole = _mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
                _mm512_storeu_si512(sum + SUM(y, x, W, c) + b, whole);
                _mm256_storeu_si256((void *)(plain + AT(y + 1, x + 1, W, c) + b), _mm256_max_epi16(half, zero));
                if (won) _mm_storeu_si128((void *)(won + SUM(y, x, W, c) + b), _mm256_cvtepi16_epi8(best));
            }
}

static void pool(const bf *keys, int W, int c, float *sum, bf *plain, uint8_t *won) {
    if (won && c == 16) pool_any(keys, W, 16, sum, plain, won);
    else if (won) pool_any(keys, W, 32, sum, plain, won);
    else if (c == 16) pool_any(keys, W, 16, sum, plain, NULL);
    else pool_any(keys, W, 32, sum, plain, NULL);
}

INLINE __m512 won_by(__m512 sum, const float *g, const uint8_t *won, int at, int k) {
    __mmask16 here = _mm_cmpeq_epi8_mask(_mm_loadu_si128((const void *)(won + at)), _mm_set1_epi8(k));
    return _mm512_mask_add_ps(sum, here, sum, _mm512_loadu_ps(g + at));
}

// Back through the pooling. Each of four neighbouring pixels was seen by one, two or four windows; those
// beyond the last row and column have won nothing. Results in bfloat16, plain (unless null) and as pairs.
INLINE void unpool_any(const float *g, const uint8_t *won, int W, const int c, bf *plain, bf *pairs) {
    for (int y = 0; y < W; y++)
        for (int x = 0; x < W; x++)
            for (int b = 0; b < c; b += 16) {
                int at = SUM(y, x, W, c) + b, right = at + c, down = at + (W + 1) * c, across = down + c;
                __m512 zero = _mm512_setzero_ps(), v[2][2];
                v[0][0] = won_by(zero, g, won, at, 4);
                v[0][1] = won_by(won_by(zero, g, won, at, 5), g, won, right, 3);
                v[1][0] = won_by(won_by(zero, g, won, at, 7), g, won, down, 1);
                v[1][1] = won_by(won_by(zero, g, won, at, 8), g, won, right, 6);
                v[1][1] = won_by(won_by(v[1][1], g, won, down, 2), g, won, across, 0);
                for (int i = 0; i < 2; i++) {
                    __m512i two = packed(v[i][0], v[i][1]);
                    int row = 2 * y + i;
                    if (plain) store_two(plain + AT(row + 1, 2 * x + 1, 2 * W, c) + b, c, two);
                    _mm512_storeu_si512(pairs + PAIR(row, 2 * x, 2 * W, c) + 2 * b, interleave(two));
                }
            }
}

static void unpool(const float *g, const uint8_t *won, int W, int c, bf *plain, bf *pairs) {
    if (c == 16) unpool_any(g, won, W, 16, plain, pairs);
    else unpool_any(g, won, W, 32, plain, pairs);
}

