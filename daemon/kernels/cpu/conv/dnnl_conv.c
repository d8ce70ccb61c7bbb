/* Making, keeping and running oneDNN's convolutions: see dnnl_conv.h. Invariant: the cache holds at most
 * TD_CONV_DNNL_KEPT entries that nobody references; everything in it is guarded by `lock`. */
#include "daemon/kernels/cpu/conv/dnnl_conv.h"
#include "daemon/kernels/kernel.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cache {
    td_dnnl_conv **entry;
    int count, room;
    uint64_t clock;
} cache;

static int output_of(int64_t kind)
{
    return kind == TD_DNNL_FORWARD ? TD_DNNL_Y : kind == TD_DNNL_DATA ? TD_DNNL_X : TD_DNNL_W;
}

/* ---- sets ---- */

enum { MOST_ARGUMENTS = TD_DNNL_OPERANDS + 2, PRIMITIVES = 1 + TD_DNNL_OPERANDS /* the convolution; reorders */ };

struct td_dnnl_set {
    dnnl_stream_t stream;
    int n[PRIMITIVES];
    dnnl_exec_arg_t arg[PRIMITIVES][MOST_ARGUMENTS];
};

static bool add_argument(const td_dnnl_api *api, td_dnnl_set *s, int primitive, int number, td_dnnl_const_md md)
{
    dnnl_exec_arg_t *a = &s->arg[primitive][s->n[primitive]];
    a->arg = number;
    if (api->dnnl_memory_create(&a->memory, md, api->engine, DNNL_MEMORY_NONE) != dnnl_success) return false;
    s->n[primitive]++;
    return true;
}

/* In the order in which td_dnnl_conv_run has them. */
static bool add_arguments_of_op(const td_dnnl_api *api, td_dnnl_set *s, const td_dnnl_conv *d)
{
    static const int plain[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    static const int diff[] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST};
    bool is_diff[] = {d->key.kind == TD_DNNL_DATA, d->key.kind == TD_DNNL_WEIGHTS, d->key.kind != TD_DNNL_FORWARD};
    for (int i = 0; i < TD_DNNL_OPERANDS; i++)
        if (!add_argument(api, s, 0, is_diff[i] ? diff[i] : plain[i], d->wanted[i])) return false;
    return add_argument(api, s, 0, DNNL_ARG_SCRATCHPAD, d->pad[0]) &&
           (!d->key.bias || add_argument(api, s, 0, DNNL_ARG_BIAS, d->bias));
}

/* Plain, packed, scratch: as td_dnnl_conv_reorder has them. */
static bool add_arguments_of_reorder(const td_dnnl_api *api, td_dnnl_set *s, const td_dnnl_conv *d, int i)
{
    bool out = output_of(d->key.kind) == i;
    return !d->reorder[i] || (add_argument(api, s, 1 + i, out ? DNNL_ARG_TO : DNNL_ARG_FROM, d->plain[i]) &&
                              add_argument(api, s, 1 + i, out ? DNNL_ARG_FROM : DNNL_ARG_TO, d->wanted[i]) &&
                              add_argument(api, s, 1 + i, DNNL_ARG_SCRATCHPAD, d->pad[1 + i]));
}

static void free_set(const td_dnnl_api *api, td_dnnl_set *s)
{
    if (!s) return;
    for (int k = 0; k < PRIMITIVES; k++)
        for (int i = 0; i < s->n[k]; i++) api->dnnl_memory_destroy(s->arg[k][i].memory);
    if (s->stream) api->dnnl_stream_destroy(s->stream);
    free(s);
}

static td_dnnl_set *new_set(const td_dnnl_api *api, const td_dnnl_conv *d)
{
    td_dnnl_set *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    bool ok = api->dnnl_stream_create(&s->stream, api->engine, dnnl_stream_default_flags) == dnnl_success &&
              add_arguments_of_op(api, s, d);
    for (int i = 0; ok && i < TD_DNNL_OPERANDS; i++) ok = add_arguments_of_reorder(api, s, d, i);
    if (ok) return s;
    free_set(api, s);
    return NULL;
}

/* One that is idle, or a new one; NULL: there is no memory. Making takes some 5 us, and small convolutions as much. */
static td_dnnl_set *take_set(const td_dnnl_api *api, td_dnnl_conv *d)
{
    for (int i = 0; i < TD_DNNL_SETS; i++) {
        if (!atomic_load_explicit(&d->idle[i], memory_order_relaxed)) continue;
        td_dnnl_set *s = atomic_exchange(&d->idle[i], NULL);
        if (s) return s;
    }
    return new_set(api, d);
}

static void leave_set(const td_dnnl_api *api, td_dnnl_conv *d, td_dnnl_set *s)
{
    for (int i = 0; i < TD_DNNL_SETS; i++) {
        td_dnnl_set *none = NULL;
        if (atomic_compare_exchange_strong(&d->idle[i], &none, s)) return;
    }
    free_set(api, s);
}

/* Primitive 0 is the convolution, 1 + i the reorder of operand i; `data` in the order of the set's arguments. */
static bool execute(const td_dnnl_conv *entry, int primitive, const void *const data[])
{
    td_dnnl_conv *d = (td_dnnl_conv *)entry;
    const td_dnnl_api *api = td_dnnl(NULL);
    td_dnnl_set *s = api ? take_set(api, d) : NULL;
    if (!s) return false;
    dnnl_exec_arg_t *arg = s->arg[primitive];
    bool ok = true;
    for (int i = 0; ok && i < s->n[primitive]; i++)
        ok = api->dnnl_memory_set_data_handle(arg[i].memory, (void *)data[i]) == dnnl_success;
    ok = ok &&
         api->dnnl_primitive_execute(primitive ? d->reorder[primitive - 1] : d->op, s->stream, s->n[primitive], arg) ==
             dnnl_success &&
         api->dnnl_stream_wait(s->stream) == dnnl_success;
    leave_set(api, d, s);
    return ok;
}

/* ---- making ---- */

/* An image as it lies in a tensor, of which it may be some channels. */
static td_dnnl_md image_md(const td_dnnl_api *api, const dnnl_dims_t d, int64_t last)
{
    const dnnl_dims_t rows = {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1},
                      places = {d[2] * d[3] * last, 1, d[3] * last, last};
    return td_dnnl_md_strided(api, 4, d, last ? places : rows);
}

static td_dnnl_md weights_md(const td_dnnl_api *api, const td_dnnl_key *k, int ndims, const dnnl_dims_t d)
{
    if (!k->w_last) return td_dnnl_md_new(api, ndims, d, k->g > 1 ? dnnl_goihw : dnnl_oihw);
    const int64_t c = k->c / k->g, each = c * k->kh * k->kw;
    const dnnl_dims_t of_groups = {k->o / k->g * each, each, 1, k->kw * c, c}, plain = {each, 1, k->kw * c, c};
    return td_dnnl_md_strided(api, ndims, d, k->g > 1 ? of_groups : plain);
}

/* `any`: what the primitive is asked for. `as_is`: images are taken as they lie. */
static bool describe(const td_dnnl_api *api, const td_dnnl_key *k, bool as_is, td_dnnl_conv *d, td_dnnl_md any[])
{
    dnnl_dims_t x = {k->n, k->c, k->h, k->w}, y = {k->n, k->o, k->oh, k->ow};
    dnnl_dims_t w = {k->o, k->c, k->kh, k->kw}, wg = {k->g, k->o / k->g, k->c / k->g, k->kh, k->kw}, b = {k->o};
    struct operand {
        int ndims;
        const dnnl_dim_t *dims;
    } of[TD_DNNL_OPERANDS] = {{4, x}, {k->g > 1 ? 5 : 4, k->g > 1 ? wg : w}, {4, y}};
    d->plain[TD_DNNL_X] = image_md(api, x, k->x_last);
    d->plain[TD_DNNL_W] = weights_md(api, k, of[TD_DNNL_W].ndims, of[TD_DNNL_W].dims);
    d->plain[TD_DNNL_Y] = image_md(api, y, k->y_last);
    for (int i = 0; i < TD_DNNL_OPERANDS; i++) {
        if (!d->plain[i]) return false;
        any[i] = as_is && i != TD_DNNL_W ? td_dnnl_md_copy(api, d->plain[i])
                                         : td_dnnl_md_new(api, of[i].ndims, of[i].dims, dnnl_format_tag_any);
        if (!any[i]) return false;
    }
    return (d->bias = td_dnnl_md_new(api, 1, b, dnnl_x));
}

/* `hint` is the forward one that a backward asks for. */
static dnnl_primitive_desc_t make_desc(const td_dnnl_api *api, const td_dnnl_key *k, td_dnnl_kind kind, td_dnnl_conv *d,
                                       td_dnnl_md any[], dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint)
{
    const td_dnnl_window window = {.strides = {k->sh, k->sw},
                                   .dilations = {k->dh - 1, k->dw - 1},
                                   .padding_left = {k->ph, k->pw},
                                   .padding_right = {(k->oh - 1) * k->sh + (k->kh - 1) * k->dh + 1 - k->h - k->ph,
                                                     (k->ow - 1) * k->sw + (k->kw - 1) * k->dw + 1 - k->w - k->pw}};
    return td_dnnl_conv_desc(api, kind, any[TD_DNNL_X], any[TD_DNNL_W], k->bias ? d->bias : NULL, any[TD_DNNL_Y],
                             &window, attr, hint);
}

/* Scratch a primitive wants, noted in d->pad[at]; grows d->pad_bytes. */
static bool note_pad(const td_dnnl_api *api, td_dnnl_conv *d, int at, const_dnnl_primitive_desc_t pd)
{
    d->pad[at] = td_dnnl_md_copy(api, api->dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0));
    if (!d->pad[at]) return false;
    size_t bytes = (api->dnnl_memory_desc_get_size(d->pad[at]) + 63) & ~(size_t)63;
    if (bytes > d->pad_bytes) d->pad_bytes = bytes;
    return true;
}

static bool make_reorder(const td_dnnl_api *api, td_dnnl_conv *d, int i, dnnl_primitive_attr_t attr)
{
    bool out = output_of(d->key.kind) == i;
    td_dnnl_const_md from = out ? d->wanted[i] : d->plain[i], to = out ? d->plain[i] : d->wanted[i];
    dnnl_primitive_desc_t pd = NULL;
    if (api->dnnl_memory_desc_equal(from, to)) return true;
    if (api->dnnl_reorder_primitive_desc_create(&pd, from, api->engine, to, api->engine, attr) != dnnl_success)
        return false;
    bool ok = note_pad(api, d, 1 + i, pd) && api->dnnl_primitive_create(&d->reorder[i], pd) == dnnl_success;
    api->dnnl_primitive_desc_destroy(pd);
    d->packed_bytes[i] = (api->dnnl_memory_desc_get_size(d->wanted[i]) + 63) & ~(size_t)63;
    return ok;
}

static bool is_called(const td_dnnl_api *api, const_dnnl_primitive_desc_t pd, const char *part)
{
    const char *name = "";
    api->dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &name);
    return strstr(name, part) != NULL;
}

/* Copies of patches and a product, which has no speed for few channels. */
static bool is_by_columns(const td_dnnl_api *api, const_dnnl_primitive_desc_t pd)
{
    return is_called(api, pd, "gemm");
}

static bool finish(const td_dnnl_api *api, td_dnnl_conv *d, dnnl_primitive_desc_t pd, dnnl_primitive_attr_t attr)
{
    static const dnnl_query_t plain_query[] = {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md};
    static const dnnl_query_t diff_query[] = {dnnl_query_diff_src_md, dnnl_query_diff_weights_md,
                                              dnnl_query_diff_dst_md};
    bool diff[] = {d->key.kind == TD_DNNL_DATA, d->key.kind == TD_DNNL_WEIGHTS, d->key.kind != TD_DNNL_FORWARD};
    if (is_called(api, pd, "ref") || !note_pad(api, d, 0, pd)) return false;
    for (int i = 0; i < TD_DNNL_OPERANDS; i++) {
        d->wanted[i] =
            td_dnnl_md_copy(api, api->dnnl_primitive_desc_query_md(pd, diff[i] ? diff_query[i] : plain_query[i], 0));
        if (!d->wanted[i] || !make_reorder(api, d, i, attr)) return false;
    }
    return api->dnnl_primitive_create(&d->op, pd) == dnnl_success;
}

static void forget_operands(const td_dnnl_api *api, td_dnnl_conv *d)
{
    for (int i = 0; i < TD_DNNL_OPERANDS; i++) {
        if (d->reorder[i]) api->dnnl_primitive_destroy(d->reorder[i]);
        td_dnnl_md_free(api, d->plain[i]), td_dnnl_md_free(api, d->wanted[i]);
    }
    for (int i = 0; i <= TD_DNNL_OPERANDS; i++) td_dnnl_md_free(api, d->pad[i]);
    td_dnnl_md_free(api, d->bias);
    if (d->op) api->dnnl_primitive_destroy(d->op);
}

static bool make_of(const td_dnnl_api *api, td_dnnl_conv *d, bool as_is, dnnl_primitive_attr_t attr)
{
    const td_dnnl_key *key = &d->key;
    dnnl_primitive_desc_t hint = NULL, pd = NULL;
    td_dnnl_md any[TD_DNNL_OPERANDS] = {NULL};
    if (describe(api, key, as_is, d, any)) {
        if (key->kind != TD_DNNL_FORWARD) hint = make_desc(api, key, TD_DNNL_FORWARD, d, any, attr, NULL);
        if (hint || key->kind == TD_DNNL_FORWARD) pd = make_desc(api, key, (td_dnnl_kind)key->kind, d, any, attr, hint);
    }
    bool usable = pd && !(as_is && is_by_columns(api, pd)) && finish(api, d, pd, attr);
    for (int i = 0; i < TD_DNNL_OPERANDS; i++) td_dnnl_md_free(api, any[i]);
    if (pd) api->dnnl_primitive_desc_destroy(pd);
    if (hint) api->dnnl_primitive_desc_destroy(hint);
    return usable;
}

/* A forward one of images that lie channels last works on them as they lie, where there is a good one that does. */
static td_dnnl_conv *make(const td_dnnl_api *api, const td_dnnl_key *key)
{
    td_dnnl_conv *d = calloc(1, sizeof *d);
    dnnl_primitive_attr_t attr = NULL;
    if (!d) return NULL;
    d->key = *key;
    bool last = key->kind == TD_DNNL_FORWARD && key->x_last && key->y_last;
    if (api->dnnl_primitive_attr_create(&attr) == dnnl_success &&
        api->dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) == dnnl_success) {
        d->usable = last && make_of(api, d, true, attr);
        if (!d->usable) {
            forget_operands(api, d);
            *d = (td_dnnl_conv){.key = *key};
            d->usable = make_of(api, d, false, attr);
        }
    }
    if (attr) api->dnnl_primitive_attr_destroy(attr);
    return d;
}

static void destroy(const td_dnnl_api *api, td_dnnl_conv *d)
{
    for (int i = 0; i < TD_DNNL_SETS; i++) free_set(api, atomic_load(&d->idle[i]));
    forget_operands(api, d);
    free(d);
}

/* ---- keeping (under the lock) ---- */

static td_dnnl_conv *find(const td_dnnl_key *key)
{
    for (int i = 0; i < cache.count; i++)
        if (memcmp(&cache.entry[i]->key, key, sizeof *key) == 0) return cache.entry[i];
    return NULL;
}

/* Drop the longest unused one that nobody holds. */
static void evict(const td_dnnl_api *api)
{
    int oldest = -1;
    for (int i = 0; i < cache.count; i++)
        if (cache.entry[i]->refs == 0 && (oldest < 0 || cache.entry[i]->used < cache.entry[oldest]->used)) oldest = i;
    if (oldest < 0) return;
    destroy(api, cache.entry[oldest]);
    cache.entry[oldest] = cache.entry[--cache.count];
}

static bool room_for_one(const td_dnnl_api *api)
{
    if (cache.count >= TD_CONV_DNNL_KEPT) evict(api);
    if (cache.count == cache.room) {
        int room = cache.room ? 2 * cache.room : TD_CONV_DNNL_KEPT;
        td_dnnl_conv **grown = realloc(cache.entry, (size_t)room * sizeof *grown);
        if (!grown) return false;
        cache.entry = grown;
        cache.room = room;
    }
    return true;
}

/* Takes it over. Somebody else may have made the same meanwhile. */
static void keep(const td_dnnl_api *api, td_dnnl_conv *d)
{
    pthread_mutex_lock(&lock);
    bool kept = !find(&d->key) && room_for_one(api);
    d->used = ++cache.clock;
    if (kept) cache.entry[cache.count++] = d;
    pthread_mutex_unlock(&lock);
    if (!kept) destroy(api, d);
}

/* With a reference, when it is usable. */
static const td_dnnl_conv *hold(const td_dnnl_key *key, bool *known)
{
    pthread_mutex_lock(&lock);
    td_dnnl_conv *d = find(key);
    *known = d != NULL;
    if (d) d->used = ++cache.clock;
    if (d && d->usable) d->refs++;
    else d = NULL;
    pthread_mutex_unlock(&lock);
    return d;
}

/* Milliseconds, so not under the lock. */
static void have(const void *key)
{
    const td_dnnl_api *api = td_dnnl(NULL);
    td_dnnl_conv *d = api ? make(api, key) : NULL;
    if (d) keep(api, d);
}

const td_dnnl_conv *td_dnnl_conv_get(const td_dnnl_key *key)
{
    const td_dnnl_api *api = td_dnnl(NULL);
    if (!api) return NULL;
    bool known;
    const td_dnnl_conv *d = hold(key, &known);
    if (known || td_kernel_wish(have, key, sizeof *key)) return d;
    have(key);
    return hold(key, &known);
}

void td_dnnl_conv_put(const td_dnnl_conv *entry)
{
    if (!entry) return;
    pthread_mutex_lock(&lock);
    ((td_dnnl_conv *)entry)->refs--;
    pthread_mutex_unlock(&lock);
}

/* ---- running ---- */

bool td_dnnl_conv_reorder(const td_dnnl_conv *d, int i, const void *plain, void *packed, void *pad)
{
    const void *data[] = {plain, packed, pad};
    return execute(d, 1 + i, data);
}

bool td_dnnl_conv_run(const td_dnnl_conv *d, void *const operand[TD_DNNL_OPERANDS], const void *bias, void *pad)
{
    const void *data[] = {operand[TD_DNNL_X], operand[TD_DNNL_W], operand[TD_DNNL_Y], pad, bias};
    return execute(d, 0, data);
}
