/* Freezing a program: what it captures becomes constants of its own, and what is made of these alone is made once. */
#include "proto/passes/freeze.h"
#include "client/program/programs.h"

#include <stdlib.h>
#include <string.h>

typedef struct freezing {
    td_program *from;
    const char *const *kept;
    int nkept;
    td_frozen parts;
    td_array **copies; /* by captured tensor of `from`, of those that are needed; a reference each */
    td_value made;     /* what the setup gave */
} freezing;

/* Is captured tensor k the one that is to be kept as the i-th? */
static bool is_called(const freezing *z, int k, int i)
{
    const td_ir *ir = z->from->ir;
    return strcmp(z->kept[i], td_ir_chars(ir, ir->captures[k].name)) == 0;
}

static bool is_kept(const freezing *z, int k)
{
    for (int i = 0; i < z->nkept; i++)
        if (is_called(z, k, i)) return true;
    return false;
}

static int all_kept_are_captured(const freezing *z)
{
    for (int i = 0; i < z->nkept; i++) {
        bool any = false;
        for (int k = 0; k < (int)z->from->ir->ncaptures; k++) any |= is_called(z, k, i);
        if (!any)
            return td_raise(TD_E_NOT_FOUND, "program_freeze", "the program captures no '%.80s' that could be kept",
                            z->kept[i]);
    }
    return TD_OK;
}

/* How each looks, as the passes want to know it. */
static int look_at(const freezing *z, td_frozen_look *looks)
{
    int rc = TD_OK;
    for (int k = 0; k < z->from->ncaptured && !rc; k++) {
        td_info info;
        rc = td_get_info(z->from->captured[k], &info);
        if (!rc)
            rc = td_dtype_of(z->from->captured[k]) == TD_DTYPE_NONE ? td_last_error()->code
                                                                    : TD_OK; /* it is known now */
        const td_desc *d = &z->from->captured[k]->desc;
        looks[k] = (td_frozen_look){{.dtype = TD_DTYPE_NONE}, info.storage};
        if (rc || is_kept(z, k)) continue;
        looks[k].type = (td_tensor_type){d->dtype, TD_TYPE_ANY, TD_TYPE_ANY, (uint8_t)d->ndim, {0}};
        for (int i = 0; i < d->ndim; i++) looks[k].type.sizes[i] = d->shape[i];
    }
    return rc;
}

static int take_apart(freezing *z, bool exactly)
{
    td_error e = {0};
    int rc = TD_OK;
    td_frozen_look *looks = calloc((size_t)z->from->ncaptured + 1, sizeof *looks);
    z->copies = calloc((size_t)z->from->ncaptured + 1, sizeof(td_array *));
    if (!looks || !z->copies) rc = td_raise(TD_E_SYSTEM, "program_freeze", "no memory to freeze a program");
    if (!rc) rc = look_at(z, looks);
    if (!rc && td_ir_freeze(&z->parts, td_ir_ref(z->from->ir), looks, exactly, &e))
        rc = td_raise_error(&e, "program_freeze", NULL);
    free(looks);
    return rc;
}

/* ---- its own tensors */

/* What the program writes, and what is to be kept, stays what it is; of the others there is one copy each. */
static td_array *own(freezing *z, uint32_t k)
{
    td_array *a = z->from->captured[k];
    if (z->copies[k]) return z->copies[k];
    for (uint32_t i = 0; i < (uint32_t)z->from->ncaptured && !z->copies[k]; i++)
        if (z->copies[i] && z->from->captured[i] == a) z->copies[k] = td_retain(z->copies[i]);
    bool shared = z->parts.written[k];
    if (!z->copies[k]) z->copies[k] = shared ? td_retain(a) : td_at_copy(NULL, a, TD_DTYPE_NONE);
    return z->copies[k];
}

/* What the setup gave. The program has a copy, which nobody was told the address of: so the daemon knows who writes it,
 * nobody, and may keep it as its kernels want it. */
static td_array *made(const freezing *z, uint32_t nr)
{
    return td_copy_as_it_lies(NULL, z->made.kind == TD_VALUE_ARRAY ? z->made.array : z->made.items[nr].array,
                              TD_DTYPE_NONE);
}

static td_program *give(freezing *z, td_ir *ir, const uint32_t *from)
{
    td_array **at = calloc(ir->ncaptures + 1u, sizeof(td_array *));
    bool good = at != NULL;
    if (!at) td_raise(TD_E_SYSTEM, "program_freeze", "no memory for %u tensors", ir->ncaptures);
    for (uint32_t k = 0; k < ir->ncaptures && good; k++) {
        uint32_t nr = from[k] & ~TD_FROZEN_MADE;
        at[k] = from[k] & TD_FROZEN_MADE ? made(z, nr) : own(z, nr);
        good = at[k] != NULL;
    }
    td_list captured = td_arrays_of((int)ir->ncaptures, at);
    td_program *p = good ? td_program_give(z->from->client, td_ir_ref(ir), captured, "program_freeze") : NULL;
    for (uint32_t k = 0; at && k < ir->ncaptures; k++)
        if (from[k] & TD_FROZEN_MADE) td_release(at[k]);
    free(at);
    return p;
}

/* What is wrong with what was made is told here; errors of what was asked before are others' to be told of. */
static int look_at_made(const freezing *z)
{
    bool one = z->made.kind == TD_VALUE_ARRAY;
    int n = one ? 1 : (int)z->made.n, rc = TD_OK;
    for (int i = 0; i < n && !rc; i++) {
        td_array *a = one ? z->made.array : z->made.items[i].array;
        if (td_device_of(a) != TD_CPU) return td_sync(z->from->client);
        if (td_numel(a) < 0 || (td_numel(a) && !td_data(a))) rc = td_last_error()->code;
    }
    return rc;
}

/* Once: what is made of constants. */
static int set_up(freezing *z)
{
    if (!z->parts.setup) return TD_OK;
    td_program *p = give(z, z->parts.setup, z->parts.setup_from);
    int rc = p ? td_program_at_call(NULL, p, 0, NULL, &z->made) : td_last_error()->code;
    td_program_free(p);
    return rc ? rc : look_at_made(z);
}

static void end(freezing *z)
{
    for (int k = 0; z->copies && k < z->from->ncaptured; k++)
        if (z->copies[k]) td_release(z->copies[k]);
    free(z->copies);
    td_value_free(&z->made);
    td_frozen_free(&z->parts);
}

TD_API td_program *td_program_freeze(td_program *p, int nkept, const char *const *kept, unsigned flags)
{
    freezing z = {.from = p, .kept = kept, .nkept = nkept};
    if (!p || (nkept > 0 && !kept)) {
        td_raise_null("program_freeze", p ? "kept" : "the program");
        return NULL;
    }
    int rc = td_enter(p->client, "program_freeze");
    if (rc) return NULL;
    rc = td_program_captured(p);
    td_leave(p->client);
    if (!rc) rc = all_kept_are_captured(&z);
    if (!rc) rc = take_apart(&z, flags & TD_FREEZE_EXACTLY);
    bool graded = td_set_grad_enabled(false);
    if (!rc) rc = set_up(&z);
    td_program *made = rc ? NULL : give(&z, z.parts.main, z.parts.main_from);
    td_set_grad_enabled(graded);
    end(&z);
    return made;
}
