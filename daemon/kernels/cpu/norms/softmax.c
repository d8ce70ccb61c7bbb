/* softmax and log_softmax along one dimension, and their gradients. A line of the dimension is read into first-level
 * cache as floats (or doubles), worked on there, and written once; a line that is contiguous and of that type is used
 * where it lies. */
#include "daemon/kernels/cpu/norms/softmax_cols.h"
#include "daemon/kernels/cpu/tile.h"
#include "daemon/kernels/cpu/vec/reduce.h"
#include "daemon/kernels/plans.h"

typedef struct lines {
    int64_t length, count; /* of a line; lines */
    int64_t per_chunk, group;
    int64_t stride[3];          /* along a line, in bytes: out, in 0, in 1 */
    int64_t shape[TD_MAX_DIMS]; /* the other dimensions, innermost first */
    int64_t step[3][TD_MAX_DIMS];
    char *data[3];
    td_pw_fn load[3], store; /* to and from float or double; NULL: as it is */
    uint8_t ndim, nin, op, size[3], body;
} lines;

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static char *line_at(const lines *l, int which, int64_t line)
{
    char *p = l->data[which];
    for (int d = 0; d < l->ndim; d++) {
        p += line % l->shape[d] * l->step[which][d];
        line /= l->shape[d];
    }
    return p;
}

/* `n` lines that follow each other, dense and as floats or doubles: where they lie (one), or in `buffer` (with as much
 * again behind it for what is not converted yet). */
static const void *read_lines(const lines *l, int which, int64_t first, int64_t n, char *buffer)
{
    const char *from = line_at(l, which, first);
    const void *raw = from;
    if (n > 1 || l->stride[which] != l->size[which]) {
        char *to = l->load[which] ? buffer + n * l->length * l->body : buffer;
        td_gather(to, from, n, l->length, l->step[which][0], l->stride[which], l->size[which]);
        raw = to;
    }
    if (!l->load[which]) return raw;
    l->load[which](n * l->length, buffer, &raw, NULL);
    return buffer;
}

static void write_lines(const lines *l, int64_t first, int64_t n, const void *values, char *spare)
{
    char *to = line_at(l, 0, first);
    const void *from = values;
    if (l->store) {
        bool straight = n == 1 && l->stride[0] == l->size[0];
        l->store(n * l->length, straight ? to : spare, &from, NULL);
        if (straight) return;
        from = spare;
    }
    if (n > 1) /* the result's rows hold one element of each line */
        td_isa_now->transpose(to, l->stride[0], from, l->length * l->size[0], (int)l->length, n, l->size[0]);
    else td_scatter(to, from, 1, l->length, 0, l->stride[0], l->size[0]);
}

/* Scratch: for the result and each input `group` lines of body elements, twice. */
static void lines_chunk(td_kcall *k, int64_t chunk, void *scratch)
{
    const lines *l = (const lines *)k->state;
    int64_t from = chunk * l->per_chunk, to = min64(from + l->per_chunk, l->count);
    int64_t line = l->length * l->body, room = scratch ? 2 * l->group * line : 0;
    char *out = scratch ? scratch : (char *)k->state; /* lines that are read and written in place need none */
    for (int64_t i = from, n; i < to; i += n) {
        n = l->group == 1 ? 1 : min64(min64(l->group, to - i), l->shape[0] - i % l->shape[0]);
        const char *a = read_lines(l, 1, i, n, out + room);
        const char *b = l->nin == 2 ? read_lines(l, 2, i, n, out + 2 * room) : a;
        bool direct = n == 1 && !l->store && l->stride[0] == l->size[0];
        for (int64_t j = 0; j < n; j++) {
            void *result = direct ? line_at(l, 0, i) : out + j * line;
            if (l->body == 8)
                td_isa_now->reduce->line_f64[l->op](l->length, (const double *)(a + j * line),
                                                    (const double *)(b + j * line), result);
            else
                td_isa_now->reduce->line_f32[l->op](l->length, (const float *)(a + j * line),
                                                    (const float *)(b + j * line), result);
        }
        if (!direct) write_lines(l, i, n, out, out + n * line);
    }
}

static void add_operand(lines *l, int which, const td_karg *arg, int dim)
{
    const td_desc *d = arg->desc;
    int64_t size = (int64_t)td_dtype_size(d->dtype);
    td_dtype body = l->body == 8 ? TD_FLOAT64 : TD_FLOAT32;
    l->data[which] = arg->data;
    l->size[which] = (uint8_t)size;
    l->stride[which] = d->ndim ? d->stride[dim] * size : size;
    if (l->length == 1) l->stride[which] = size;
    l->load[which] = d->dtype == body ? NULL : td_isa_now->cast[d->dtype][body];
    for (int i = d->ndim - 1, j = 0; i >= 0; i--)
        if (i != dim) l->step[which][j++] = d->stride[i] * size;
}

static void addresses(td_kcall *k)
{
    lines *l = (lines *)k->state;
    l->data[0] = k->out[0].data;
    for (int i = 0; i < k->nin; i++) l->data[i + 1] = k->in[i].data;
}

static int plan(td_kcall *k, int op, int dim_attr)
{
    lines *l = (lines *)k->state;
    const td_desc *y = k->out[0].desc;
    int64_t d = td_attr_int(k->attrs, dim_attr);
    int dim = (int)(d < 0 ? d + y->ndim : d);
    if (td_desc_numel(y) == 0) return TD_OK;
    if (td_softmax_plan_cols(k, op, dim)) return TD_OK;
    l->op = (uint8_t)op;
    l->body = k->compute == TD_FLOAT64 ? 8 : 4;
    l->length = y->ndim ? y->shape[dim] : 1;
    l->count = td_desc_numel(y) / l->length;
    l->nin = (uint8_t)k->nin;
    l->ndim = 0;
    for (int i = y->ndim - 1; i >= 0; i--)
        if (i != dim) l->shape[l->ndim++] = y->shape[i];
    add_operand(l, 0, &k->out[0], dim);
    for (int i = 0; i < k->nin; i++) add_operand(l, i + 1, &k->in[i], dim);
    l->store = y->dtype == (l->body == 8 ? TD_FLOAT64 : TD_FLOAT32)
                   ? NULL
                   : td_isa_now->cast[l->body == 8 ? TD_FLOAT64 : TD_FLOAT32][y->dtype];
    l->group = 1;
    if (l->ndim && l->stride[0] != l->size[0] && l->length > 1 &&
        l->length < INT32_MAX) /* lines side by side: 1 MB of them at most */
        l->group =
            min64(min64(TD_LINE_BYTES / l->size[0], l->shape[0]), 1 + TD_SOFTMAX_GROUP_BYTES / (l->length * l->body));
    l->per_chunk = 1 + TD_SOFTMAX_CHUNK / l->length;
    if (l->per_chunk < l->group) l->per_chunk = l->group;
    k->phase[0].fn = lines_chunk;
    k->phase[0].chunks = (l->count + l->per_chunk - 1) / l->per_chunk;
    k->nphases = 1;
    bool direct = !l->store && l->stride[0] == l->size[0];
    for (int i = 1; i <= l->nin; i++) direct = direct && !l->load[i] && l->stride[i] == l->size[i];
    k->scratch_bytes = direct ? 0 : (size_t)(6 * l->group * l->length * l->body);
    k->cost_ns = 30 + (double)l->count * (30 + (l->body == 8 ? 8.0 : 1.0) * (double)l->length);
    k->sure = true;
    td_plan_moves(k, addresses, sizeof *l);
    return TD_OK;
}

#define PLAN(NAME, OP)                                                                                                 \
    int td_cpu_plan_##NAME(td_kcall *k, td_error *e)                                                                   \
    {                                                                                                                  \
        (void)e;                                                                                                       \
        return plan(k, OP, 0);                                                                                         \
    }
PLAN(softmax, TD_LINE_SOFTMAX)
PLAN(log_softmax, TD_LINE_LOG_SOFTMAX)
PLAN(softmax_backward, TD_LINE_SOFTMAX_BACKWARD)
PLAN(log_softmax_backward, TD_LINE_LOG_SOFTMAX_BACKWARD)
