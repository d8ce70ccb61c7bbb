/* What is unpacked where values stand: f(*args), [*xs, x], (*t, x), {**d}. See lower.h.
 *
 * A tuple's length is known, so a call with one is a call of its items: a node of its own, whose arguments are *given*
 * values. A list is one only where arguments may stand one by one, as x.view(*sizes) is x.view(sizes): the surface says
 * which functions have such a place. */
#include "client/script/lower.h"
#include "client/script_varargs.h"

bool td_low_has_star(const td_lower *l, uint32_t node)
{
    for (uint32_t k = 0; k < td_low_node(l, node)->n; k++)
        if (td_low_node(l, td_low_kid(l, node, k))->kind == TD_N_STARRED) return true;
    return false;
}

static uint32_t give(td_lower *l, const td_low_given *what)
{
    td_script_room(l->f, &l->given, l->ngiven, 1, &l->given_room, sizeof *l->given);
    td_low_given *g = l->given[l->ngiven] = td_low_take(l, sizeof *g);
    *g = *what;
    g->unit = l->unit;
    return TD_LOW_GIVEN | l->ngiven++;
}

static uint32_t given_value(td_lower *l, uint32_t place, uint32_t value)
{
    return give(l, &(td_low_given){.node = {.kind = TD_N_GIVEN, .span = td_low_node(l, place)->span}, .value = value});
}

/* Of "*[a, b]" that: what stands there is known. */
static uint32_t display_in(td_lower *l, uint32_t star)
{
    uint32_t of = td_low_kid(l, star, 0);
    bool display = td_low_node(l, of)->kind == TD_N_LIST || td_low_node(l, of)->kind == TD_N_TUPLE;
    return display && !td_low_has_star(l, of) ? of : 0;
}

/* ---- lists and tuples */

static uint32_t parts_of(td_lower *l, uint32_t value)
{
    return td_type_parts(td_ir_now(l->e), td_low_type(l, value));
}

/* [..., *xs]: the list so far, of which `n` items are no list yet, and another one behind it. */
static uint32_t joined(td_lower *l, uint32_t node, uint32_t list, uint32_t n, const uint32_t *items, uint32_t more)
{
    uint32_t behind = n ? td_low_list(l, node, n, items) : TD_IR_NONE;
    if (list == TD_IR_NONE) list = behind;
    else if (n) list = td_low_binary(l, node, TD_O_ADD, list, behind, false);
    if (more == TD_IR_NONE) return list;
    td_low_at(l, node);
    return list == TD_IR_NONE ? td_low_prim(l, node, "copy", 1, &more)
                              : td_low_binary(l, node, TD_O_ADD, list, more, false);
}

static uint32_t items_of(td_lower *l, uint32_t display)
{
    uint32_t n = td_low_node(l, display)->n, *items = td_low_array(l, n);
    for (uint32_t k = 0; k < n; k++) items[k] = td_low_expr(l, td_low_kid(l, display, k));
    td_low_at(l, display);
    return td_low_tuple(l, n, items);
}

uint32_t td_low_starred(td_lower *l, uint32_t node, bool list)
{
    uint32_t count = td_low_node(l, node)->n, n = 0, room = count, so_far = TD_IR_NONE;
    uint32_t *items = td_low_array(l, room);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t kid = td_low_kid(l, node, k);
        bool star = td_low_node(l, kid)->kind == TD_N_STARRED;
        uint32_t display = star ? display_in(l, kid) : 0, value;
        if (display) value = items_of(l, display);
        else value = td_low_expr(l, star ? td_low_kid(l, kid, 0) : kid);
        td_type_kind kind = td_low_kind(l, value);
        uint32_t parts = star && kind == TD_T_TUPLE ? parts_of(l, value) : 1;
        if (n + parts + count - k > room) {
            uint32_t *more = td_low_array(l, room = 2 * room + parts);
            items = memcpy(more, items, n * sizeof *items);
        }
        if (star && kind == TD_T_TUPLE)
            for (uint32_t i = 0; i < parts; i++) items[n++] = td_low_item(l, value, i);
        else if (!star) items[n++] = value;
        else if (kind == TD_T_LIST && list) so_far = joined(l, node, so_far, n, items, value), n = 0;
        else
            td_low_wrong(l, kid, "a program unpacks %s, not %s",
                         list ? "tuples and lists here" : "a tuple here, whose length is known",
                         td_low_type_name(l, td_low_type(l, value)));
    }
    td_low_at(l, node);
    if (!list) return td_low_tuple(l, n, items);
    return so_far == TD_IR_NONE ? td_low_list(l, node, n, items) : joined(l, node, so_far, n, items, TD_IR_NONE);
}

/* ---- dicts */

uint32_t td_low_starred_dict(td_lower *l, uint32_t node)
{
    uint32_t count = td_low_node(l, node)->n, n = 0, made = TD_IR_NONE, *pairs = td_low_array(l, count + 1), in[3];
    for (uint32_t k = 0; k < count; k += 2) {
        uint32_t key = td_low_kid(l, node, k), of = td_low_kid(l, node, k + 1), value;
        if (key && made == TD_IR_NONE) {
            pairs[n++] = td_low_expr(l, key), pairs[n++] = td_low_expr(l, of);
            continue;
        }
        if (made == TD_IR_NONE && n) made = td_low_dict(l, node, n, pairs);
        in[0] = made, in[1] = key ? td_low_expr(l, key) : TD_IR_NONE, in[2] = value = td_low_expr(l, of);
        td_low_at(l, of);
        if (!key && td_low_kind(l, value) != TD_T_DICT)
            td_low_wrong(l, of, "'**' unpacks a dict here, not %s", td_low_type_name(l, td_low_type(l, value)));
        if (key) td_low_prim(l, node, "setitem", 3, in);
        else if (made == TD_IR_NONE) made = td_low_prim(l, of, "copy", 1, &value);
        else if (td_type_fits(td_ir_now(l->e), td_low_type(l, value), td_low_type(l, made)))
            td_low_prim(l, of, "update", 2, (uint32_t[]){made, value});
        else td_low_wrong(l, of, "the keys and values of a dict are of one type");
    }
    return made;
}

/* ---- calls */

static uint32_t varargs_place(const char *name)
{
    for (size_t k = 0; k < sizeof td_script_varargs / sizeof *td_script_varargs; k++)
        if (strcmp(td_script_varargs[k].name, name) == 0) return td_script_varargs[k].place;
    return TD_IR_NONE;
}

/* The first of the kids that may stand one by one: they are one list to the callee. 0: there is none. */
static uint32_t first_vararg(td_lower *l, uint32_t call)
{
    uint32_t f = td_low_kid(l, call, 0), place;
    char path[160];
    const char *rest;
    const td_script_name *thing = td_low_thing(l, f);
    const td_script_name *known = td_low_path(l, f, path, sizeof path) ? td_low_known(l, path, &rest) : NULL;
    if (thing && thing->kind != TD_SN_OP) return 0;
    bool ours = known && (known->kind == TD_SN_TENSORS || known->kind == TD_SN_OPS);
    if (thing || ours) { /* a function of tensord itself, none below it */
        place = ours && known->text ? TD_IR_NONE : varargs_place(thing ? thing->text : rest);
        return place == TD_IR_NONE ? 0 : place + 1;
    }
    if (td_low_node(l, f)->kind != TD_N_ATTRIBUTE) return 0;
    place = varargs_place(td_low_text(l, f));
    return place == TD_IR_NONE ? 0 : place; /* the tensor is the first */
}

typedef struct spread {
    uint32_t *kids, n, room;
    bool *lists; /* which of the kids are lists that were unpacked */
} spread;

static void put(td_lower *l, spread *s, uint32_t kid, bool list)
{
    if (s->n == s->room) {
        uint32_t *kids = td_low_array(l, 2 * s->room + 8);
        bool *lists = td_low_take(l, 2 * s->room + 8);
        if (s->n) memcpy(kids, s->kids, s->n * sizeof *kids), memcpy(lists, s->lists, s->n);
        s->kids = kids, s->lists = lists, s->room = 2 * s->room + 8;
    }
    s->lists[s->n] = list, s->kids[s->n++] = kid;
}

static void put_starred(td_lower *l, spread *s, uint32_t varargs, uint32_t star)
{
    uint32_t display = display_in(l, star);
    for (uint32_t k = 0; display && k < td_low_node(l, display)->n; k++) put(l, s, td_low_kid(l, display, k), false);
    if (display) return;
    uint32_t value = td_low_expr(l, td_low_kid(l, star, 0));
    td_type_kind kind = td_low_kind(l, value);
    if (kind == TD_T_TUPLE) {
        uint32_t parts = parts_of(l, value);
        for (uint32_t k = 0; k < parts; k++) put(l, s, given_value(l, star, td_low_item(l, value, k)), false);
    } else if (kind == TD_T_LIST && varargs && s->n >= varargs) {
        put(l, s, given_value(l, star, value), true);
    } else {
        td_low_wrong(l, star, "a program unpacks a tuple here, whose length is known, not %s; write each argument",
                     td_low_type_name(l, td_low_type(l, value)));
    }
}

/* What stands from the first vararg on becomes one list. */
static void join_lists(td_lower *l, spread *s, uint32_t call, uint32_t first)
{
    uint32_t end = first, made = TD_IR_NONE, n = 0, list = first, *items = td_low_array(l, s->n);
    while (!s->lists[list]) list++;
    td_type_kind want = td_low_wanted_by(l, td_low_part(l, td_low_type(l, td_low_expr(l, s->kids[list])), 0));
    for (; end < s->n && td_low_node(l, s->kids[end])->kind != TD_N_KEYWORD; end++) {
        uint32_t value = td_low_expr_for(l, s->kids[end], want);
        if (s->lists[end]) made = joined(l, call, made, n, items, value), n = 0;
        else items[n++] = value;
    }
    s->kids[first] = given_value(l, s->kids[list], n ? joined(l, call, made, n, items, TD_IR_NONE) : made);
    memmove(s->kids + first + 1, s->kids + end, (s->n - end) * sizeof *s->kids);
    s->n -= end - first - 1;
}

uint32_t td_low_inner_call(td_lower *l, uint32_t call)
{
    uint32_t n = td_low_node(l, call)->n, *kids = td_low_array(l, n);
    for (uint32_t k = 1; k < n; k++) kids[k - 1] = td_low_kid(l, call, k);
    td_low_given g = {.node = *td_low_node(l, call), .kids = kids};
    g.node.n = n - 1;
    return give(l, &g);
}

uint32_t td_low_no_arguments(td_lower *l, uint32_t call)
{
    td_low_given g = {.node = *td_low_node(l, call),
                      .kids = memcpy(td_low_array(l, 1), (uint32_t[]){td_low_kid(l, call, 0)}, sizeof(uint32_t))};
    g.node.n = 1;
    return give(l, &g);
}

uint32_t td_low_out_of(td_lower *l, uint32_t call, uint32_t *out)
{
    uint32_t n = td_low_node(l, call)->n, *kids = td_low_array(l, n), used = 0;
    *out = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t kid = td_low_kid(l, call, k);
        bool is = k && td_low_node(l, kid)->kind == TD_N_KEYWORD && strcmp(td_low_text(l, kid), "out") == 0;
        if (is) *out = td_low_kid(l, kid, 0);
        else kids[used++] = kid;
    }
    if (!*out) return call;
    td_low_given g = {.node = *td_low_node(l, call), .kids = kids};
    g.node.n = used;
    return give(l, &g);
}

uint32_t td_low_spread(td_lower *l, uint32_t call)
{
    spread s = {0};
    bool lists = false;
    if (!td_low_has_star(l, call)) return call;
    uint32_t varargs = first_vararg(l, call);
    for (uint32_t k = 0; k < td_low_node(l, call)->n; k++) {
        uint32_t kid = td_low_kid(l, call, k);
        if (td_low_node(l, kid)->kind == TD_N_STARRED) put_starred(l, &s, varargs, kid);
        else put(l, &s, kid, false);
    }
    for (uint32_t k = 1; k < s.n; k++) lists |= s.lists[k];
    if (lists) join_lists(l, &s, call, varargs);
    td_low_given g = {.node = *td_low_node(l, call), .kids = s.kids};
    g.node.n = s.n;
    return give(l, &g);
}
