/* to_device: copies between host and device through the staging memory, in pieces of the elements as they follow each
 * other.
 *
 * On either side a tensor is runs of elements without gaps, each copied by one memcpy or one command. */
#include "daemon/cuda/room.h"
#include "daemon/kernels/cuda/launch.h"
#include "proto/base/device.h"
#include "proto/ops/opid.h"
#include <string.h>

#define RUNS_MOST 65536     /* of a tensor on the device: a command each */
enum { PIECE_RUNS = 1000 }; /* of a piece */
_Static_assert(PIECE_RUNS * sizeof(td_gpu_move) + sizeof(td_gpu_mark) <= TD_GPU_ROOM,
               "a piece's commands are one message's");

/* Elements of a run, and how many runs there are. */
static int64_t run_of(const td_desc *d, int *outer)
{
    int64_t n = 1;
    int i = d->ndim;
    while (i > 0 && (d->shape[i - 1] == 1 || d->stride[i - 1] == n)) n *= d->shape[--i];
    *outer = i;
    return n;
}

static void never(td_kcall *k, int64_t chunk, void *scratch)
{
    (void)k, (void)chunk, (void)scratch;
}

bool td_cuda_is_transfer(const td_kcall *k)
{
    return k->nphases && k->phase[0].fn == never;
}

int td_cuda_plan_transfer(td_kcall *k, td_error *e)
{
    const td_desc *x = k->in[0].desc, *y = k->out[0].desc, *there = x->device == TD_CPU ? y : x;
    int64_t n = td_desc_numel(x);
    int outer;
    if (x->device == y->device) return td_cuda_plans[TD_OP_COPY](k, e);
    if (x->device != TD_CPU && y->device != TD_CPU)
        return td_fail(e, TD_E_UNSUPPORTED, "to_device goes between the cpu and %s; copy by way of the cpu",
                       td_device_name(k->device));
    int64_t run = run_of(there, &outer);
    if (n / (run ? run : 1) > RUNS_MOST)
        return td_fail(e, TD_E_UNSUPPORTED,
                       "to_device takes at most %d pieces of memory on %s; call contiguous() first", RUNS_MOST,
                       td_device_name(k->device));
    k->nphases = 1;
    k->phase[0] = (td_phase){never, 1};
    k->cost_ns = (double)n * (double)td_dtype_size((td_dtype)x->dtype) / 7.0 + 10000;
    td_plan_moves_freely(k, 0);
    return TD_OK;
}

void td_cuda_transfer_begin(td_cuda_transfer *t, const td_kcall *k)
{
    const td_karg *x = &k->in[0], *y = &k->out[0];
    bool down = x->desc->device == TD_CPU;
    *t = (td_cuda_transfer){.down = down,
                            .host = down ? x->desc : y->desc,
                            .device = down ? y->desc : x->desc,
                            .host_at = down ? x->data : y->data,
                            .device_at = (uint64_t)(uintptr_t)(down ? y->data : x->data),
                            .bytes = (uint64_t)td_desc_numel(x->desc) * td_dtype_size((td_dtype)x->desc->dtype)};
}

typedef void (*part_fn)(void *arg, int64_t at, uint64_t behind, uint64_t bytes);

/* Bytes [from, from + bytes) of the elements, by runs: each lies `at` behind the first element, and `behind` the
 * beginning of what is asked for. */
static void each_part(const td_desc *d, uint64_t from, uint64_t bytes, part_fn fn, void *arg)
{
    int outer;
    const uint64_t size = td_dtype_size((td_dtype)d->dtype), run = (uint64_t)run_of(d, &outer) * size;
    for (uint64_t done = 0; done < bytes;) {
        uint64_t number = (from + done) / run, in_run = (from + done) % run, n = run - in_run;
        int64_t at = 0;
        for (int i = outer; i-- > 0; number /= (uint64_t)d->shape[i])
            at += (int64_t)(number % (uint64_t)d->shape[i]) * d->stride[i];
        if (n > bytes - done) n = bytes - done;
        fn(arg, at * (int64_t)size + (int64_t)in_run, done, n);
        done += n;
    }
}

typedef struct part {
    unsigned char *host, *staged;
    td_gpu *gpu;
    unsigned stream;
    uint64_t device, offset;
} part;

static void gather(void *arg, int64_t at, uint64_t behind, uint64_t bytes)
{
    const part *p = arg;
    memcpy(p->staged + behind, p->host + at, bytes);
}

static void scatter(void *arg, int64_t at, uint64_t behind, uint64_t bytes)
{
    const part *p = arg;
    memcpy(p->host + at, p->staged + behind, bytes);
}

static void put_down(void *arg, int64_t at, uint64_t behind, uint64_t bytes)
{
    const part *p = arg;
    td_gpu_move *c = td_gpu_put(p->gpu, TD_GPU_WRITE, p->stream, sizeof *c);
    c->to = p->device + (uint64_t)at;
    c->from = p->offset + behind;
    c->bytes = bytes;
}

static void bring_up(void *arg, int64_t at, uint64_t behind, uint64_t bytes)
{
    const part *p = arg;
    td_gpu_move *c = td_gpu_put(p->gpu, TD_GPU_READ, p->stream, sizeof *c);
    c->to = p->offset + behind;
    c->from = p->device + (uint64_t)at;
    c->bytes = bytes;
}

/* Bytes of the next piece: as much as there is room for in the staging memory, and in one message of commands. */
static uint64_t next_bytes(const td_cuda_transfer *t)
{
    int outer;
    uint64_t run = (uint64_t)run_of(t->device, &outer) * td_dtype_size((td_dtype)t->device->dtype);
    uint64_t n = t->bytes - t->sent, most = run * PIECE_RUNS - t->sent % run;
    if (n > TD_GPU_PIECE) n = TD_GPU_PIECE;
    return run < TD_GPU_PIECE && n > most ? most : n;
}

size_t td_cuda_transfer_room(const td_cuda_transfer *t)
{
    int outer;
    uint64_t run = (uint64_t)run_of(t->device, &outer) * td_dtype_size((td_dtype)t->device->dtype);
    uint64_t runs = run ? next_bytes(t) / run + 2 : 1;
    return (size_t)(runs < PIECE_RUNS ? runs : PIECE_RUNS) * sizeof(td_gpu_move);
}

uint64_t td_cuda_transfer_send(td_cuda_transfer *t, td_gpu *g, unsigned stream, int piece, uint64_t *at)
{
    uint64_t n = next_bytes(t);
    part p = {.host = t->host_at, .staged = td_gpu_piece_at(g, piece), .gpu = g, .stream = stream};
    p.device = t->device_at;
    p.offset = td_gpu_piece_offset(piece);
    if (t->down) each_part(t->host, t->sent, n, gather, &p);
    each_part(t->device, t->sent, n, t->down ? put_down : bring_up, &p);
    *at = t->sent;
    t->sent += n;
    return n;
}

void td_cuda_transfer_take(const td_cuda_transfer *t, const unsigned char *staged, uint64_t at, uint64_t bytes)
{
    part p = {.host = t->host_at, .staged = (unsigned char *)staged};
    each_part(t->host, at, bytes, scatter, &p);
}
