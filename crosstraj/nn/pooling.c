// 3x3 max pooling with stride 2 and a border of one, forward and back, for bfloat16 images in NHWC.
// `pooling.py` compiles and calls it. torch's takes a quarter of the time of an encoder in bfloat16; this
// takes a few percent. Channels come in groups of 16. The winner of a window is the first of the largest, and
// NaN wins, as in torch. On the way back each pixel asks the windows that it is in, so nothing is zeroed
// first, and what it gets is summed in float32 and rounded once.
#include <stdint.h>
#include <string.h>

typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t i16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint32_t w16 __attribute__((vector_size(64), aligned(4), may_alias));
typedef uint16_t h16 __attribute__((vector_size(32), aligned(2), may_alias));

#define INLINE static inline __attribute__((always_inline))

INLINE v16 wide(const uint16_t *x) { return (v16)(__builtin_convertvector(*(h16 *)x, w16) << 16); }

INLINE void narrow(v16 x, uint16_t *to) {  // to the nearest, and to the even one of two
    w16 bits = (w16)x;
    *(h16 *)to = __builtin_convertvector((bits + 0x7fff + ((bits >> 16) & 1)) >> 16, h16);
}

// The window of one pixel of the result: rows top..2 and columns left..2 of it are inside the image.
INLINE void window(const uint16_t *corner, int W, int C, const int top, const int left, uint16_t *out,
                   uint16_t *won) {
    v16 most = wide(corner + (top * W + left) * C);
    i16 best = (i16){0} + (3 * top + left);
#pragma GCC unroll 3
    for (int ky = top; ky < 3; ky++)
#pragma GCC unroll 3
        for (int kx = left; kx < 3; kx++) {
            v16 v = wide(corner + (ky * W + kx) * C);
            i16 more = (v > most) | (v != v);
            best = (best & ~more) | (more & (3 * ky + kx));
            most = (v16)(((i16)most & ~more) | ((i16)v & more));
        }
    *(h16 *)out = __builtin_convertvector((w16)most >> 16, h16);
    if (won) *(h16 *)won = __builtin_convertvector((w16)best, h16);
}

// One image [2 h, 2 w, C] -> out [h, w, C], and which of its nine won.
INLINE void pool_one(const uint16_t *in, int h, int w, int C, uint16_t *out, uint16_t *won) {
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            for (int c = 0; c < C; c += 16, out += 16, won += won ? 16 : 0) {
                const uint16_t *corner = in + ((2 * y - 1) * 2 * w + 2 * x - 1) * C + c;
                if (y && x) window(corner, 2 * w, C, 0, 0, out, won);
                else window(corner, 2 * w, C, !y, !x, out, won);
            }
}

// What the pixel at `place` of a window gets of the window's gradient.
INLINE v16 share(const uint16_t *grad, const uint16_t *won, uint16_t place) {
    h16 got = *(h16 *)grad & (h16)(*(h16 *)won == place);
    return wide((uint16_t *)&got);
}

// The gradient by the four pixels from the middle of a window on; right and below: is there a window beside
// it, in which some of these pixels are, too?
INLINE void quad(const uint16_t *grad, const uint16_t *won, int w, int C, const int right,
                 const int below, uint16_t *out) {
#define OF(window, place) share(grad + (window), won + (window), place)
    v16 beside = OF(0, 5), under = OF(0, 7), across = OF(0, 8);
    if (right) beside += OF(C, 3), across += OF(C, 6);
    if (below) under += OF(w * C, 1), across += OF(w * C, 2);
    if (right && below) across += OF(w * C + C, 0);
    narrow(OF(0, 4), out), narrow(beside, out + C);
    narrow(under, out + 2 * w * C), narrow(across, out + 2 * w * C + C);
}

INLINE void back_one(const uint16_t *grad, const uint16_t *won, int h, int w, int C, uint16_t *out) {
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            for (int c = 0; c < C; c += 16, grad += 16, won += 16) {
                uint16_t *to = out + (2 * y * 2 * w + 2 * x) * C + c;
                if (x + 1 < w && y + 1 < h) quad(grad, won, w, C, 1, 1, to);
                else quad(grad, won, w, C, x + 1 < w, y + 1 < h, to);
            }
}

void pool(int threads, int size, const uint16_t *in, int h, int w, int C, uint16_t *out, uint16_t *won) {
    long of_out = (long)h * w * C;
#pragma omp parallel for num_threads(threads)
    for (int i = 0; i < size; i++)
        if (won) pool_one(in + 4 * i * of_out, h, w, C, out + i * of_out, won + i * of_out);
        else pool_one(in + 4 * i * of_out, h, w, C, out + i * of_out, NULL);
}

void back(int threads, int size, const uint16_t *grad, const uint16_t *won, int h, int w, int C,
          uint16_t *out) {
    long of_out = (long)h * w * C;
#pragma omp parallel for num_threads(threads)
    for (int i = 0; i < size; i++)
        back_one(grad + i * of_out, won + i * of_out, h, w, C, out + 4 * i * of_out);
}
