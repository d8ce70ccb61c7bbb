/* The walk over tiles: see tile.h. */
#include "daemon/kernels/cpu/tile.h"
#include "daemon/kernels/cpu/plan.h"
#include <assert.h>
#include <string.h>

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void td_tiles_operand(td_tiles *t, int op, void *data, const td_desc *d, td_dtype body)
{
    int size = (int)td_dtype_size(d->dtype);
    if (op == 0) {
        t->rounded = 0;
        t->moves = false;
        t->ndim = d->ndim;
        for (int i = 0; i < d->ndim; i++) t->shape[i] = d->shape[d->ndim - 1 - i];
    }
    for (int i = 0; i < t->ndim; i++) {
        int k = d->ndim - 1 - i;
        t->stride[op][i] = k < 0 || d->shape[k] < 2 ? 0 : d->stride[k] * size; /* of one element it may be any number */
    }
    t->data[op] = data;
    t->raw[op] = (uint8_t)size;
    t->body[op] = (uint8_t)td_dtype_size(body);
    t->nops = (uint8_t)(op + 1);
    if (d->dtype == body) t->cast[op] = NULL;
    else t->cast[op] = op == 0 ? td_isa_now->cast[body][d->dtype] : td_isa_now->cast[d->dtype][body];
}

void td_tiles_raw(td_tiles *t, int op, void *data, int size)
{
    t->data[op] = data;
    t->raw[op] = t->body[op] = (uint8_t)size;
    t->cast[op] = NULL;
    t->nops = (uint8_t)(op + 1);
}

static void swap_dims(td_tiles *t, int a, int b)
{
    int64_t s = t->shape[a];
    t->shape[a] = t->shape[b];
    t->shape[b] = s;
    for (int op = 0; op < t->nops; op++) {
        s = t->stride[op][a];
        t->stride[op][a] = t->stride[op][b];
        t->stride[op][b] = s;
    }
}

static void move_dim(td_tiles *t, int to, int from)
{
    t->shape[to] = t->shape[from];
    for (int op = 0; op < t->nops; op++) t->stride[op][to] = t->stride[op][from];
}

/* Dimensions of one element go; the rest stand by rising stride of the output; neighbours that continue each other
 * merge. */
static void simplify(td_tiles *t)
{
    int n = 0;
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] != 1) move_dim(t, n++, i);
    for (int i = 1; i < n; i++)
        for (int j = i; j > 0 && t->stride[0][j] < t->stride[0][j - 1]; j--) swap_dims(t, j, j - 1);
    int m = 0;
    for (int i = 1; i < n; i++) {
        bool joins = true;
        for (int op = 0; op < t->nops; op++) joins &= t->stride[op][i] == t->stride[op][m] * t->shape[m];
        if (joins) t->shape[m] *= t->shape[i];
        else move_dim(t, ++m, i);
    }
    if (n == 0) { /* one element */
        t->shape[0] = 1;
        for (int op = 0; op < t->nops; op++) t->stride[op][0] = t->raw[op];
    }
    t->ndim = (uint8_t)(m + 1);
}

/* An input that is contiguous along another dimension than the first: bring that one to place 1. */
static int find_turned(td_tiles *t)
{
    for (int op = 1; op < t->nops; op++) {
        if (t->stride[op][0] == t->raw[op] || t->stride[op][0] == 0) continue;
        for (int d = 1; d < t->ndim; d++)
            if (t->stride[op][d] == t->raw[op] && t->shape[d] >= TD_TURN_LEAST) {
                swap_dims(t, 1, d);
                return op;
            }
    }
    return 0;
}

static void choose_modes(td_tiles *t)
{
    for (int op = 0; op < t->nops; op++) {
        bool still = true;
        for (int d = 0; d < t->ndim; d++) still &= t->stride[op][d] == 0;
        bool direct = t->stride[op][0] == t->raw[op] && !t->cast[op] && !(t->rounded >> op & 1);
        t->mode[op] = op && still && t->ndim ? TD_TILE_CONST : direct ? TD_TILE_DIRECT : TD_TILE_GATHER;
    }
}

void td_tiles_finish(td_tiles *t, double element_ns)
{
    t->count = t->per_chunk = 0;
    for (int i = 0; i < t->ndim; i++)
        if (t->shape[i] == 0) return;
    simplify(t);
    t->turned = (uint8_t)(t->ndim > 1 ? find_turned(t) : 0);
    choose_modes(t);
    int widest = 1;
    bool direct = true;
    for (int op = 0; op < t->nops; op++) {
        if (t->raw[op] > widest) widest = t->raw[op];
        if (t->body[op] > widest) widest = t->body[op];
        direct &= t->mode[op] == TD_TILE_DIRECT;
    }
    int64_t block = TD_TILE_BYTES / widest, inner = t->shape[0], second = t->ndim > 1 ? t->shape[1] : 1;
    int64_t chunk = td_chunk_elements(td_tiles_numel(t), element_ns, block);
    bool small = t->ndim > 1 && inner < TD_TILE_SHORT;
    if (t->turned && !small) t->rows = min64(second, TD_LINE_BYTES / widest);
    else t->rows = inner <= block / 2 ? min64(second, block / inner) : 1;
    t->cols = min64(inner, direct && t->rows == 1 ? chunk : block / t->rows);
    t->dense = 1;
    for (int op = 0; op < t->nops && t->rows > 1; op++) {
        if (t->mode[op] != TD_TILE_DIRECT || (t->cols == inner && t->stride[op][1] == t->cols * t->raw[op])) continue;
        if (small) t->mode[op] = TD_TILE_GATHER; /* short rows: one long run of the loop is worth the copy */
        else t->dense = 0;
    }
    for (int op = 1; op < t->nops && t->cols == inner && t->rows > 1; op++) {
        bool once = t->mode[op] == TD_TILE_GATHER;
        for (int d = 1; d < t->ndim; d++) once &= t->stride[op][d] == 0;
        if (once) t->mode[op] = TD_TILE_ONCE;
    }
    t->ncols = (inner + t->cols - 1) / t->cols;
    t->nrows = (second + t->rows - 1) / t->rows;
    t->count = t->ncols * t->nrows;
    for (int d = 2; d < t->ndim; d++) t->count *= t->shape[d];
    t->per_chunk = chunk / (t->rows * t->cols);
    if (t->per_chunk < 1) t->per_chunk = 1;
}

int64_t td_tiles_chunks(const td_tiles *t)
{
    return t->count ? (t->count + t->per_chunk - 1) / t->per_chunk : 0;
}

int64_t td_tiles_numel(const td_tiles *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->ndim; i++) n *= t->shape[i];
    return n;
}

/* Where the walk is. */
typedef struct place {
    int64_t col, row;           /* in tiles */
    int64_t at[TD_TILE_DIMS];   /* outer dimensions */
    int64_t outer[TD_TILE_OPS]; /* their byte offsets */
} place;

static void start_at(const td_tiles *t, int64_t tile, place *p)
{
    p->col = tile % t->ncols;
    tile /= t->ncols;
    p->row = tile % t->nrows;
    tile /= t->nrows;
    memset(p->outer, 0, sizeof p->outer);
    for (int d = 2; d < t->ndim; d++) {
        p->at[d] = tile % t->shape[d];
        tile /= t->shape[d];
        for (int op = 0; op < t->nops; op++) p->outer[op] += p->at[d] * t->stride[op][d];
    }
}

static void step(const td_tiles *t, place *p)
{
    if (++p->col < t->ncols) return;
    p->col = 0;
    if (++p->row < t->nrows) return;
    p->row = 0;
    for (int d = 2; d < t->ndim; d++) {
        for (int op = 0; op < t->nops; op++) p->outer[op] += t->stride[op][d];
        if (++p->at[d] < t->shape[d]) return;
        for (int op = 0; op < t->nops; op++) p->outer[op] -= t->stride[op][d] * t->shape[d];
        p->at[d] = 0;
    }
}

/* n elements of the loop's type at `from`, to `to` as the narrower type would have them. */
static void round_off(const td_tiles *t, int64_t n, void *to, const void *from, void *spare)
{
    const void *narrow = spare;
    t->narrow(n, spare, &from, NULL);
    t->widen(n, to, &narrow, NULL);
}

/* The loop's view of an input tile that does not lie as the loop wants it. */
static const void *fetch(const td_tiles *t, int op, const char *from, int64_t rows, int64_t cols, char *buffer,
                         char *spare)
{
    const void *raw = from;
    bool rounded = t->rounded >> op & 1, runs = t->stride[op][0] == t->raw[op];
    if (runs && rows > 1 && t->cast[op] && cols >= TD_TILE_SHORT) {
        for (int64_t r = 0; r < rows; r++, raw = (const char *)raw + t->stride[op][1])
            t->cast[op](cols, buffer + r * cols * t->body[op], &raw, NULL);
        if (rounded) round_off(t, rows * cols, buffer, buffer, spare);
        return buffer;
    }
    if (!(rows == 1 && runs)) {
        void *to = t->cast[op] ? spare : buffer;
        td_gather(to, from, rows, cols, t->ndim > 1 ? t->stride[op][1] : 0, t->stride[op][0], t->raw[op]);
        raw = to;
    }
    if (!t->cast[op] && !rounded) return raw;
    if (t->cast[op]) t->cast[op](rows * cols, buffer, &raw, NULL);
    if (rounded) round_off(t, rows * cols, buffer, t->cast[op] ? buffer : raw, spare);
    return buffer;
}

static void put(const td_tiles *t, char *to, int64_t rows, int64_t cols, char *buffer, char *spare)
{
    bool straight = rows == 1 && t->stride[0][0] == t->raw[0];
    if (t->rounded & 1) round_off(t, rows * cols, buffer, buffer, spare);
    if (t->cast[0]) {
        const void *from = buffer;
        t->cast[0](rows * cols, straight ? to : spare, &from, NULL);
        if (straight) return;
        buffer = spare;
    }
    td_scatter(to, buffer, rows, cols, t->ndim > 1 ? t->stride[0][1] : 0, t->stride[0][0], t->raw[0]);
}

/* One that only moves elements puts them where they belong at once. */
static bool moved(const td_tiles *t, char *to, const char *from, int64_t rows, int64_t cols, const char *value)
{
    if (!t->moves || !t->dense || t->mode[0] != TD_TILE_DIRECT) return false;
    if (t->mode[1] == TD_TILE_CONST) td_fill(to, value, rows * cols, t->raw[0]);
    else if (t->mode[1] == TD_TILE_GATHER)
        td_gather(to, from, rows, cols, t->ndim > 1 ? t->stride[1][1] : 0, t->stride[1][0], t->raw[0]);
    else return false;
    return true;
}

static int run_tile(const td_tiles *t, const place *p, char *scratch)
{
    int64_t r0 = p->row * t->rows, c0 = p->col * t->cols;
    int64_t rows = t->ndim > 1 ? min64(t->rows, t->shape[1] - r0) : 1, cols = min64(t->cols, t->shape[0] - c0);
    char *base[TD_TILE_OPS], *spare = scratch + TD_TILE_OPS * TD_TILE_BYTES;
    const void *in[TD_TILE_OPS];
    int64_t pitch[TD_TILE_OPS];
    for (int op = 0; op < t->nops; op++) {
        char *buffer = scratch + op * TD_TILE_BYTES;
        int64_t down = t->ndim > 1 ? t->stride[op][1] : 0;
        base[op] = t->data[op] + p->outer[op] + r0 * down + c0 * t->stride[op][0];
        pitch[op] = t->mode[op] == TD_TILE_DIRECT ? down : t->mode[op] == TD_TILE_CONST ? 0 : cols * t->body[op];
        if (op == 0) continue;
        if (moved(t, base[0], base[op], rows, cols, buffer)) return 0;
        if (t->mode[op] == TD_TILE_DIRECT) in[op - 1] = base[op];
        else if (t->mode[op] != TD_TILE_GATHER) in[op - 1] = buffer;
        else in[op - 1] = fetch(t, op, base[op], rows, cols, buffer, spare);
    }
    char *out = t->mode[0] == TD_TILE_DIRECT ? base[0] : scratch;
    int rc = 0;
    if (t->dense) {
        rc = t->fn(rows * cols, out, in, t->at);
    } else {
        for (int64_t r = 0; r < rows; r++) {
            rc |= t->fn(cols, out + r * pitch[0], in, t->at);
            for (int op = 1; op < t->nops; op++) in[op - 1] = (const char *)in[op - 1] + pitch[op];
        }
    }
    if (t->mode[0] != TD_TILE_DIRECT) put(t, base[0], rows, cols, scratch, spare);
    return rc;
}

int td_tiles_run(const td_tiles *t, int64_t from, int64_t to, void *scratch)
{
    if (from >= to) return 0;
    char *buffers = scratch;
    for (int op = 1; op < t->nops; op++) {
        if (t->mode[op] == TD_TILE_ONCE)
            fetch(t, op, t->data[op], t->rows, t->cols, buffers + op * TD_TILE_BYTES,
                  buffers + TD_TILE_OPS * TD_TILE_BYTES);
        if (t->mode[op] == TD_TILE_CONST) {
            _Alignas(16) char value[16], spare[16];
            const void *raw = t->data[op];
            if (t->cast[op]) t->cast[op](1, value, &raw, NULL);
            else memcpy(value, raw, t->raw[op]);
            if (t->rounded >> op & 1) round_off(t, 1, value, value, spare);
            td_fill(buffers + op * TD_TILE_BYTES, value, min64(t->rows * t->cols, TD_TILE_BYTES / t->body[op]),
                    t->body[op]);
        }
    }
    place p;
    start_at(t, from, &p);
    int rc = 0;
    for (int64_t i = from; i < to; i++) {
        rc |= run_tile(t, &p, buffers);
        step(t, &p);
    }
    return rc;
}

int td_tiles_chunk(const td_tiles *t, int64_t chunk, void *scratch)
{
    int64_t from = chunk * t->per_chunk;
    return td_tiles_run(t, from, min64(from + t->per_chunk, t->count), scratch);
}
