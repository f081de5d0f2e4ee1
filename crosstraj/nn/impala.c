// IMPALA's convolutions on a CPU: one image at a time through every layer, so that its activations stay in
// the core's cache, forward and back. `native.py` compiles and calls it, once for each size of a frame
// (HEIGHT, WIDTH, CHANNELS), STRIDE of the first convolution (2: `laptop`), number of channels in the MIDDLE
// stage (16: `slim`) and number of residual BLOCKS in a stage (1: `slim`).
//
// Images are NHWC with a border of one pixel; channels come in groups of 16. GCC's vector extension keeps
// it portable: the compiler chooses the instructions. No state. Threads are OpenMP's, hence PyTorch's own:
// a second set would fight with the first, whose threads spin for milliseconds after their work.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef int32_t i8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef uint8_t u8 __attribute__((vector_size(8), aligned(1), may_alias));

// Sums of 16 output channels are one vector where the processor has such, and two elsewhere; a tile of them
// is as large as the registers allow. Every lane adds the same numbers in the same order: bits are equal.
#ifdef __AVX512F__
enum { LANES = 16, TILE = 16 };
#else
enum { LANES = 8, TILE = 6 };
#endif
enum { VECTORS = 16 / LANES };
typedef float sums __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t signs __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

#define PATCH (3 * 3 * CHANNELS)  // what one pixel of the first convolution's result reads
#define INLINE static inline __attribute__((always_inline))
#define PAD(h, w, c) (((h) + 2) * ((w) + 2) * (c))      // floats of an H x W image with its border
#define AT(y, x, w, c) (((y) * ((w) + 2) + (x)) * (c))  // where a pixel is, border included

// What happens to a convolution's result: + bias, relu, zero where mask <= 0, + add. Null: not done.
typedef struct {
    const float *bias;
    int relu;
    const float *mask, *add;
} Then;

INLINE v8 where(i8 mask, v8 a, v8 b) { return (v8)(((i8)a & mask) | ((i8)b & ~mask)); }
INLINE sums only(signs mask, sums a) { return (sums)((signs)a & mask); }

// P neighbouring pixels x 16 output channels. A pixel reads K numbers in each of `rows` rows; the next pixel's
// are c further.
INLINE void conv_tile(const int P, const float *in, int c, const int K, const int rows, int row,
                      const float *w, float *out, int co, int at, Then t) {
    sums acc[TILE][VECTORS];
    for (int p = 0; p < P; p++)
        for (int j = 0; j < VECTORS; j++) acc[p][j] = (sums){0};
    for (int ky = 0; ky < rows; ky++, in += row)
#pragma GCC unroll 4
        for (int k = 0; k < K; k++, w += 16) {
            sums weights[VECTORS];
            for (int j = 0; j < VECTORS; j++) weights[j] = *(sums *)(w + LANES * j);
#pragma GCC unroll 16
            for (int p = 0; p < P; p++) {
                float a = in[p * c + k];
                for (int j = 0; j < VECTORS; j++) acc[p][j] += a * weights[j];
            }
        }
#pragma GCC unroll 16
    for (int p = 0; p < P; p++)
        for (int j = 0; j < VECTORS; j++) {
            int here = at + p * co + LANES * j;
            sums v = acc[p][j];
            if (t.bias) v += *(sums *)(t.bias + LANES * j);
            if (t.relu) v = only(v > 0, v);
            if (t.mask) v = only(*(sums *)(t.mask + here) > 0, v);
            if (t.add) v += *(sums *)(t.add + here);
            *(sums *)(out + here) = v;
        }
}

// 3x3 convolution of an H x W image; weights [co/16][ky][kx][ci][16]. The image has c channels and a border
// (rows = 3), or holds for each pixel of the result the c numbers that it reads (rows = 1).
INLINE void conv_any(const float *in, const int c, const int rows, int H, int W, const float *w,
                     float *out, int co, Then t) {
    const int K = rows * c;
    for (int b = 0; b < co; b += 16, w += rows * K * 16) {
        Then u = t;
        if (u.bias) u.bias += b;
        for (int y = 0; y < H; y++)
            for (int x = 0; x < W;) {
                const float *a = in + (rows == 3 ? AT(y, x, W, c) : (y * W + x) * c);
                int row = (W + 2) * c, at = AT(y + 1, x + 1, W, co) + b, left = W - x;
                if (TILE == 16 && left % TILE == 0) {
                    conv_tile(TILE, a, c, K, rows, row, w, out, co, at, u), x += TILE;
                } else if (TILE == 16 && left % (TILE / 2) == 0) {
                    conv_tile(TILE / 2, a, c, K, rows, row, w, out, co, at, u), x += TILE / 2;
                } else if (left == 8 || left == 4) {
                    conv_tile(4, a, c, K, rows, row, w, out, co, at, u), x += 4;
                } else if (left % 6 == 0) {
                    conv_tile(6, a, c, K, rows, row, w, out, co, at, u), x += 6;
                } else if (left >= 5) {
                    conv_tile(5, a, c, K, rows, row, w, out, co, at, u), x += 5;
                } else {
                    conv_tile(1, a, c, K, rows, row, w, out, co, at, u), x += 1;
                }
            }
    }
}

static void conv(const float *in, int c, int H, int W, const float *w, float *out, int co, Then t) {
    if (c == 16) conv_any(in, 16, 3, H, W, w, out, co, t);  // constants: loops are unrolled
    else conv_any(in, 32, 3, H, W, w, out, co, t);
}

static void first_conv(const float *in, int H, int W, const float *w, float *out, Then t) {
    if (STRIDE == 1) conv_any(in, CHANNELS, 3, H, W, w, out, 16, t);
    else conv_any(in, PATCH, 1, H, W, w, out, 16, t);
}

INLINE void grad_tile(const int P, const float *in, int c, int line, const float *g, int co, int W,
                      int lines, float *dw) {
    sums acc[TILE][VECTORS];
    for (int p = 0; p < P; p++)
        for (int j = 0; j < VECTORS; j++) acc[p][j] = *(sums *)(dw + p * co + LANES * j);
    for (int y = 0; y < lines; y++, in += line, g += (W + 2) * co)
        for (int x = 0; x < W; x++) {
            sums gradient[VECTORS];
            for (int j = 0; j < VECTORS; j++) gradient[j] = *(sums *)(g + x * co + LANES * j);
#pragma GCC unroll 16
            for (int p = 0; p < P; p++) {
                float a = in[x * c + p];
                for (int j = 0; j < VECTORS; j++) acc[p][j] += a * gradient[j];
            }
        }
    for (int p = 0; p < P; p++)
        for (int j = 0; j < VECTORS; j++) *(sums *)(dw + p * co + LANES * j) = acc[p][j];
}

// Adds to the weights' gradient dw [ky][kx][ci][co], and to the bias' gradient that follows it; a few
// lines at a time, for the L1 cache.
INLINE void conv_grad_any(const float *in, const int c, const int rows, int H, int W,
                          const float *g, const int co, float *dw) {
    const int K = rows * c, line = rows == 3 ? (W + 2) * c : W * c;
    for (int y = 0, lines; y < H; y += lines) {
        lines = H == 8 ? 8 : H - y < 4 ? H - y : 4;
        const float *gy = g + AT(y + 1, 1, W, co);
        for (int ky = 0; ky < rows; ky++)
            for (int b = 0; b < co; b += 16)
                for (int k = 0; k < K;) {
                    const float *a = in + (y + ky) * line + k;
                    float *d = dw + (ky * K + k) * co + b;
                    if (TILE == 16 && (K - k) % TILE == 0) {
                        grad_tile(TILE, a, c, line, gy + b, co, W, lines, d), k += TILE;
                    } else if (K - k == 3) {
                        grad_tile(3, a, c, line, gy + b, co, W, lines, d), k += 3;
                    } else if (K - k == 9) {
                        grad_tile(5, a, c, line, gy + b, co, W, lines, d), k += 5;
                    } else if (K - k == 4) {
                        grad_tile(4, a, c, line, gy + b, co, W, lines, d), k += 4;
                    } else {
                        grad_tile(6, a, c, line, gy + b, co, W, lines, d), k += 6;
                    }
                }
        for (int b = 0; b < co; b += 8) {
            v8 sum = *(v8 *)(dw + rows * K * co + b);
            for (int r = 0; r < lines; r++)
                for (int x = 0; x < W; x++) sum += *(v8 *)(gy + AT(r, x, W, co) + b);
            *(v8 *)(dw + rows * K * co + b) = sum;
        }
    }
}

static void conv_grad(const float *in, int c, int H, int W, const float *g, int co, float *dw) {
    if (co == 16) conv_grad_any(in, c, 3, H, W, g, 16, dw);
    else conv_grad_any(in, c, 3, H, W, g, 32, dw);
}

static void first_conv_grad(const float *in, int H, int W, const float *g, float *dw) {
    if (STRIDE == 1) conv_grad_any(in, CHANNELS, 3, H, W, g, 16, dw);
    else conv_grad_any(in, PATCH, 1, H, W, g, 16, dw);
}

static void border(float *a, int H, int W, int c, float value) {
    for (int i = 0; i < (W + 2) * c; i++) a[i] = a[AT(H + 1, 0, W, c) + i] = value;
    for (int y = 1; y <= H; y++)
        for (int k = 0; k < c; k++) a[AT(y, 0, W, c) + k] = a[AT(y, W + 1, W, c) + k] = value;
}

// 3x3 max pooling, stride 2, of a 2H x 2W image whose border is -inf; which of the nine won goes to won,
// unless that is null.
INLINE void pool_any(const float *in, int H, int W, int c, float *out, uint8_t *won) {
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int b = 0; b < c; b += 8) {
                v8 most = *(v8 *)(in + AT(2 * y, 2 * x, 2 * W, c) + b);
                i8 best = {0};
#pragma GCC unroll 9
                for (int k = 1; k < 9; k++) {
                    v8 v = *(v8 *)(in + AT(2 * y + k / 3, 2 * x + k % 3, 2 * W, c) + b);
                    i8 more = v > most;
                    best = (best & ~more) | (more & k);
                    most = where(more, v, most);
                }
                *(v8 *)(out + AT(y + 1, x + 1, W, c) + b) = most;
                if (won) *(u8 *)won = __builtin_convertvector(best, u8), won += 8;
            }
}

static void pool(const float *in, int H, int W, int c, float *out, uint8_t *won) {
    if (won) pool_any(in, H, W, c, out, won);
    else pool_any(in, H, W, c, out, NULL);  // a constant, so that no winner is looked for
}

static void pool_back(const float *g, int H, int W, int c, float *out, const uint8_t *won) {
    memset(out, 0, sizeof(float) * PAD(2 * H, 2 * W, c));
    for (int y = 0; y < H; y++)
        for (int x = 0; x < W; x++)
            for (int b = 0; b < c; b += 8, won += 8) {
                v8 a = *(v8 *)(g + AT(y + 1, x + 1, W, c) + b);
                i8 best = __builtin_convertvector(*(u8 *)won, i8);
#pragma GCC unroll 9
                for (int k = 0; k < 9; k++)
                    *(v8 *)(out + AT(2 * y + k / 3, 2 * x + k % 3, 2 * W, c) + b) +=
                        where(best == k, a, (v8){0});
            }
}

static void relu(const float *x, float *y, int n) {
    for (int i = 0; i < n; i++) y[i] = x[i] > 0 ? x[i] : 0;
}

enum { STAGES = 3, LINE = WIDTH * CHANNELS, FRAME = HEIGHT * LINE };
enum { TALL = HEIGHT / STRIDE, WIDE = WIDTH / STRIDE };  // what the first convolution gives
enum { END = TALL / 8, ACROSS = WIDE / 8 * 32, RESULT = END * ACROSS };  // lines, and numbers in each
static const int CI[] = {CHANNELS, 16, MIDDLE}, CO[] = {16, MIDDLE, 32};
// After pooling:
static const int TALLS[] = {TALL / 2, TALL / 4, TALL / 8}, WIDES[] = {WIDE / 2, WIDE / 4, WIDE / 8};
#define MAP(s) PAD(TALLS[s], WIDES[s], CO[s])

// Kept per image for the way back: of each stage a and h of every block, and y; the winners of the poolings.
#define MAPS (2 * BLOCKS + 1)
#define PADS(part, c) PAD(TALL / part, WIDE / part, c)
#define PIXELS(part) ((TALL / part) * (WIDE / part))
#define FLOATS (MAPS * (PADS(2, 16) + PADS(4, MIDDLE) + PADS(8, 32)))
#define KEPT (FLOATS + (PIXELS(2) * 16 + PIXELS(4) * MIDDLE + PIXELS(8) * 32) / 4)
#define PARAMS(c, co) (9 * (c) * (co) + (co))

int kept(void) { return KEPT; }

typedef struct {
    float *image, *patches, *wide[STAGES], *grad[STAGES], *inner[STAGES], *own;
} Room;

static Room room(int keep) {
    Room r = {calloc(PAD(HEIGHT, WIDTH, CHANNELS), sizeof(float))};
    if (STRIDE > 1) r.patches = malloc(sizeof(float) * TALL * WIDE * PATCH);
    for (int s = 0; s < STAGES; s++) {
        r.wide[s] = malloc(sizeof(float) * PAD(2 * TALLS[s], 2 * WIDES[s], CO[s]));
        r.grad[s] = calloc(MAP(s), sizeof(float));
        r.inner[s] = calloc(MAP(s), sizeof(float));
        border(r.wide[s], 2 * TALLS[s], 2 * WIDES[s], CO[s], -INFINITY);
    }
    r.own = keep ? NULL : calloc(KEPT, sizeof(float));
    return r;
}

static void leave(Room r) {
    for (int s = 0; s < STAGES; s++) free(r.wide[s]), free(r.grad[s]), free(r.inner[s]);
    free(r.image), free(r.patches), free(r.own);
}

// What the first convolution reads of a frame: the image with its border; or, where it skips pixels, all
// that each pixel of the result needs.
static const float *load(Room r, const uint8_t *frame) {
    for (int y = 0; y < HEIGHT; y++)
        for (int i = 0; i < LINE; i++)
            r.image[AT(y + 1, 1, WIDTH, CHANNELS) + i] = frame[y * LINE + i] * (1 / 255.f);
    if (STRIDE == 1) return r.image;
    float *to = r.patches;
    for (int y = 0; y < TALL; y++)
        for (int x = 0; x < WIDE; x++)
            for (int ky = 0; ky < 3; ky++, to += 3 * CHANNELS)
                memcpy(to, r.image + AT(STRIDE * y + ky, STRIDE * x, WIDTH, CHANNELS),
                       3 * CHANNELS * sizeof(float));
    return r.patches;
}

// Image i of frames [n,HEIGHT,WIDTH,CHANNELS] -> out [n,END,WIDE/8,32]. params: per layer weights as in conv, then bias.
// keep: [n, KEPT], or null when no gradient follows.
static void forward_one(Room r, int i, const uint8_t *frames, const float *params, float *keep,
                        float *out) {
    const float *w = params, *x = load(r, frames + (long)i * FRAME);
    float *k = keep ? keep + (long)i * KEPT : r.own;
    uint8_t *won = keep ? (uint8_t *)(k + FLOATS) : NULL;
    for (int s = 0; s < STAGES; s++) {
        int c = CO[s], H = TALLS[s], W = WIDES[s], size = MAP(s), step = PARAMS(c, c);
        float *y = k + 2 * BLOCKS * size;
        Then bias = {w + 9 * CI[s] * c};
        if (s) conv(x, CI[s], 2 * H, 2 * W, w, r.wide[s], c, bias);
        else first_conv(x, 2 * H, 2 * W, w, r.wide[s], bias);
        w += PARAMS(CI[s], c);
        pool(r.wide[s], H, W, c, y, won);
        if (keep) won += H * W * c, border(y, H, W, c, 0);
        for (int b = 0; b < BLOCKS; b++, w += 2 * step) {
            float *a = keep ? k + 2 * b * size : k, *h = a + size;  // else used twice: less cache
            relu(y, a, size);
            if (keep) border(h, H, W, c, 0);
            conv(a, c, H, W, w, h, c, (Then){w + 9 * c * c, 1});
            conv(h, c, H, W, w + step, y, c, (Then){w + step + 9 * c * c, 0, NULL, y});
        }
        x = y;
        k += MAPS * size;
    }
    for (int y = 0; y < END; y++)
        relu(x + AT(y + 1, 1, WIDE / 8, 32), out + (long)i * RESULT + y * ACROSS, ACROSS);
}

// One image at a time, shared among threads, so that none waits long for another at the end.
void forward(int threads, int size, const uint8_t *frames, const float *params, float *keep,
             float *out) {
#pragma omp parallel num_threads(threads)
    {
        Room r = room(keep != NULL);
#pragma omp for schedule(dynamic)
        for (int i = 0; i < size; i++) forward_one(r, i, frames, params, keep, out);
        leave(r);
    }
}

// Adds the gradient of images begin..end to dparams [total]: per layer [ky][kx][ci][co], then bias.
// turned: weights of the transposed convolutions, laid out like params. grad: like out.
static void backward_some(Room r, int begin, int end, const uint8_t *frames, const float *turned,
                          const float *keep, const float *out, const float *grad, float *dparams,
                          int total) {
    for (int i = begin; i < end; i++) {
        const float *k = keep + (long)i * KEPT + FLOATS, *w = turned + total;
        const uint8_t *won = (const uint8_t *)(keep + (long)(i + 1) * KEPT);
        float *d = dparams + total;
        const float *image = load(r, frames + (long)i * FRAME);
        for (int y = 0; y < END; y++)
            for (int j = 0; j < ACROSS; j++) {
                long at = (long)i * RESULT + y * ACROSS + j;
                r.grad[2][AT(y + 1, 1, WIDE / 8, 32) + j] = out[at] > 0 ? grad[at] : 0;
            }
        for (int s = STAGES - 1; s >= 0; s--) {
            int c = CO[s], H = TALLS[s], W = WIDES[s], size = MAP(s), step = PARAMS(c, c);
            k -= MAPS * size;
            won -= H * W * c;
            for (int b = BLOCKS - 1; b >= 0; b--) {
                const float *a = k + 2 * b * size, *h = a + size;
                w -= 2 * step, d -= 2 * step;
                conv_grad(h, c, H, W, r.grad[s], c, d + step);
                conv(r.grad[s], c, H, W, w + step, r.inner[s], c, (Then){NULL, 0, h});
                conv_grad(a, c, H, W, r.inner[s], c, d);
                conv(r.inner[s], c, H, W, w, r.grad[s], c, (Then){NULL, 0, a, r.grad[s]});
            }
            w -= PARAMS(CI[s], c), d -= PARAMS(CI[s], c);
            pool_back(r.grad[s], H, W, c, r.wide[s], won);
            if (s) {
                conv_grad(k - MAP(s - 1), CI[s], 2 * H, 2 * W, r.wide[s], c, d);
                conv(r.wide[s], c, 2 * H, 2 * W, w, r.grad[s - 1], CI[s], (Then){NULL});
            } else first_conv_grad(image, 2 * H, 2 * W, r.wide[s], d);
        }
    }
}

// dparams: [parts, total], one row per part, so that their sum does not depend on the threads.
void backward(int threads, int parts, int size, const uint8_t *frames, const float *turned,
              const float *keep, const float *out, const float *grad, float *dparams, int total) {
#pragma omp parallel num_threads(threads)
    {
        Room r = room(1);
#pragma omp for schedule(dynamic)
        for (int p = 0; p < parts; p++)
            backward_some(r, size * p / parts, size * (p + 1) / parts, frames, turned, keep, out,
                          grad, dparams + (long)p * total, total);
        leave(r);
    }
}
