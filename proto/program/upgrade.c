/* Matching an old signature to today's: by the names of arguments, whose types may have become wider. */
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

static bool is_type(const argument *a, const char *type)
{
    return (size_t)a->type_length == strlen(type) && !memcmp(a->type, type, (size_t)a->type_length);
}

/* What was given then is what is taken now: of the same type, or of one that takes more. */
static bool takes(const argument *now, const argument *was)
{
    static const char *const wider[][2] = {{"T", "TS"}, {"i", "S"}, {"f", "S"}};
    int n = was->type_length;
    bool same = now->type_length >= n && !memcmp(now->type, was->type, (size_t)n);
    if (same && (now->type_length == n || (now->type_length == n + 1 && now->type[n] == '?'))) return true;
    for (size_t k = 0; k < sizeof wider / sizeof *wider; k++)
        if (is_type(was, wider[k][0]) && is_type(now, wider[k][1])) return true;
    return false;
}

static int find(const argument *a, int n, const argument *wanted)
{
    for (int i = 0; i < n; i++)
        if (a[i].name_length == wanted->name_length && !memcmp(a[i].name, wanted->name, (size_t)wanted->name_length))
            return takes(wanted, &a[i]) ? i : -1;
    return -1;
}

/* Without it a call means something: a default, or of tensors that may be absent none. */
static bool may_be_left_out(const argument *a)
{
    return a->has_default || is_type(a, "T?");
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
        good = u->from[i] >= 0 || may_be_left_out(&is[i]);
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
        now[i] = u->from[i] >= 0 ? old[u->from[i]] : is_attr ? default_of(e, &u->op->attrs[attr]) : td_ir_none(e);
        attr += is_attr;
    }
}
