/* Sealed modules: counted, compared, freed; and where each array lies. */
#include "proto/program/arrays.h"

#include <stdlib.h>

#define LAYOUT(array, number, limit)                                                                                   \
    {                                                                                                                  \
        offsetof(td_ir_edit, array), offsetof(td_ir_edit, number), sizeof *((td_ir_edit *)NULL)->array, limit          \
    }

const td_ir_layout td_ir_layouts[TD_A_ARRAYS] = {
    [TD_A_TYPES] = LAYOUT(ir.types, ir.ntypes, TD_IR_MAX_ITEMS),
    [TD_A_VALUES] = LAYOUT(ir.values, ir.nvalues, TD_IR_MAX_ITEMS),
    [TD_A_NODES] = LAYOUT(ir.nodes, ir.nnodes, TD_IR_MAX_ITEMS),
    [TD_A_BLOCKS] = LAYOUT(ir.blocks, ir.nblocks, TD_IR_MAX_ITEMS),
    [TD_A_FUNCTIONS] = LAYOUT(ir.functions, ir.nfunctions, TD_IR_MAX_ENDS),
    [TD_A_CAPTURES] = LAYOUT(ir.captures, ir.ncaptures, TD_IR_MAX_ENDS),
    [TD_A_SOURCES] = LAYOUT(ir.sources, ir.nsources, TD_IR_MAX_ITEMS),
    [TD_A_STRINGS] = LAYOUT(ir.strings, ir.nstrings, TD_IR_MAX_ITEMS),
    [TD_A_PARTS] = LAYOUT(ir.parts, ir.nparts, TD_IR_MAX_ITEMS),
    [TD_A_WORDS] = LAYOUT(ir.words, ir.nwords, TD_IR_MAX_ITEMS),
    [TD_A_ARGS] = LAYOUT(ir.args, ir.nargs, TD_IR_MAX_ITEMS),
    [TD_A_DEFS] = LAYOUT(ir.defs, ir.ndefs, TD_IR_MAX_ITEMS),
    [TD_A_CHARS] = LAYOUT(ir.chars, ir.nchars, TD_IR_MAX_BYTES),
    [TD_A_USES] = LAYOUT(uses, nuses, TD_IR_MAX_ITEMS),
    [TD_A_USED] = LAYOUT(used, nused, TD_IR_MAX_ITEMS),
    [TD_A_QUEUE] = LAYOUT(queue, nqueue, TD_IR_MAX_ITEMS),
    [TD_A_MAP] = LAYOUT(map, nmap, TD_IR_MAX_ITEMS),
};

static void *array_of(const td_ir *ir, int which)
{
    return *(void *const *)((const char *)ir + td_ir_layouts[which].at);
}

static size_t bytes_of(const td_ir *ir, int which)
{
    return *(const uint32_t *)((const char *)ir + td_ir_layouts[which].count) * td_ir_layouts[which].item;
}

td_ir *td_ir_ref(td_ir *ir)
{
    atomic_fetch_add(&ir->refs, 1);
    return ir;
}

void td_ir_unref(td_ir *ir)
{
    if (!ir || atomic_fetch_sub(&ir->refs, 1) != 1) return;
    for (int i = 0; i < TD_A_OF_IR; i++) free(array_of(ir, i));
    free(ir);
}

size_t td_ir_bytes(const td_ir *ir)
{
    size_t total = sizeof *ir;
    for (int i = 0; i < TD_A_OF_IR; i++) total += bytes_of(ir, i);
    return total;
}

bool td_ir_equal(const td_ir *a, const td_ir *b)
{
    for (int i = 0; i < TD_A_OF_IR; i++) {
        size_t n = bytes_of(a, i);
        if (n != bytes_of(b, i) || (n && memcmp(array_of(a, i), array_of(b, i), n) != 0)) return false;
    }
    return true;
}
