/* Fuzzes the arguments of an op: attribute words as they come from the wire, and descriptors of any shape.
 *
 * Whatever the input says, decoding and inference either refuse it with a message, or give descriptors that hold: a
 * view stays inside the storage that it looks at, a new tensor has a size that can be computed, and the attributes
 * survive being written and read again. */
#include "proto/ops/op.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MOST_INPUTS 8
#define MOST_OUTPUTS 64

struct bytes {
    const uint8_t *at;
    size_t left;
};

static uint8_t next(struct bytes *b)
{
    return b->left ? (b->left--, *b->at++) : 0;
}

/* Sizes that are often wrong somewhere. */
static int64_t next_size(struct bytes *b)
{
    static const int64_t odd[] = {-1, 255, 256, 65536, INT32_MAX, INT64_C(1) << 31, INT64_C(1) << 40, INT64_MAX};
    uint8_t v = next(b);
    return v < 248 ? v % 8 : odd[v - 248];
}

/* A descriptor that a tensor could have, and the bytes of its storage; false when this input makes none. */
static bool next_desc(struct bytes *b, td_desc *d, uint64_t *nbytes)
{
    td_error e;
    int64_t shape[TD_MAX_DIMS];
    uint8_t how = next(b);
    int ndim = next(b) % (TD_MAX_DIMS + 1);
    for (int i = 0; i < ndim; i++) shape[i] = next_size(b);
    if (td_desc_contiguous(d, (td_dtype)(next(b) % TD_DTYPE_COUNT), ndim, shape, &e)) return false;
    if (how & 1 && ndim > 1) { /* transposed */
        int64_t kept = d->shape[0];
        d->shape[0] = d->shape[ndim - 1], d->shape[ndim - 1] = kept;
        kept = d->stride[0];
        d->stride[0] = d->stride[ndim - 1], d->stride[ndim - 1] = kept;
    }
    if (how & 2 && ndim > 0) d->stride[next(b) % ndim] = 0; /* expanded */
    if (how & 4) d->offset = next(b);
    uint64_t lo;
    if (td_desc_check(d, UINT64_MAX, &e)) return false; /* only of what passed may the extent be asked */
    td_desc_extent(d, &lo, nbytes);
    return td_desc_check(d, *nbytes, &e) == 0;
}

static void demand(bool holds, const td_op *op, const char *what, const td_desc *d)
{
    char text[128];
    if (holds) return;
    fprintf(stderr, "%s: %s %s\n", op->name, what, d ? td_desc_text(d, text, sizeof text) : "");
    abort();
}

static void check_round_trip(const td_op *op, const td_attrs *a)
{
    uint32_t words[2 * TD_MAX_INTS + 6 * TD_MAX_ATTRS];
    td_attrs again;
    td_error e;
    size_t n = td_attrs_words(op, a);
    demand(n <= sizeof words / sizeof *words, op, "attributes are longer than they can be", NULL);
    demand(td_attrs_encode(op, a, words) == n, op, "attributes are not as long as was said", NULL);
    demand(td_attrs_decode(op, words, n, &again, &e) == 0, op, "own attributes are refused", NULL);
    demand(again.count == a->count && again.nints >= a->nints, op, "attributes change on the way", NULL);
}

static void check_outputs(const td_inference *f, const uint64_t *nbytes)
{
    td_error e;
    demand(f->nout <= f->max_out, f->op, "more outputs than there is room", NULL);
    for (int i = 0; i < f->nout; i++) {
        const td_desc *o = f->out + i;
        bool view = f->op->flags & TD_OF_VIEW;
        /* what is made of ops may be new, a view of an input, or of something on the way: median is an element of sort
         */
        uint64_t room = f->op->compose ? UINT64_MAX : view ? nbytes[0] : td_desc_nbytes(o);
        demand(td_desc_check(o, room, &e) == 0, f->op, view ? "view outside" : "bad", o);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct bytes b = {data, size};
    const td_op *op = td_op_by_id((unsigned)(next(&b) | next(&b) << 8) % td_op_count);
    if (!op) return 0;
    static td_desc desc[MOST_INPUTS], out[MOST_OUTPUTS];
    td_scalar number[MOST_INPUTS];
    td_operand in[MOST_INPUTS] = {{0}};
    uint64_t nbytes[MOST_INPUTS] = {0};
    int nin = next(&b) % (MOST_INPUTS + 1);
    for (int i = 0; i < nin; i++) {
        uint8_t kind = next(&b) % 8;
        if (kind == 0) continue; /* absent */
        number[i] = kind & 1 ? td_int(next_size(&b)) : td_float((double)next_size(&b) / 3);
        if (kind == 1 || kind == 2) in[i].scalar = number + i;
        else if (next_desc(&b, desc + i, nbytes + i)) in[i].desc = desc + i;
        else return 0;
    }
    uint32_t words[256];
    size_t count = b.left / 4 < 256 ? b.left / 4 : 256;
    memcpy(words, b.at, count * 4);
    td_attrs attrs;
    td_error e = {0};
    if (td_attrs_decode(op, words, count, &attrs, &e)) {
        demand(e.code != 0 && e.message[0], op, "refused without a word", NULL);
        return 0;
    }
    check_round_trip(op, &attrs);
    td_inference f = {.op = op, .in = in, .nin = nin, .attrs = &attrs, .out = out, .max_out = MOST_OUTPUTS};
    if (td_op_infer(&f, &e)) demand(e.code != 0 && e.message[0], op, "refused without a word", NULL);
    else check_outputs(&f, nbytes);
    return 0;
}
