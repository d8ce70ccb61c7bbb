/* Matching an old signature to today's: by the names and types of arguments. */
#include "proto/program/upgrade.h"

#include "proto/program/literal.h"
#include "proto/program/prim.h"
#include <stdio.h>

typedef struct argument { /* of a signature: a piece of its text */
    const char *name, *type;
    int name_length, type_length;
    bool has_default;
} argument;

/* Where an argument ends: at a comma or the last parenthesis, outside of brackets. */
static const char *end_of(const char *at)
{
    int depth = 0;
    for (; *at && (depth || (*at != ',' && *at != ')')); at++) depth += (*at == '[') - (*at == ']');
    return at;
}

/* The arguments between parentheses, or -1: it is no signature. *behind: what follows. */
static int arguments_of(const char *text, argument *out, const char **behind)
{
    int n = 0;
    if (*text++ != '(') return -1;
    while (*text && *text != ')') {
        while (*text == ' ') text++;
        const char *end = end_of(text), *colon = memchr(text, ':', (size_t)(end - text));
        if (n == TD_MAX_ARGUMENTS || !*end || !colon) return -1;
        const char *equals = memchr(colon, '=', (size_t)(end - colon));
        out[n++] = (argument){text, colon + 1, (int)(colon - text), (int)((equals ? equals : end) - colon - 1),
                              equals != NULL};
        text = *end == ',' ? end + 1 : end;
    }
    *behind = text;
    return *text ? n : -1;
}

static bool same_argument(const argument *a, const argument *b)
{
    return a->name_length == b->name_length && !memcmp(a->name, b->name, (size_t)a->name_length) &&
           a->type_length == b->type_length && !memcmp(a->type, b->type, (size_t)a->type_length);
}

static int find(const argument *a, int n, const argument *wanted)
{
    for (int i = 0; i < n; i++)
        if (same_argument(&a[i], wanted)) return i;
    return -1;
}

int td_upgrade_plan(td_upgrade *u, const td_op *op, const char *old, td_error *e)
{
    argument was[TD_MAX_ARGUMENTS], is[TD_MAX_ARGUMENTS];
    const char *results = "", *today = "";
    size_t length = strlen(op->name);
    bool named = !strncmp(old, op->name, length);
    int nwas = named ? arguments_of(old + length, was, &results) : -1, nis = arguments_of(op->signature, is, &today),
        kept = 0;
    *u = (td_upgrade){.op = op, .needed = true, .nold = (uint8_t)nwas, .n = (uint8_t)nis};
    bool good = nwas >= 0 && nis >= 0 && !strcmp(results, today);
    for (int i = 0; good && i < nis; i++) {
        u->from[i] = (int8_t)find(was, nwas, &is[i]);
        kept += u->from[i] >= 0;
        good = u->from[i] >= 0 || is[i].has_default;
    }
    if (good && kept == nwas) return 0;
    return td_fail(e, TD_E_UNSUPPORTED,
                   "the program was made for %.120s, which is %s%.120s here: make it anew with this release", old,
                   op->name, op->signature);
}

static uint32_t list_default(td_ir_edit *e, const td_attr_def *def)
{
    uint32_t items[TD_MAX_INTS], type = td_type_list(e, td_type_plain(e, TD_T_INT));
    for (int i = 0; i < def->value.count; i++) items[i] = td_ir_int(e, def->ints[i]);
    return td_ir_result(e, td_ir_op(e, TD_PRIM_LISTCONSTRUCT, def->value.count, items, 1, &type));
}

static uint32_t scalar_default(td_ir_edit *e, td_scalar s)
{
    switch (s.kind) {
    case TD_S_BOOL: return td_ir_bool(e, s.i != 0);
    case TD_S_INT: return td_ir_int(e, s.i);
    case TD_S_FLOAT: return td_ir_float(e, s.re);
    default: return td_ir_complex(e, s.re, s.im);
    }
}

/* What a call that does not name the attribute means. */
static uint32_t default_of(td_ir_edit *e, const td_attr_def *def)
{
    switch ((td_attr_kind)def->value.kind) {
    case TD_A_INT: return td_ir_int(e, def->value.i);
    case TD_A_FLOAT: return td_ir_float(e, def->value.f);
    case TD_A_BOOL: return td_ir_bool(e, def->value.i != 0);
    case TD_A_SCALAR: return scalar_default(e, def->value.s);
    case TD_A_DTYPE: return td_ir_dtype(e, (td_dtype)def->value.i);
    case TD_A_INTS: return list_default(e, def);
    default: return td_ir_none(e);
    }
}

void td_upgrade_call(const td_upgrade *u, td_ir_edit *e, const uint32_t *old, uint32_t *now)
{
    for (int i = 0, attr = 0; i < u->n; i++) {
        bool is_attr = u->op->attrs_at >> i & 1;
        now[i] = u->from[i] >= 0 ? old[u->from[i]] : default_of(e, &u->op->attrs[attr]);
        attr += is_attr;
    }
}
