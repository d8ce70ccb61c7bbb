/* The functions of onnx.py as a table. See ops.h. By no lock, which a fork could leave taken: two threads may read it
 * twice. */
#include "client/onnx/ops.h"

#include "client/script/script.h"
#include "proto/base/near.h"

#include <ctype.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { NEAR = 3 }; /* letters */

typedef struct known {
    td_ast ast;
    td_onnx_ops ops;
} known;

static known *_Atomic all_known;

static bool is_called(const td_ast *ast, uint32_t node, const char *name)
{
    const td_ast_node *n = td_ast_at(ast, node);
    return n->kind == TD_N_NAME && strcmp(td_ast_text(ast, n->text), name) == 0;
}

static void take_param(const td_ast *ast, uint32_t node, td_onnx_form *f)
{
    const td_ast_node *p = td_ast_at(ast, node);
    if (f->nparams == sizeof f->params / sizeof *f->params) return;
    td_onnx_param *to = &f->params[f->nparams++];
    *to = (td_onnx_param){.name = td_ast_text(ast, p->text),
                          .input = p->op != TD_PLACE_KEYWORD,
                          .number = is_called(ast, td_ast_kid(ast, node, 0), "Any"),
                          .needed = !td_ast_kid(ast, node, 1)};
    f->ninputs += to->input;
    f->all |= to->input && strcmp(to->name, "inputs") == 0;
}

/* NAME_VERSION; false: a function of another kind. */
static bool take_form(const td_ast *ast, uint32_t node, td_onnx_form *f)
{
    const char *name = td_ast_text(ast, td_ast_at(ast, node)->text), *last = strrchr(name, '_');
    if (*name == '_' || !last || !isdigit((unsigned char)last[1])) return false;
    *f = (td_onnx_form){.function = name, .length = (size_t)(last - name), .version = atoi(last + 1)};
    uint32_t params = td_ast_kid(ast, node, 0);
    for (uint32_t k = 0; k < td_ast_at(ast, params)->n; k++) take_param(ast, td_ast_kid(ast, params, k), f);
    return true;
}

static known *read_known(td_error *e)
{
    known *k = calloc(1, sizeof *k);
    if (!k) return td_no_memory(e, "for the ops of a model"), NULL;
    if (td_script_parse(&td_script_onnx, 0, &k->ast, e) == 0) {
        const td_ast_node *all = td_ast_at(&k->ast, k->ast.root);
        k->ops.at = calloc(all->n + 1u, sizeof *k->ops.at);
        if (!k->ops.at) td_no_memory(e, "for the ops of a model");
        for (uint32_t i = 0; k->ops.at && i < all->n; i++) {
            uint32_t node = td_ast_kid(&k->ast, k->ast.root, i);
            if (td_ast_at(&k->ast, node)->kind == TD_N_FUNCTION)
                k->ops.n += take_form(&k->ast, node, &k->ops.at[k->ops.n]);
        }
    }
    if (!e->code) return k;
    td_ast_deinit(&k->ast);
    free(k->ops.at);
    free(k);
    return NULL;
}

const td_onnx_ops *td_onnx_ops_get(td_error *e)
{
    known *k = atomic_load(&all_known), *other = NULL;
    if (k) return &k->ops;
    td_error_clear(e);
    if (!(k = read_known(e))) return NULL;
    if (atomic_compare_exchange_strong(&all_known, &other, k)) return &k->ops;
    td_ast_deinit(&k->ast);
    free(k->ops.at);
    free(k);
    return &other->ops;
}

const td_onnx_form *td_onnx_form_of(const td_onnx_ops *ops, const char *op, int64_t version, int64_t *first)
{
    const td_onnx_form *best = NULL;
    size_t n = strlen(op);
    *first = 0;
    for (uint32_t k = 0; k < ops->n; k++) {
        const td_onnx_form *f = &ops->at[k];
        if (f->length != n || memcmp(f->function, op, n) != 0) continue;
        if (!*first || f->version < *first) *first = f->version;
        if (f->version <= version && (!best || f->version > best->version)) best = f;
    }
    return best;
}

const td_onnx_form *td_onnx_near(const td_onnx_ops *ops, const char *op)
{
    const td_onnx_form *best = NULL;
    unsigned least = NEAR + 1;
    for (uint32_t k = 0; k < ops->n; k++) {
        char name[48] = "";
        if (ops->at[k].length < sizeof name) memcpy(name, ops->at[k].function, ops->at[k].length);
        unsigned d = td_text_distance(op, name, least - 1);
        if (d < least) least = d, best = &ops->at[k];
    }
    return best;
}

const td_onnx_param *td_onnx_param_of(const td_onnx_form *form, const char *name)
{
    for (uint32_t k = 0; k < form->nparams; k++)
        if (strcmp(form->params[k].name, name) == 0) return &form->params[k];
    return NULL;
}
