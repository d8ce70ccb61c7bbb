/* Fuzzes programs as they come from outside: the first byte says whether the rest is a text or bytes. Nothing may
 * crash; what is refused is refused with a word; what the verifier passes is printed and packed, and comes back from
 * both as the same module; and it can be changed (a block cloned, nodes moved and erased), after which it is still a
 * program. */
#include "proto/program/code.h"
#include "proto/program/edit.h"
#include "proto/program/picture.h"
#include "proto/program/text.h"
#include "proto/program/verify.h"
#include "proto/program/wire.h"
#include "proto/rows/rows.h"

#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(bool holds, const char *what, const td_error *e)
{
    if (holds) return;
    fprintf(stderr, "%s: %s\n", what, e->message);
    abort();
}

/* As a source and as pictures; too large is an error, too. */
static void is_shown(const td_ir *ir)
{
    char *(*const ways[])(const td_ir *, td_error *) = {td_ir_code, td_ir_dot, td_ir_svg};
    for (unsigned k = 0; k < sizeof ways / sizeof ways[0]; k++) {
        td_error e = {0};
        char *text = ways[k](ir, &e);
        demand(text || e.code == TD_E_QUOTA, "not shown", &e);
        free(text);
    }
}

static void comes_back(td_ir *ir)
{
    td_error e = {0};
    char *text = td_ir_print(ir, &e);
    size_t n = 0;
    uint8_t *bytes = td_ir_encode(ir, &n, &e);
    demand(text && bytes, "not written", &e);
    td_ir *read = td_ir_read(text, strlen(text), &e), *unpacked = td_ir_decode(bytes, n, TD_VERIFY_ATEN, &e);
    demand(read && unpacked, "not read again", &e);
    demand(td_ir_equal(ir, read), "another one was read", &e);
    demand(td_ir_equal(ir, unpacked), "another one was unpacked", &e);
    td_ir_unref(read), td_ir_unref(unpacked);
    free(text);
    free(bytes);
}

/* Whatever is said of its rows, it is said after some steps. */
static void tells_of_rows(const td_ir *ir)
{
    enum { ENDS = 64 };
    td_desc looks[ENDS];
    int rows[ENDS], out[ENDS];
    char why[TD_ROWS_WHY];
    const td_ir_block *graph = &ir->blocks[ir->functions[0].block];
    if (graph->nparams > ENDS || ir->ncaptures > ENDS) return;
    td_desc_contiguous(&looks[0], TD_FLOAT32, 3, (int64_t[]){1, 2, 3}, NULL);
    for (int k = 0; k < ENDS; k++) looks[k] = looks[0], rows[k] = k % 3 - 1;
    td_rows_question q = {
        .ir = ir, .captured = looks, .nin = (int)graph->nparams, .in = looks, .in_rows = rows, .most = 500};
    for (q.nout = 1; q.nout <= 3; q.nout++) {
        td_error e = {0};
        snprintf(e.message, sizeof e.message, "rows");
        bool apart = td_rows_stay_apart(&q, out, why);
        demand(apart == !why[0], "no reason", &e);
    }
}

/* The body of each Loop and the arms of each If once more before it, with its own arguments where they fit. */
static void clone_blocks(td_ir_edit *e, uint32_t nodes)
{
    for (uint32_t n = 0; n < nodes && n < 64; n++) {
        const td_ir_node node = td_ir_now(e)->nodes[n];
        for (uint32_t k = 0; k < node.nblocks; k++) {
            const td_ir_block b = td_ir_now(e)->blocks[node.child + k];
            uint32_t *values = calloc(b.nparams + b.nrets + 1, sizeof *values);
            if (!values || (b.nparams && b.nparams != node.nin - 1)) {
                free(values);
                continue;
            }
            for (uint32_t i = 0; i < b.nparams; i++) values[i] = td_ir_in(td_ir_now(e), n, i ? i + 1 : 0);
            td_ir_to_before(e, n);
            td_ir_clone(e, node.child + k, values, values + b.nparams);
            free(values);
        }
    }
}

/* Erase what nobody uses, from the end; then the same program is verified again. */
static void can_be_changed(td_ir *ir, uint8_t how)
{
    td_error error = {0};
    td_ir_edit *e = td_ir_edit_new(ir, TD_IR_MAX_GROWN, &error);
    demand(e != NULL, "no edit", &error);
    if (how & 2) clone_blocks(e, ir->nnodes);
    for (uint32_t n = td_ir_now(e)->nnodes; how & 4 && n-- > 0;) {
        bool used = td_ir_now(e)->nodes[n].block == TD_IR_NONE;
        for (uint32_t i = 0; i < td_ir_now(e)->nodes[n].nout; i++)
            used |= td_ir_uses(e, td_ir_out(td_ir_now(e), n, i)) > 0;
        if (!used) td_ir_erase(e, n);
    }
    td_ir *now = td_ir_seal(e, &error);
    demand(now || error.code == TD_E_QUOTA, "not sealed", &error);
    /* random ops of a clone have the numbers of their originals */
    if (now && !(how & 2))
        demand(td_ir_verify(now, TD_VERIFY_ATEN | TD_VERIFY_GROWN, &error) == 0, "no program any more", &error);
    if (now && !(how & 6)) demand(td_ir_equal(ir, now), "an edit that changes nothing changes something", &error);
    td_ir_unref(now);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    td_error e = {0};
    if (!size) return 0;
    td_ir *ir = data[0] & 1 ? td_ir_decode(data + 1, size - 1, TD_VERIFY_ATEN, &e)
                            : td_ir_read((const char *)data + 1, size - 1, &e);
    demand(ir || (e.code != 0 && e.message[0]), "refused without a word", &e);
    if (ir && (data[0] & 1 || td_ir_verify(ir, TD_VERIFY_ATEN, &e) == 0)) {
        comes_back(ir);
        is_shown(ir);
        tells_of_rows(ir);
        can_be_changed(ir, data[0]);
    }
    td_ir_unref(ir);
    return 0;
}
