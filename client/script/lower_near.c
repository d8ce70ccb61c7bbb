/* What was meant by a name that is nothing: the nearest one that is something, for what is said of it. See lower.h. */
#include "client/script/lower.h"
#include "proto/base/near.h"

typedef struct nearest {
    const char *wanted, *found;
    unsigned far;
} nearest;

static void look_at(nearest *near, const char *name)
{
    unsigned far = td_text_distance(near->wanted, name, near->far - 1);
    if (far < near->far) near->far = far, near->found = name;
}

/* One letter in four may be wrong. */
static nearest begin(const char *name)
{
    return (nearest){.wanted = name, .far = (unsigned)strlen(name) / 4 + 1};
}

static const char *said(td_lower *l, const nearest *near)
{
    static const char form[] = "; was '%s' meant?";
    if (!near->found) return "";
    size_t size = sizeof form + strlen(near->found);
    char *text = td_low_take(l, size);
    snprintf(text, size, form, near->found);
    return text;
}

const char *td_low_near_op(td_lower *l, const char *name)
{
    nearest near = begin(name);
    uint32_t root = l->units[l->prelude].root;
    for (unsigned k = 0; k < td_op_count; k++)
        if (td_ops[k].name) look_at(&near, td_ops[k].name);
    for (uint32_t k = 0; k < td_low_node(l, root)->n; k++) {
        uint32_t kid = td_low_kid(l, root, k);
        const char *known = td_low_node(l, kid)->kind == TD_N_FUNCTION ? td_low_text(l, kid) : "";
        if (known[0] != '_' && known[0]) look_at(&near, known);
    }
    return said(l, &near);
}

const char *td_low_near_name(td_lower *l, const char *name)
{
    const td_script_names *names = &l->units[l->unit].names;
    nearest near = begin(name);
    for (uint32_t k = l->frame; k < l->nvars; k++)
        if (l->vars[k].name != TD_IR_NONE) look_at(&near, td_ast_text(l->ast, l->vars[k].name));
    for (uint32_t k = 0; k < names->n; k++)
        if (!strchr(names->at[k].name, '.')) look_at(&near, names->at[k].name);
    return said(l, &near);
}
