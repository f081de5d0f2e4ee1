// IMPALA's convolutions in bfloat16, for frames of SIDE x SIDE x 3 and processors that add dot products of
// bfloat16 pairs to fp32 sums (AVX512_BF16). The plan is that of impala.c: one image at a time through
// every layer and back, in the core's cache. `native.py` compiles it with the same STRIDE, MIDDLE, BLOCKS;
// SIDE is a multiple of 32 * STRIDE.
//
// What enters a convolution is bfloat16: pixels (0 to 255, exact; the first weights carry the 1/255),
// rectified activations, gradients. Sums, biases, the skip path and all gradients of weights are fp32.
// The layers themselves are in layers_bf16.h.
#include "layers_bf16.h"

static void border(bf *a, int W, int c, bf value) {
    for (int i = 0; i < W + 2; i++)
        for (int k = 0; k < c; k++)
            a[AT(0, i, W, c) + k] = a[AT(W + 1, i, W, c) + k] = a[AT(i, 0, W, c) + k] =
                a[AT(i, W + 1, W, c) + k] = value;
}

// Kept per image for the way back, in bfloat16: of each stage a and h of every block, and what the next
// stage reads; then, as bytes, the winners of the poolings.
#define MAPS (2 * BLOCKS + 1)
#define NUMBERS (MAPS * (PAD(TOP / 2, 16) + PAD(TOP / 4, MIDDLE) + PAD(TOP / 8, 32)))
#define WINS(w, c) (((w) + 1) * ((w) + 1) * (c))
#define KEPT (NUMBERS + (WINS(TOP / 2, 16) + WINS(TOP / 4, MIDDLE) + WINS(TOP / 8, 32)) / 2)
#define WEIGHTS(c, co) ((c) == 3 ? 3 * TAPS * 16 : 9 * (c) * (co))
#define PARAMS(c, co) (9 * (c) * (co) + (co))
#define BIASES ((1 + 2 * BLOCKS) * (16 + MIDDLE + 32))
#define BLOCK(c) (2 * BLOCKS * 9 * (c) * (c))
#define ALL (WEIGHTS(3, 16) + BLOCK(16) + WEIGHTS(16, MIDDLE) + BLOCK(MIDDLE) + WEIGHTS(MIDDLE, 32) + BLOCK(32))

int kept(void) { return KEPT; }

typedef struct {
    bf *image, *taps, *keys[STAGES], *plain[STAGES], *pairs[STAGES], *wide, *wide_pairs, *even, *odd, *own;
    float *sum[STAGES];
} Room;

static void *space(long bytes) { return aligned_alloc(64, (bytes + 127) / 64 * 64); }
static void *zeroed(long bytes) { return memset(space(bytes), 0, bytes); }  // whose border stays as it is

static Room room(int keep) {
    int most = PAD(TOP, 16) > PAD(TOP / 2, 32) ? PAD(TOP, 16) : PAD(TOP / 2, 32);
    Room r = {zeroed(2 * ((SIDE + 2) * LINE + SLACK))};
    for (int s = 0; s < STAGES; s++) {
        r.keys[s] = space(2 * PAD(2 * SIZE[s], CO[s]));
        border(r.keys[s], 2 * SIZE[s], CO[s], 0x8000);
        r.sum[s] = space(4 * WINS(SIZE[s], CO[s]));
        r.plain[s] = zeroed(2 * PAD(SIZE[s], CO[s]));
        r.pairs[s] = space(2 * PAD(SIZE[s], CO[s]));
    }
    if (keep) {
        r.taps = space(2 * (SIDE + 2) * TOP * TAPS), r.wide_pairs = space(2 * most);
        r.even = space(2 * most), r.odd = space(2 * most);
        r.wide = space(2 * most);
    } else {
        r.own = zeroed(2 * KEPT);
    }
    return r;
}

static void leave(Room r) {
    for (int s = 0; s < STAGES; s++) free(r.keys[s]), free(r.sum[s]), free(r.plain[s]), free(r.pairs[s]);
    free(r.image), free(r.taps), free(r.wide), free(r.wide_pairs), free(r.even), free(r.odd), free(r.own);
}

static void read_frame(Room r, const uint8_t *frame) {
    for (int y = 0; y < SIDE; y++)
        for (int i = 0; i < SIDE * 3; i += 16) {
            __m128i bytes = _mm_loadu_si128((const void *)(frame + y * SIDE * 3 + i));
            __m512 v = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes));
            __m256i half = _mm512_cvtepi32_epi16(_mm512_srli_epi32((__m512i)v, 16));
            _mm256_storeu_si256((void *)(r.image + (y + 1) * LINE + 3 + i), half);
        }
}

// Image i of frames [n,SIDE,SIDE,3] -> out [n,END,END,32], rectified. params: the biases of all layers in fp32, then
// the weights as in conv_tile. keep: [n, KEPT], or null when no gradient follows.
static void forward_one(Room r, long i, const uint8_t *frames, const float *params, bf *keep, float *out) {
    const float *bias = params;
    const bf *w = (const bf *)(params + BIASES), *x = r.image;
    bf *k = keep ? keep + i * KEPT : r.own;
    uint8_t *won = keep ? (uint8_t *)(k + NUMBERS) : NULL;
    read_frame(r, frames + i * FRAME);
    for (int s = 0; s < STAGES; s++) {
        int c = CO[s], W = SIZE[s], size = PAD(W, c), step = 9 * c * c;
        bf *next = k + 2 * BLOCKS * size;  // what the next stage reads
        if (keep)
            for (int m = 0; m < MAPS; m++) border(k + m * size, W, c, 0);
        conv(x, CI[s], 2 * W, w, c, (Then){bias, .keys = r.keys[s]});
        w += WEIGHTS(CI[s], c), bias += c;
        pool(r.keys[s], W, c, r.sum[s], k, won);
        if (won) {
            for (int j = 0; j <= W; j++)
                memset(won + SUM(j, W, W, c), 255, c), memset(won + SUM(W, j, W, c), 255, c);
            won += WINS(W, c);
        }
        for (int b = 0; b < BLOCKS; b++, w += 2 * step, bias += 2 * c) {
            bf *a = k + 2 * b * size, *h = a + size, *y = a + 2 * size;  // y: the next block's a, or `next`
            conv(a, c, W, w, c, (Then){bias, .relu = 1, .plain = h});
            conv(h, c, W, w + step, c, (Then){bias + c, .add = r.sum[s], .sum = r.sum[s], .plain = y,
                                              .relu = b < BLOCKS - 1});
        }
        x = next;
        k += MAPS * size;
    }
    for (int y = 0; y < END; y++)
        for (int j = 0; j < END * 32; j++) {
            float v = r.sum[2][SUM(y, 0, END, 32) + j];
            out[i * RESULT + y * END * 32 + j] = v > 0 ? v : 0;
        }
}

// One image at a time, shared among threads, so that none waits long for another at the end.
void forward(int threads, int size, const uint8_t *frames, const float *params, bf *keep, float *out) {
#pragma omp parallel num_threads(threads)
    {
        Room r = room(keep != NULL);
#pragma omp for schedule(dynamic)
        for (int i = 0; i < size; i++) forward_one(r, i, frames, params, keep, out);
        leave(r);
    }
}

// The gradient at the end of an image: zero where the result was; kept as a sum, plain and as pairs.
static void begin_back(Room r, const float *out, const float *grad) {
    for (int y = 0; y < END; y++)
        for (int x = 0; x < END; x += 2)
            for (int b = 0; b < 32; b += 16) {
                __m512 v[2];
                for (int i = 0; i < 2; i++) {
                    long at = (y * END + x + i) * 32 + b;
                    __mmask16 alive =
                        _mm512_cmp_ps_mask(_mm512_loadu_ps(out + at), _mm512_setzero_ps(), _CMP_GT_OQ);
                    v[i] = _mm512_maskz_loadu_ps(alive, grad + at);
                }
                Then t = {.sum = r.sum[2], .plain = r.plain[2], .pairs = r.pairs[2]};
                finish_two(v[0], v[1], y, x, END, 32, b, &t);
            }
}

// Adds the gradient of images begin..end to dparams [total]: per layer [ky][kx][ci][co], then bias.
// turned: weights of the transposed convolutions, laid out like params.
static void backward_some(Room r, long begin, long end, const uint8_t *frames, const float *turned,
                          const bf *keep, const float *out, const float *grad, float *dparams, int total) {
    for (long i = begin; i < end; i++) {
        const bf *k = keep + i * KEPT + NUMBERS, *w = (const bf *)(turned + BIASES) + ALL;
        const uint8_t *won = (const uint8_t *)(keep + (i + 1) * KEPT);
        float *d = dparams + total;
        read_frame(r, frames + i * FRAME);
        pair_up_frame(r.image, r.taps);
        begin_back(r, out + i * RESULT, grad + i * RESULT);
        for (int s = STAGES - 1; s >= 0; s--) {
            int c = CO[s], W = SIZE[s], size = PAD(W, c), step = PARAMS(c, c);
            bf *g = r.plain[s], *pairs = r.pairs[s], *inner = r.wide, *inner_pairs = r.wide_pairs;
            k -= MAPS * size;
            won -= WINS(W, c);
            border(inner, W, c, 0);
            for (int b = BLOCKS - 1; b >= 0; b--) {
                const bf *a = k + 2 * b * size, *h = a + size;
                w -= 2 * 9 * c * c, d -= 2 * step;
                pair_up(h, W, c, r.even, r.odd);
                conv_grad(r.even, r.odd, c, W, pairs, c, d + step);
                conv(g, c, W, w + 9 * c * c, c, (Then){.mask = h, .plain = inner, .pairs = inner_pairs});
                pair_up(a, W, c, r.even, r.odd);
                conv_grad(r.even, r.odd, c, W, inner_pairs, c, d);
                conv(inner, c, W, w, c, (Then){.mask = a, .add = r.sum[s], .sum = r.sum[s],
                                               .plain = b ? g : NULL, .pairs = b ? pairs : NULL});
            }
            w -= WEIGHTS(CI[s], c), d -= PARAMS(CI[s], c);
            unpool(r.sum[s], won, W, c, s ? r.wide : NULL, r.wide_pairs);
            if (!s) {
                frame_grad(r.taps, r.wide_pairs, d);
                continue;
            }
            border(r.wide, 2 * W, c, 0);
            const bf *before = k - PAD(SIZE[s - 1], CI[s]);  // what this stage has read
            pair_up(before, 2 * W, CI[s], r.even, r.odd);
            conv_grad(r.even, r.odd, CI[s], 2 * W, r.wide_pairs, c, d);
            conv(r.wide, c, 2 * W, w, CI[s],
                 (Then){.sum = r.sum[s - 1], .plain = r.plain[s - 1], .pairs = r.pairs[s - 1]});
        }
    }
    for (int i = 0; i < 27 * 16; i++) dparams[i] *= 1 / 255.f;  // as the first weights, whose gradient it is
}

// dparams: [parts, total], one row per part, so that their sum does not depend on the threads.
void backward(int threads, int parts, int size, const uint8_t *frames, const float *turned,
              const bf *keep, const float *out, const float *grad, float *dparams, int total) {
#pragma omp parallel num_threads(threads)
    {
        Room r = room(1);
#pragma omp for schedule(dynamic)
        for (int p = 0; p < parts; p++)
            backward_some(r, (long)size * p / parts, (long)size * (p + 1) / parts, frames, turned, keep,
                          out, grad, dparams + (long)p * total, total);
        leave(r);
    }
}
