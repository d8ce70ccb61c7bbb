/* Names of values as Python takes them: dots become _, what means something else gets one more. Values without a name
 * are v and their number; no other name looks so. */
#include "proto/program/code_print.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct taken { /* a table of the names so far: where they begin in the pool */
    uint32_t *slots, size;
} taken;

static bool means_something(const char *name)
{
    static const char *const words[] = {
        "False",    "None",   "True",    "and",   "as",     "assert",   "async",   "await",  "break",   "class",
        "continue", "def",    "del",     "elif",  "else",   "except",   "finally", "for",    "from",    "global",
        "if",       "import", "in",      "is",    "lambda", "nonlocal", "not",     "or",     "pass",    "raise",
        "return",   "try",    "while",   "with",  "yield",  "match",    "td",      "math",   "forward", "abs",
        "bool",     "chr",    "complex", "float", "int",    "len",      "list",    "max",    "min",     "ord",
        "print",    "range",  "round",   "str",   "sorted", "tuple",    "sum",     "format", "repr",    "RuntimeError"};
    for (size_t k = 0; k < sizeof words / sizeof words[0]; k++)
        if (strcmp(words[k], name) == 0) return true;
    size_t digits = strspn(name + 1, "0123456789");
    const char *rest = name + 1 + digits;
    return *name == 'v' && digits && (!*rest || strcmp(rest, "_go") == 0);
}

static uint32_t hash(const char *text)
{
    uint32_t h = 2166136261u;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

/* Was it free? Then it is taken now. */
static bool take(const td_coder *c, taken *t, uint32_t at)
{
    for (uint32_t k = hash(c->pool + at) % t->size;; k = (k + 1) % t->size) {
        if (!t->slots[k]) return t->slots[k] = at, true;
        if (strcmp(c->pool + t->slots[k], c->pool + at) == 0) return false;
    }
}

/* Room for the name and its tail is there. */
static uint32_t choose(td_coder *c, taken *t, uint32_t value, uint32_t at)
{
    const td_ir *ir = c->ir;
    const char *name = td_ir_chars(ir, ir->values[value].name);
    char *out = c->pool + at;
    size_t n = strlen(name);
    for (size_t k = 0; k <= n; k++) out[k] = name[k] == '.' ? '_' : name[k];
    if (means_something(out)) memcpy(out + n++, "_", 2);
    bool own = take(c, t, at);
    for (uint32_t k = 0; !own; k++) {
        snprintf(out + n, 30, "_v%u_%u_", value, k);
        own = take(c, t, at);
    }
    return at + (uint32_t)strlen(out) + 1;
}

bool td_coder_names(td_coder *c)
{
    const td_ir *ir = c->ir;
    size_t bytes = 1;
    for (uint32_t v = 0; v < ir->nvalues; v++)
        if (ir->values[v].name != TD_IR_NONE) bytes += ir->strings[ir->values[v].name].length + 32;
    taken t = {calloc(2 * (size_t)ir->nvalues + 3, sizeof *t.slots), 2 * ir->nvalues + 3};
    c->names = calloc((size_t)ir->nvalues + 1, sizeof *c->names);
    c->pool = malloc(bytes);
    bool good = t.slots && c->names && c->pool;
    uint32_t at = 1; /* 0 means none */
    for (uint32_t v = 0; good && v < ir->nvalues; v++)
        if (ir->values[v].name != TD_IR_NONE) c->names[v] = at, at = choose(c, &t, v, at);
    free(t.slots);
    return good;
}

void td_coder_name(td_coder *c, uint32_t value)
{
    if (c->names[value]) td_printf(&c->p, "%s", c->pool + c->names[value]);
    else td_printf(&c->p, "v%u", value);
}

void td_coder_function(td_coder *c, uint32_t function)
{
    const char *name = function ? td_ir_chars(c->ir, c->ir->functions[function].name) : "forward";
    for (; *name; name++) td_print_bytes(&c->p, *name == '.' ? "_" : name, 1);
}
