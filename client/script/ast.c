/* The tree: making it, and printing it. See ast.h. */
#include "client/script/ast.h"

#include <stdlib.h>
#include <string.h>

static const char *const kinds[] = {
#define KIND_TEXT(name, text) text,
    TD_AST_KINDS(KIND_TEXT)};

static const char *const ops[] = {
    "",  "+",   "-",   "*",  "@",  "/",  "//", "%",  "**", "<<", ">>", "&",      "|",  "^",
    "~", "not", "and", "or", "==", "!=", "<",  "<=", ">",  ">=", "in", "not in", "is", "is not"};

const char *td_ast_op_text(unsigned op)
{
    return ops[op];
}

void td_ast_deinit(td_ast *a)
{
    free(a->nodes);
    free(a->kids);
    free(a->bytes);
    free(a->texts);
    free(a->hashed);
    *a = (td_ast){0};
}

static bool copy(void *to, const void *from, size_t bytes)
{
    void *made = malloc(bytes + 1);
    *(void **)to = made ? memcpy(made, from, bytes) : NULL;
    return made;
}

bool td_ast_copy(td_ast *to, const td_ast *from)
{
    *to = *from;
    to->node_room = to->nnodes, to->kid_room = to->nkids, to->byte_room = to->nbytes, to->text_room = to->ntexts;
    bool good = copy(&to->nodes, from->nodes, from->nnodes * sizeof *to->nodes);
    good &= copy(&to->kids, from->kids, from->nkids * sizeof *to->kids);
    good &= copy(&to->bytes, from->bytes, from->nbytes);
    good &= copy(&to->texts, from->texts, from->ntexts * sizeof *to->texts);
    good &= copy(&to->hashed, from->hashed, from->hash_room * sizeof *to->hashed);
    if (!good) td_ast_deinit(to);
    return good;
}

static unsigned height_over(const td_ast *a, const uint32_t *kids, uint32_t n)
{
    unsigned height = 0;
    for (uint32_t i = 0; i < n; i++)
        if (a->nodes[kids[i]].height > height) height = a->nodes[kids[i]].height;
    return height + 1;
}

uint32_t td_ast_add(td_fault *f, td_ast *a, unsigned kind, unsigned op, td_span at, const uint32_t *kids, uint32_t n)
{
    td_script_room(f, &a->nodes, a->nnodes, 2, &a->node_room, sizeof *a->nodes);
    if (!a->nnodes) a->nodes[a->nnodes++] = (td_ast_node){0};
    td_script_room(f, &a->kids, a->nkids, n, &a->kid_room, sizeof *a->kids);
    unsigned height = height_over(a, kids, n);
    if (height > TD_SCRIPT_DEPTH)
        td_refuse(f, TD_E_INVALID, at, "this is nested more than %d deep; name its parts", TD_SCRIPT_DEPTH);
    a->nodes[a->nnodes] = (td_ast_node){(uint8_t)kind, (uint8_t)op, (uint16_t)height, at, a->nkids, n};
    for (uint32_t i = 0; i < n; i++) a->kids[a->nkids++] = kids[i];
    return a->nnodes++;
}

/* ---- texts */

static uint32_t hash_of(const char *bytes, size_t size)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < size; i++) h = (h ^ (unsigned char)bytes[i]) * 16777619u;
    return h ^ h >> 15;
}

/* Where a text is in `hashed`, or where it would be put. */
static uint32_t *slot_of(td_ast *a, const char *bytes, size_t size)
{
    uint32_t k = hash_of(bytes, size);
    for (;; k++) {
        uint32_t *slot = &a->hashed[k & (a->hash_room - 1)];
        if (!*slot) return slot;
        const struct td_ast_text *t = &a->texts[*slot - 1];
        if (t->size == size && memcmp(a->bytes + t->at, bytes, size) == 0) return slot;
    }
}

static void more_slots(td_fault *f, td_ast *a)
{
    uint32_t room = a->hash_room ? 2 * a->hash_room : 64, *old = a->hashed;
    uint32_t *fresh = calloc(room, sizeof *fresh);
    if (!fresh) td_refuse_memory(f);
    a->hashed = fresh, a->hash_room = room;
    for (uint32_t i = 0; i < a->ntexts; i++) *slot_of(a, a->bytes + a->texts[i].at, a->texts[i].size) = i + 1;
    free(old);
}

uint32_t td_ast_intern(td_fault *f, td_ast *a, const char *bytes, size_t size)
{
    if (2 * a->ntexts >= a->hash_room) more_slots(f, a);
    uint32_t *slot = slot_of(a, bytes, size);
    if (*slot) return *slot - 1;
    td_script_room(f, &a->texts, a->ntexts, 1, &a->text_room, sizeof *a->texts);
    td_script_room(f, &a->bytes, a->nbytes, (uint32_t)size + 1, &a->byte_room, 1);
    memcpy(a->bytes + a->nbytes, bytes, size);
    a->bytes[a->nbytes + size] = 0;
    a->texts[a->ntexts] = (struct td_ast_text){a->nbytes, (uint32_t)size};
    a->nbytes += (uint32_t)size + 1;
    *slot = ++a->ntexts;
    return a->ntexts - 1;
}

/* ---- print */

static void print_string(const td_ast *a, uint32_t text, FILE *to)
{
    const char *p = td_ast_text(a, text), *end = p + a->texts[text].size;
    fputs(" \"", to);
    for (; p < end; p++) {
        if (*p >= ' ' && *p < 0x7f && *p != '"' && *p != '\\') fputc(*p, to);
        else fprintf(to, "\\x%02x", (unsigned char)*p);
    }
    fputc('"', to);
}

static void print_value(const td_ast *a, const td_ast_node *n, FILE *to)
{
    static const char *const places[] = {"", " /", " *"};
    switch (n->kind) {
    case TD_N_STRING: print_string(a, n->text, to); break;
    case TD_N_INT: fprintf(to, n->op ? " 9223372036854775808" : " %lld", (long long)n->i); break;
    case TD_N_BOOL: fputs(n->i ? " True" : " False", to); break;
    case TD_N_FLOAT:
    case TD_N_IMAGINARY: fprintf(to, " %.17g", n->f); break;
    case TD_N_FUNCTION:
    case TD_N_CLASS:
    case TD_N_NAME:
    case TD_N_KEYWORD:
    case TD_N_ATTRIBUTE: fprintf(to, " %s", td_ast_text(a, n->text)); break;
    case TD_N_PARAM: fprintf(to, " %s%s", td_ast_text(a, n->text), places[n->op]); break;
    case TD_N_VALUE:
        if (n->op) fprintf(to, " !%c", n->op);
        break;
    default:
        if (n->op) fprintf(to, " %s", ops[n->op]);
    }
}

static void print_node(const td_ast *a, uint32_t node, unsigned depth, FILE *to)
{
    const td_ast_node *n = &a->nodes[node];
    fprintf(to, "%*s%s", 2 * (int)depth, "", kinds[n->kind]);
    print_value(a, n, to);
    if (node) fprintf(to, " %u:%u-%u:%u", n->span.line, n->span.column, n->span.end_line, n->span.end_column);
    fputc('\n', to);
    for (uint32_t k = 0; k < n->n; k++) print_node(a, a->kids[n->first + k], depth + 1, to);
}

bool td_ast_print(const td_ast *a, FILE *to)
{
    if (a->nnodes) print_node(a, a->root, 0, to);
    return !ferror(to);
}
