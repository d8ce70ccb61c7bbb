/* Large float32 convolutions through oneDNN: a chunk is an image or a few, or a part of the output channels when there
 * are few images. Images are reordered into the thread's own buffers, computed, and reordered back; weights are packed
 * once a call. The gradient of the weights is a partial sum for each tile of images, added in order of the tiles. */
#include "daemon/kernels/cpu/conv/conv.h"
#include "daemon/kernels/cpu/conv/dnnl_conv.h"
#include "daemon/kernels/cpu/plan.h"
#include <math.h>

typedef struct dnnl_state {
    td_conv c;                  /* first: the sum of weight gradients looks for it here */
    td_dnnl_key image, weights; /* forward or data of one image; weight gradient of one tile */
    int64_t parts, images;      /* parts of the output channels; images of a chunk */
    size_t packed_bytes;        /* the packed weights, of one part */
} dnnl_state;
_Static_assert(sizeof(dnnl_state) <= TD_KSTATE_BYTES, "dnnl_state lives in a call's state");

static int64_t image_macs_m(const td_conv *c)
{
    return (int64_t)((double)c->o * (double)c->k * (double)c->p / 1e6);
}

/* Of an image, whose batch stride is free: 0 row by row, channels last from place to place so many, or -1, neither. */
static int image_layout(const td_desc *d)
{
    int64_t c = d->shape[1], h = d->shape[2], w = d->shape[3];
    const int64_t *s = d->stride;
    bool rows = (w == 1 || s[3] == 1) && (h == 1 || s[2] == w) && (c == 1 || s[1] == h * w);
    bool last = (c == 1 || s[1] == 1) && (w == 1 || s[3] == c) && (h == 1 || s[2] == w * c);
    return rows ? 0 : last ? c : -1;
}

static bool is_last(const td_desc *d)
{
    return d->shape[1] > 1 && image_layout(d) > 0;
}

/* Where channels lie last little is reordered but the weights: less work is worth it, and what has one channel a group,
 * or one place, too; if the image is large those have ways that cut it. */
static bool is_worth(const td_conv *c, const td_desc *y)
{
    bool other = c->kh * c->kw == 1 || (c->cg == 1 && c->og == 1);
    if (!c->backward && is_last(y))
        return (double)c->o * (double)c->k * (double)c->p >= TD_CONV_DNNL_LAST &&
               (!other || image_macs_m(c) < TD_CONV_DNNL_LAST_MOST);
    return c->k >= TD_CONV_DNNL_K && c->cg >= TD_CONV_DNNL_CHANNELS && image_macs_m(c) >= TD_CONV_DNNL_IMAGE;
}

static bool fits(const td_conv *c, const td_desc *x, const td_desc *w, const td_desc *y)
{
    return c->dtype == TD_FLOAT32 && c->p > 0 && c->n > 0 && image_layout(x) >= 0 && image_layout(y) >= 0 &&
           is_worth(c, y) && (td_desc_is_contiguous(w) || td_desc_is_channels_last(w));
}

static td_dnnl_key key_of(const td_conv *c, int kind, const td_desc *x, const td_desc *y)
{
    return (td_dnnl_key){.kind = kind,
                         .n = 1,
                         .c = c->c,
                         .h = c->h,
                         .w = c->w,
                         .o = c->o,
                         .kh = c->kh,
                         .kw = c->kw,
                         .oh = c->oh,
                         .ow = c->ow,
                         .sh = c->sh,
                         .sw = c->sw,
                         .ph = c->ph,
                         .pw = c->pw,
                         .dh = c->dh,
                         .dw = c->dw,
                         .g = c->g,
                         .x_last = x ? image_layout(x) : 0,
                         .y_last = y ? image_layout(y) : 0};
}

/* Scratch: a buffer for each operand that is reordered, then what the primitives want. */
static void want_scratch(td_kcall *k, const td_dnnl_conv *d, bool weights_too)
{
    size_t bytes = d->packed_bytes[TD_DNNL_X] + d->packed_bytes[TD_DNNL_Y] + d->pad_bytes;
    if (weights_too) bytes += d->packed_bytes[TD_DNNL_W];
    if (bytes > k->scratch_bytes) k->scratch_bytes = bytes;
}

static void broken(td_kcall *k)
{
    td_kernel_fail(k, TD_E_INTERNAL, "conv2d: oneDNN refused to run a convolution it had accepted");
}

/* ---- weights, packed once ---- */

static int weights_in(const td_conv *c)
{
    return c->backward ? 2 : 1;
}

static void *packed_weights(const td_kcall *k, const dnnl_state *s, const td_dnnl_conv *d, int64_t part)
{
    const td_conv *c = &s->c;
    if (d->packed_bytes[TD_DNNL_W]) return (char *)td_prepack_at(k) + (size_t)part * s->packed_bytes;
    return (char *)k->in[weights_in(c)].data + part * (c->o / s->parts) * c->k * 4;
}

static void weights_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const dnnl_state *s = (const dnnl_state *)k->state;
    const td_conv *c = &s->c;
    const td_dnnl_conv *d = td_dnnl_conv_get(&s->image);
    const char *w = (const char *)k->in[weights_in(c)].data + chunk * (c->o / s->parts) * c->k * 4;
    if (!d || !td_dnnl_conv_reorder(d, TD_DNNL_W, w, packed_weights(k, s, d, chunk), scratch)) broken(k);
    else td_prepack_made(k);
    td_dnnl_conv_put(d);
}

/* ---- forward and data gradient: one image a time ---- */

static bool run_image(td_kcall *k, const dnnl_state *s, const td_dnnl_conv *d, int64_t n, int64_t part, char *scratch)
{
    const td_conv *c = &s->c;
    const td_karg *x = c->backward ? &k->out[0] : &k->in[0], *y = c->backward ? &k->in[0] : &k->out[0];
    int64_t o0 = part * (c->o / s->parts);
    char *xp = (char *)x->data + n * x->desc->stride[0] * 4;
    char *yp = (char *)y->data + (n * y->desc->stride[0] + o0 * y->desc->stride[1]) * 4;
    char *xb = d->packed_bytes[TD_DNNL_X] ? scratch : xp, *yb = yp, *pad;
    pad = scratch + d->packed_bytes[TD_DNNL_X];
    if (d->packed_bytes[TD_DNNL_Y]) yb = pad;
    pad += d->packed_bytes[TD_DNNL_Y];
    void *operand[] = {xb, packed_weights(k, s, d, part), yb};
    const void *bias = s->image.bias ? (const char *)k->in[2].data + o0 * 4 : NULL;
    bool forward = !c->backward;
    if (forward && xb != xp && !td_dnnl_conv_reorder(d, TD_DNNL_X, xp, xb, pad)) return false;
    if (!forward && yb != yp && !td_dnnl_conv_reorder(d, TD_DNNL_Y, yp, yb, pad)) return false;
    if (!td_dnnl_conv_run(d, operand, bias, pad)) return false;
    if (forward && yb != yp) return td_dnnl_conv_reorder(d, TD_DNNL_Y, yp, yb, pad);
    if (!forward && xb != xp) return td_dnnl_conv_reorder(d, TD_DNNL_X, xp, xb, pad);
    return true;
}

static void image_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const dnnl_state *s = (const dnnl_state *)k->state;
    int64_t b, e;
    if (atomic_load(&k->failed)) return;
    const td_dnnl_conv *d = td_dnnl_conv_get(&s->image);
    td_cut_range(s->c.n, s->images, chunk / s->parts, &b, &e);
    for (; d && b < e; b++)
        if (!run_image(k, s, d, b, chunk % s->parts, scratch)) break;
    if (!d || b < e) broken(k);
    td_dnnl_conv_put(d);
}

/* Of one image some channels, or all of a few. */
static void wrote(const td_kcall *k, int64_t chunk, td_kpart *part)
{
    const dnnl_state *s = (const dnnl_state *)k->state;
    const td_conv *c = &s->c;
    int64_t b, e, own = c->o / s->parts, o0 = chunk % s->parts * own;
    td_cut_range(c->n, s->images, chunk / s->parts, &b, &e);
    *part = (td_kpart){.at = b * c->o * c->p, .runs = 1, .length = (e - b) * c->o * c->p};
    if (s->parts == 1) return;
    bool last = is_last(k->out[0].desc);
    *part = last ? (td_kpart){.at = part->at + o0, .runs = c->p, .length = own, .step = c->o}
                 : (td_kpart){.at = part->at + o0 * c->p, .runs = 1, .length = own * c->p};
}

/* oneDNN chooses the layout by the whole shape. */
static int weights_key(const td_kcall *k, int64_t key[TD_KPACK_KEY])
{
    const dnnl_state *s = (const dnnl_state *)k->state;
    _Static_assert(sizeof s->image / sizeof *key < TD_KPACK_KEY, "a key holds all of a primitive's");
    memcpy(key, &s->image, sizeof s->image);
    key[sizeof s->image / sizeof *key] = s->parts;
    return sizeof s->image / sizeof *key + 1;
}

static void plan_images(td_kcall *k, dnnl_state *s, const td_dnnl_conv *d)
{
    s->images = td_max64(1, td_min64(TD_CONV_DNNL_CHUNK / td_max64(1, image_macs_m(&s->c)), s->c.n));
    s->packed_bytes = d->packed_bytes[TD_DNNL_W];
    if (s->packed_bytes) {
        size_t bytes = s->packed_bytes * (size_t)s->parts;
        k->packing = (td_packing){
            .in = (uint8_t)(1 + weights_in(&s->c)), .bytes = bytes, .at = td_plan_work(k, bytes), .key = weights_key};
        td_plan_phase(k, weights_chunk, s->parts);
    }
    td_plan_phase(k, image_chunk, td_cut(s->c.n, s->images) * s->parts);
    want_scratch(k, d, false);
}

static double cost(const td_conv *c)
{
    return (double)c->n * (double)c->o * (double)c->k * (double)c->p / 55;
}

bool td_conv_plan_dnnl(td_kcall *k, const td_conv *c)
{
    dnnl_state *s = (dnnl_state *)k->state;
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc;
    bool bias = !td_absent(&k->in[2]);
    if (!fits(c, x, k->in[1].desc, y) || (bias && k->in[2].desc->stride[0] != 1 && c->o > 1)) return false;
    *s = (dnnl_state){.c = *c, .image = key_of(c, TD_DNNL_FORWARD, x, y), .parts = 1};
    s->image.bias = bias;
    s->image.w_last = td_desc_is_channels_last(k->in[1].desc);
    while (c->n * s->parts < TD_CONV_DNNL_FEW && c->g == 1 && c->o % (TD_CONV_DNNL_PART_CHANNELS * s->parts) == 0 &&
           image_macs_m(c) / s->parts >= TD_CONV_DNNL_PART)
        s->parts *= 2;
    s->image.o = c->o / s->parts;
    const td_dnnl_conv *d = td_dnnl_conv_get(&s->image);
    if (!d) return false;
    plan_images(k, s, d);
    td_dnnl_conv_put(d);
    k->cost_ns = cost(c);
    bool dense = td_desc_is_contiguous(y) || td_desc_is_channels_last(y);
    if (dense && (s->parts == 1 || s->images == 1)) k->wrote = wrote;
    td_plan_moves_freely(k, sizeof *s);
    return true;
}

/* ---- weight gradient: a tile of images a time ---- */

static void tile_chunk(td_kcall *k, int64_t chunk, void *scratch_in)
{
    const dnnl_state *s = (const dnnl_state *)k->state;
    const td_conv *c = &s->c;
    td_dnnl_key key = s->weights;
    int64_t b, e;
    char *scratch = scratch_in;
    td_cut_range(c->n, c->per, chunk, &b, &e);
    key.n = e - b; /* the last tile may be smaller */
    if (atomic_load(&k->failed)) return;
    const td_dnnl_conv *d = td_dnnl_conv_get(&key);
    if (!d) {
        broken(k);
        return;
    }
    char *x = (char *)k->in[1].data + b * k->in[1].desc->stride[0] * 4;
    char *y = (char *)k->in[0].data + b * k->in[0].desc->stride[0] * 4;
    char *to = (char *)k->work + c->partial_at + (size_t)(chunk * c->o * c->k) * 4, *buf[TD_DNNL_OPERANDS];
    for (int i = 0; i < TD_DNNL_OPERANDS; i++) {
        buf[i] = scratch;
        scratch += d->packed_bytes[i];
    }
    void *operand[] = {d->packed_bytes[TD_DNNL_X] ? buf[TD_DNNL_X] : x,
                       d->packed_bytes[TD_DNNL_W] ? buf[TD_DNNL_W] : to,
                       d->packed_bytes[TD_DNNL_Y] ? buf[TD_DNNL_Y] : y};
    bool ok = operand[TD_DNNL_X] == x || td_dnnl_conv_reorder(d, TD_DNNL_X, x, buf[TD_DNNL_X], scratch);
    ok = ok && (operand[TD_DNNL_Y] == y || td_dnnl_conv_reorder(d, TD_DNNL_Y, y, buf[TD_DNNL_Y], scratch));
    ok = ok && td_dnnl_conv_run(d, operand, NULL, scratch);
    ok = ok && (operand[TD_DNNL_W] == to || td_dnnl_conv_reorder(d, TD_DNNL_W, to, buf[TD_DNNL_W], scratch));
    if (!ok) broken(k);
    td_dnnl_conv_put(d);
}

/* At most 32 partial sums of together 64 MB, and a few ms of work in a tile. Each thread has memory for the images of
 * one, which are to stay in its processor's own cache, unless the sums are so large that fewer of them take less. */
static void cut_tiles(td_conv *c)
{
    int64_t image = td_max64(1, c->c * c->h * c->w + c->o * c->p);
    int64_t least =
        (int64_t)sqrt((double)c->n * (double)c->o * (double)c->k / (2 * (double)image)); /* of two threads */
    int64_t images =
        td_min64(td_max64(TD_CONV_DNNL_TILE_ROOM / image, least), TD_CONV_DNNL_TILE / td_max64(1, image_macs_m(c)));
    int64_t most = td_max64(1, td_min64(TD_CONV_DNNL_TILES, TD_CONV_DNNL_TILE_BYTES / td_max64(1, c->o * c->k * 4)));
    c->per = td_max64(td_cut(c->n, most), td_min64(c->n, images));
    c->per = td_max64(1, c->per);
    c->tiles = td_cut(c->n, c->per);
}

/* Both of a batch whose stride is plain: a tile is described as one block. */
static bool batch_follows(const td_desc *d)
{
    return d->shape[0] == 1 || d->stride[0] == d->shape[1] * d->shape[2] * d->shape[3];
}

bool td_conv_plan_dnnl_backward(td_kcall *k, const td_conv *c)
{
    dnnl_state *s = (dnnl_state *)k->state;
    const td_desc *g = k->in[0].desc, *x = k->in[1].desc;
    const td_dnnl_conv *data = NULL, *tile = NULL, *rest = NULL;
    if (!(c->mask & 3) || !fits(c, x, k->in[2].desc, g) || !batch_follows(x) || !batch_follows(g)) return false;
    if (c->mask & 1 && image_layout(k->out[0].desc) < 0) return false;
    *s = (dnnl_state){.c = *c,
                      .parts = 1,
                      .image = key_of(c, TD_DNNL_DATA, c->mask & 1 ? k->out[0].desc : NULL, g),
                      .weights = key_of(c, TD_DNNL_WEIGHTS, x, g)};
    s->image.w_last = td_desc_is_channels_last(k->in[2].desc);
    cut_tiles(&s->c);
    s->weights.n = s->c.per;
    td_dnnl_key last = s->weights;
    last.n = c->n - (s->c.tiles - 1) * s->c.per;
    if (c->mask & 1) data = td_dnnl_conv_get(&s->image);
    if (c->mask & 2) tile = td_dnnl_conv_get(&s->weights);
    if (c->mask & 2) rest = td_dnnl_conv_get(&last);
    bool ok = (!(c->mask & 1) || data) && (!(c->mask & 2) || (tile && rest));
    if (ok && data) plan_images(k, s, data);
    if (ok && tile) {
        s->c.partial_at = td_plan_work(k, (size_t)(s->c.tiles * c->o * c->k) * 4);
        td_plan_phase(k, tile_chunk, s->c.tiles);
        want_scratch(k, tile, true);
        want_scratch(k, rest, true);
        td_conv_plan_weight_sum(k, c);
    }
    td_dnnl_conv_put(data), td_dnnl_conv_put(tile), td_dnnl_conv_put(rest);
    if (!ok) return false;
    k->cost_ns = cost(c) * ((c->mask & 1) + (c->mask >> 1 & 1));
    if (c->mask & 4) td_conv_plan_bias_gradient(k);
    return true;
}
