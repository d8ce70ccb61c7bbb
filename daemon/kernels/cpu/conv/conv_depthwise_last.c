/* Depthwise convolution of images that lie channels last, float32 and float64, one result a channel: each tap takes all
 * channels of a place at once, from weights that the first phase lays out tap by tap. A chunk is some rows of the
 * result. Taps add in the order of the planes' kernel, from the bias on. */
#include "daemon/kernels/cpu/conv/conv.h"
#include "daemon/kernels/cpu/convert.h"
#include "daemon/kernels/cpu/plan.h"

typedef struct last_state {
    td_conv c;
    int64_t per; /* rows of a chunk */
} last_state;
_Static_assert(sizeof(last_state) <= TD_KSTATE_BYTES, "last_state lives in a call's state");

#define DEFINE_LAST(T, s)                                                                                              \
    static TD_FOR_SETS(void, tap_##s, (int64_t n, const T *restrict x, const T *restrict w, T *restrict y),            \
                       (n, x, w, y))                                                                                   \
    {                                                                                                                  \
        for (int64_t i = 0; i < n; i++) y[i] += x[i] * w[i];                                                           \
    }                                                                                                                  \
    /* Tap t of all channels; behind the last one, the bias. */                                                        \
    static void lay_##s(td_kcall *k, const td_conv *c, int64_t t)                                                      \
    {                                                                                                                  \
        const int64_t *by = k->in[1].desc->stride;                                                                     \
        const T *w = (const T *)k->in[1].data + t / c->kw * by[2] + t % c->kw * by[3];                                 \
        const bool bias = t == c->kh * c->kw;                                                                          \
        T *to = (T *)k->work + t * c->c;                                                                               \
        int64_t done = 0;                                                                                              \
        for (int64_t i = 0; i < c->c && !td_kernel_rest_after(k, &done, 1); i++)                                       \
            to[i] = !bias ? w[i * by[0]] : td_absent(&k->in[2]) ? 0 : (T)td_karg_number(&k->in[2], i);                 \
    }                                                                                                                  \
    /* A place of the result: its taps inside the image. */                                                            \
    static void place_##s(const td_conv *c, const T *image, const T *w, int64_t iy, int64_t ix, T *out)                \
    {                                                                                                                  \
        memcpy(out, w + c->kh * c->kw * c->c, (size_t)c->c * sizeof *out);                                             \
        for (int64_t y = 0; y < c->kh; y++) {                                                                          \
            const int64_t row = iy + y * c->dh;                                                                        \
            if (row < 0 || row >= c->h) continue;                                                                      \
            for (int64_t x = 0; x < c->kw; x++) {                                                                      \
                const int64_t col = ix + x * c->dw;                                                                    \
                if (col < 0 || col >= c->w) continue;                                                                  \
                tap_##s(c->c, image + (row * c->w + col) * c->c, w + (y * c->kw + x) * c->c, out);                     \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    /* False: the call is over. */                                                                                     \
    static bool row_##s(td_kcall *k, int64_t *done, const td_conv *c, int64_t row)                                     \
    {                                                                                                                  \
        const T *image = (const T *)k->in[0].data + row / c->oh * c->h * c->w * c->c;                                  \
        T *out = (T *)k->out[0].data + row * c->ow * c->c;                                                             \
        for (int64_t ox = 0; ox < c->ow; ox++, out += c->c) {                                                          \
            place_##s(c, image, k->work, row % c->oh * c->sh - c->ph, ox * c->sw - c->pw, out);                        \
            if (td_kernel_rest_after(k, done, c->c * c->kh * c->kw)) return false;                                     \
        }                                                                                                              \
        return true;                                                                                                   \
    }
DEFINE_LAST(float, f)
DEFINE_LAST(double, d)

static void lay_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const last_state *s = (const last_state *)k->state;
    (void)scratch;
    if (s->c.dtype == TD_FLOAT64) lay_d(k, &s->c, chunk);
    else lay_f(k, &s->c, chunk);
}

static void rows_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const last_state *s = (const last_state *)k->state;
    int64_t b, e, done = 0;
    (void)scratch;
    td_cut_range(s->c.n * s->c.oh, s->per, chunk, &b, &e);
    while (b < e && (s->c.dtype == TD_FLOAT64 ? row_d(k, &done, &s->c, b) : row_f(k, &done, &s->c, b))) b++;
}

bool td_conv_plan_depthwise_last(td_kcall *k, const td_conv *c)
{
    last_state *s = (last_state *)k->state;
    bool takes = (c->dtype == TD_FLOAT32 || c->dtype == TD_FLOAT64) && c->cg == 1 && c->og == 1 && c->c > 1;
    if (!takes || c->kh * c->kw > TD_DEPTHWISE_LAST_TAPS || !td_desc_is_channels_last(k->in[0].desc) ||
        !td_desc_is_channels_last(k->out[0].desc))
        return false;
    *s = (last_state){.c = *c, .per = td_max64(1, TD_DEPTHWISE_CHUNK / (c->ow * c->c * c->kh * c->kw))};
    td_plan_work(k, (size_t)((c->kh * c->kw + 1) * c->c) * td_dtype_size(c->dtype));
    td_plan_phase(k, lay_chunk, c->kh * c->kw + 1);
    td_plan_phase(k, rows_chunk, td_cut(c->n * c->oh, s->per));
    k->cost_ns = (double)(c->n * c->p * c->c * c->kh * c->kw) * 0.1 + 200;
    td_plan_moves_freely(k, sizeof *s);
    return true;
}
