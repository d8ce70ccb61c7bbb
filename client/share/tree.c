/* Many tensors under one name: the bytes of one, so that whoever opens it has all of them as they were at one moment.
 *
 * First a head, with a row for each tensor; then the note; then the tensors, each at a multiple of 64 bytes. All of it
 * is a new tensor of service memory, which ops of this stream fill, and which takes the place of what had the name at
 * once. Who opens it believes nothing of it: rows are copied before they are looked at, and what lies outside is
 * refused. */

#include "client/share/internal.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64 };

typedef struct head {
    uint64_t tensors, note_size;
} head;

typedef struct row {
    uint64_t dtype, ndim, at; /* `at`: bytes from the start */
    int64_t shape[TD_MAX_DIMS];
} row;

static uint64_t aligned(uint64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* The tensor of a row, as a view of the bytes. */
static td_array *view_of(td_array *bytes, const row *r)
{
    td_ints shape = td_dims_of((int)r->ndim, r->shape);
    uint64_t n = td_dtype_size((td_dtype)r->dtype);
    for (int k = 0; k < shape.n; k++) n *= (uint64_t)shape.at[k];
    if (n == 0) return td_at_empty(NULL, bytes->client, shape, (td_dtype)r->dtype);
    td_array *part = td_at_slice(NULL, bytes, 0, td_arg_int((int64_t)r->at), td_arg_int((int64_t)(r->at + n)), 1);
    td_array *typed = td_at_view_dtype(NULL, part, (td_dtype)r->dtype), *view = td_at_view(NULL, typed, shape);
    td_release(part);
    td_release(typed);
    return view;
}

/* Head, rows and note; where the tensors lie is told by the rows. `size`: of all. */
static unsigned char *make_head(td_list arrays, const void *note, size_t note_size, size_t *head_size, uint64_t *size)
{
    *head_size = sizeof(head) + (size_t)arrays.n * sizeof(row) + note_size;
    unsigned char *made = calloc(1, *head_size);
    if (!made) return NULL;
    row *rows = (row *)(made + sizeof(head));
    *(head *)made = (head){(uint64_t)arrays.n, note_size};
    *size = aligned(*head_size);
    for (int i = 0; i < arrays.n; i++) {
        td_array *a = arrays.at[i];
        rows[i] = (row){(uint64_t)td_dtype_of(a), (uint64_t)td_ndim(a), *size, {0}};
        for (int k = 0; k < td_ndim(a); k++) rows[i].shape[k] = td_shape(a)[k];
        *size = aligned(*size + (uint64_t)td_nbytes(a));
    }
    if (note_size) memcpy(rows + arrays.n, note, note_size);
    return made;
}

/* All as one tensor of bytes in service memory; NULL: raised. */
static td_array *gather(td_client *c, td_list arrays, const void *note, size_t note_size)
{
    size_t head_size;
    uint64_t size;
    unsigned char *made = make_head(arrays, note, note_size, &head_size, &size);
    if (!made) return td_raise(TD_E_SYSTEM, "publish", "no memory for the head of a tree"), NULL;
    unsigned before = td_now_on(TD_CPU);
    td_array *first = td_from_data(c, TD_UINT8, td_dims((int64_t)head_size), made);
    bool service = td_set_service(true);
    td_array *bytes = first ? td_at_empty(NULL, c, td_dims((int64_t)size), TD_UINT8) : NULL;
    td_set_service(service);
    td_now_on(before);
    td_array *place = bytes ? td_at_slice(NULL, bytes, 0, td_arg_int(0), td_arg_int((int64_t)head_size), 1) : NULL;
    int rc = place ? td_at_copy_(NULL, place, first) : td_last_error()->code;
    td_release(place);
    const row *rows = (const row *)(made + sizeof(head));
    for (int i = 0; i < arrays.n && !rc; i++) {
        if (td_numel(arrays.at[i]) == 0) continue;
        td_array *here = td_here(arrays.at[i]);
        place = here ? view_of(bytes, &rows[i]) : NULL;
        rc = place ? td_at_copy_(NULL, place, here) : td_last_error()->code;
        td_release(here);
        td_release(place);
    }
    td_release(first);
    free(made);
    if (!rc) return bytes;
    td_release(bytes);
    return NULL;
}

TD_API int td_publish_tree(td_client *c, const char *name, td_list arrays, const void *note, size_t note_size,
                           unsigned flags, uint64_t *version)
{
    uint64_t ignored;
    if (arrays.n > TD_MAX_ITEM)
        return td_raise(TD_E_INVALID, "publish", "%d tensors under one name; at most %d", arrays.n, TD_MAX_ITEM);
    int rc = td_list_client(&c, arrays, "publish", "an array");
    for (int i = 0; i < arrays.n && !rc; i++) /* shapes that only the daemon knows yet */
        if (td_nbytes(arrays.at[i]) < 0) rc = td_last_error()->code;
    if (rc) return rc;
    bool grad = td_set_grad_enabled(false);
    td_array *bytes = gather(c, arrays, note, note_size);
    td_set_grad_enabled(grad);
    rc = bytes ? td_publish_edition(bytes, arrays.n, name, flags & TD_REPLACE, version ? version : &ignored)
               : td_last_error()->code;
    td_release(bytes);
    return rc;
}

/* ---- open -------------------------------------------------------------------------------------------------------- */

static bool fits(const row *r, uint64_t size)
{
    if (r->dtype >= TD_DTYPE_COUNT || r->ndim > TD_MAX_DIMS || r->at % ALIGN || r->at > size) return false;
    uint64_t n = td_dtype_size((td_dtype)r->dtype);
    for (uint64_t k = 0; k < r->ndim; k++)
        if (r->shape[k] < 0 || __builtin_mul_overflow(n, (uint64_t)r->shape[k], &n)) return false;
    return n <= size - r->at;
}

int td_tree_open(td_array *bytes, td_queue_item *out)
{
    int64_t all = td_nbytes(bytes);
    const unsigned char *p = all < 0 ? NULL : td_data(bytes);
    if (!p) return td_last_error()->code;
    uint64_t size = (uint64_t)all;
    head h;
    if (size < sizeof h || td_dtype_of(bytes) != TD_UINT8 || td_ndim(bytes) != 1)
        return td_raise(TD_E_PROTOCOL, "open", "this is no tree of tensors");
    memcpy(&h, p, sizeof h);
    uint64_t rows = h.tensors <= TD_MAX_ITEM ? sizeof h + h.tensors * sizeof(row) : size + 1;
    if (rows > size || h.note_size > size - rows) return td_raise(TD_E_PROTOCOL, "open", "this is no tree of tensors");
    out->note_size = h.note_size;
    out->note = malloc(h.note_size + 1);
    out->at = malloc((h.tensors + 1) * sizeof *out->at);
    if (!out->note || !out->at) return td_raise(TD_E_SYSTEM, "open", "no memory for a tree");
    memcpy(out->note, p + rows, h.note_size);
    ((char *)out->note)[h.note_size] = 0;
    for (uint64_t i = 0; i < h.tensors; i++) {
        row r;
        memcpy(&r, p + sizeof h + i * sizeof r, sizeof r);
        if (!fits(&r, size)) return td_raise(TD_E_PROTOCOL, "open", "a tensor of the tree lies outside of it");
        td_array *a = view_of(bytes, &r);
        if (!a) return td_last_error()->code;
        out->at[out->n++] = a;
    }
    return TD_OK;
}

int td_opened_item(td_array *bytes, bool tree, td_queue_item *out)
{
    int rc = TD_OK;
    if (tree) {
        bool grad = td_set_grad_enabled(false);
        rc = td_tree_open(bytes, out);
        td_set_grad_enabled(grad);
        td_release(bytes);
    } else if ((out->at = malloc(sizeof *out->at))) {
        out->at[out->n++] = bytes;
    } else {
        td_release(bytes);
        rc = td_raise(TD_E_SYSTEM, "open", "no memory for a tree");
    }
    if (rc) td_queue_item_clear(out);
    return rc;
}

TD_API int td_open_tree(td_client *c, const char *name, uint64_t newer_than, int timeout_ms, td_queue_item *out,
                        uint64_t *version)
{
    *out = (td_queue_item){0};
    uint64_t ignored;
    bool tree;
    td_array *bytes = td_open_edition(c, name, newer_than, timeout_ms, version ? version : &ignored, &tree);
    return bytes ? td_opened_item(bytes, tree, out) : td_last_error()->code;
}
