/* Parts of what holds modules, which are known without running: slices, the reverse, a list of what is gone over, in
 * whatever is written here. See lower.h.
 *
 * Such a part is an object behind those of the world, with the items and the methods of what it is a part of. */
#include "client/script/lower.h"

struct td_low_piece {
    td_script_object object;
    uint32_t of, number; /* an object, or the node of a display; this object */
    bool display;
    int64_t first, step;
    struct td_low_piece *next; /* of those in its chain */
};

const td_script_object *td_low_object(const td_lower *l, uint32_t number)
{
    uint32_t n = l->world->nobjects;
    return number < n ? &l->world->objects[number] : &l->pieces[number - n]->object;
}

static struct td_low_piece **chain(td_lower *l, uint32_t of)
{
    return &l->pieces_of[of % (sizeof l->pieces_of / sizeof *l->pieces_of)];
}

static uint32_t next_number(const td_lower *l)
{
    return l->world->nobjects + l->npieces;
}

static void add_piece(td_lower *l, const struct td_low_piece *what)
{
    td_script_room(l->f, &l->pieces, l->npieces, 1, &l->piece_room, sizeof *l->pieces);
    struct td_low_piece *p = td_low_take(l, sizeof *p), **head = chain(l, what->of);
    *p = *what;
    p->next = *head, *head = p;
    l->pieces[l->npieces++] = p;
}

/* ---- numbers and texts */

static bool known_sum(td_lower *l, uint32_t node, td_known *k)
{
    const td_ast_node *n = td_low_node(l, node);
    td_known a, b;
    if (!td_low_known_value(l, td_low_kid(l, node, 0), &a) || !td_low_known_value(l, td_low_kid(l, node, 1), &b) ||
        a.text || b.text)
        return false;
    *k = (td_known){0};
    if (n->op == TD_O_ADD) return !__builtin_add_overflow(a.i, b.i, &k->i);
    if (n->op == TD_O_SUB) return !__builtin_sub_overflow(a.i, b.i, &k->i);
    if (n->op != TD_O_FLOOR || a.i < 0 || b.i <= 0) return false;
    return k->i = a.i / b.i, true;
}

/* A local that is a constant where this stands. */
static bool known_local(td_lower *l, const td_var *v, td_known *k)
{
    td_literal x;
    if (v->state != TD_VAR_SET || !td_low_literal(l, v->value, &x)) return false;
    if (x.kind == TD_L_STR) k->text = td_ir_chars(td_ir_now(l->e), x.small);
    else if (x.kind == TD_L_INT) k->i = x.i;
    else return false;
    return true;
}

static bool called(td_lower *l, uint32_t node, const char *name)
{
    uint32_t f = td_low_kid(l, node, 0);
    return td_low_node(l, node)->kind == TD_N_CALL && td_low_node(l, node)->n == 2 &&
           td_low_node(l, f)->kind == TD_N_NAME && !td_low_var(l, td_low_node(l, f)->text) &&
           strcmp(td_low_text(l, f), name) == 0;
}

static bool known_negative(td_lower *l, uint32_t node, td_known *k)
{
    if (!td_low_known_value(l, node, k) || k->text) return false;
    if (td_low_node(l, node)->kind == TD_N_INT && k->i == INT64_MIN) return true; /* 2**63, which has a '-' before it */
    return !__builtin_sub_overflow(0, k->i, &k->i);
}

bool td_low_known_value(td_lower *l, uint32_t node, td_known *k)
{
    const td_ast_node *n = td_low_node(l, node);
    const td_var *v = n->kind == TD_N_NAME ? td_low_var(l, n->text) : NULL;
    *k = (td_known){0};
    if (n->kind == TD_N_INT) return k->i = n->i, true;
    if (n->kind == TD_N_STRING) return k->text = td_ast_text(l->ast, n->text), true;
    if (n->kind == TD_N_BINARY) return known_sum(l, node, k);
    if (n->kind == TD_N_UNARY && n->op == TD_O_SUB) return known_negative(l, td_low_kid(l, node, 0), k);
    if (v && v->state != TD_VAR_THING) return known_local(l, v, k);
    if (called(l, node, "len")) {
        const td_script_object *o = td_low_container(l, td_low_thing(l, td_low_kid(l, node, 1)));
        return o && (k->i = o->items, true);
    }
    const td_script_name *thing = td_low_thing(l, node);
    if (thing && thing->kind == TD_SN_TEXT) return k->text = thing->text, true;
    return thing && thing->kind == TD_SN_NUMBER && thing->number.kind == TD_S_INT && (k->i = thing->number.i, true);
}

/* ---- parts */

static const td_script_name *thing_of(td_lower *l, const char *name, uint32_t object)
{
    td_script_name *thing = td_low_take(l, sizeof *thing);
    *thing = (td_script_name){.name = name, .kind = TD_SN_OBJECT, .object = object};
    return thing;
}

/* The n items from the first on; the same ones are one object, so that its methods are lowered once. */
static const td_script_name *piece(td_lower *l, const td_script_name *of, uint32_t n, int64_t first, int64_t step)
{
    const td_script_object *o = td_low_object(l, of->object);
    for (struct td_low_piece *p = *chain(l, of->object); p; p = p->next)
        if (!p->display && p->of == of->object && p->object.items == n && p->first == first && p->step == step)
            return thing_of(l, of->name, p->number);
    uint32_t rest = o->names.n - o->items, number = next_number(l);
    td_script_name *names = td_low_take(l, (n + rest + 1) * sizeof *names);
    for (uint32_t k = 0; k < n; k++) names[k] = o->names.at[first + k * step];
    for (uint32_t k = 0; k < rest; k++) {
        names[n + k] = o->names.at[o->items + k];
        if (names[n + k].kind == TD_SN_FUNCTION && names[n + k].object == of->object) names[n + k].object = number;
    }
    struct td_low_piece p = {.object = *o, .of = of->object, .number = number, .first = first, .step = step};
    p.object.names = (td_script_names){names, n + rest};
    p.object.items = n, p.object.kind = TD_OBJECT_LIST;
    add_piece(l, &p);
    return thing_of(l, of->name, number);
}

static bool bound(td_lower *l, uint32_t node, int64_t otherwise, int64_t *at)
{
    td_known k = {.i = otherwise};
    bool known = !node || td_low_node(l, node)->kind == TD_N_NONE || (td_low_known_value(l, node, &k) && !k.text);
    return *at = k.i, known;
}

int64_t td_low_within(int64_t at, int64_t n, bool back)
{
    if (at < 0 && (at += n) < 0) return back ? -1 : 0;
    return at < n ? at : n - back;
}

const td_script_name *td_low_slice_of(td_lower *l, uint32_t slice, const td_script_name *of)
{
    int64_t from, to, step, n = td_low_object(l, of->object)->items, count;
    if (!bound(l, td_low_kid(l, slice, 2), 1, &step)) step = 0;
    bool back = step < 0;
    if (!bound(l, td_low_kid(l, slice, 0), back ? n - 1 : 0, &from) ||
        !bound(l, td_low_kid(l, slice, 1), back ? -n - 1 : n, &to) || step == 0 || step > n || step < -n)
        td_low_wrong(l, slice, "a slice of modules is one of numbers that are written here, in steps of %d at most",
                     (int)n);
    from = td_low_within(from, n, back), to = td_low_within(to, n, back);
    count = back ? (from - to - step - 1) / -step : step ? (to - from + step - 1) / step : 0;
    return piece(l, of, count < 0 ? 0 : (uint32_t)count, from, step);
}

const td_script_name *td_low_piece_of(td_lower *l, uint32_t call)
{
    bool reversed = called(l, call, "reversed");
    if (!reversed && !called(l, call, "list") && !called(l, call, "tuple")) return NULL;
    const td_script_name *of = td_low_thing(l, td_low_kid(l, call, 1));
    const td_script_object *o = td_low_container(l, of);
    if (!o || o->kind == TD_OBJECT_DICT || o->kind == TD_OBJECT_PAIRS || td_low_holds_values(o)) return NULL;
    if (!reversed) return piece(l, of, o->items, 0, 1);
    if (o->kind == TD_OBJECT_ONCE) td_low_wrong(l, call, "this is gone over as it comes; write list(...) around it");
    return piece(l, of, o->items, (int64_t)o->items - 1, -1);
}

/* The same modules at the same place are one object, however often it is looked at. */
const td_script_name *td_low_display_of(td_lower *l, uint32_t node)
{
    const td_ast_node *n = td_low_node(l, node);
    if ((n->kind != TD_N_TUPLE && n->kind != TD_N_LIST) || n->n == 0) return NULL;
    const td_script_name **things = td_low_take(l, n->n * sizeof *things);
    uint32_t count = n->n, k;
    for (k = 0; k < count; k++) {
        things[k] = td_low_thing(l, td_low_kid(l, node, k));
        if (!things[k] || things[k]->kind != TD_SN_OBJECT) return NULL;
    }
    for (struct td_low_piece *p = *chain(l, node); p; p = p->next) {
        if (!p->display || p->of != node) continue;
        for (k = 0; k < count && p->object.names.at[k].object == things[k]->object; k++) continue;
        if (k == count) return thing_of(l, "list", p->number);
    }
    td_script_name *names = td_low_take(l, count * sizeof *names);
    for (k = 0; k < count; k++) names[k] = *things[k];
    td_script_object list = {.names = {names, count}, .items = count, .kind = TD_OBJECT_LIST, .title = ""};
    struct td_low_piece p = {.object = list, .of = node, .display = true, .number = next_number(l), .step = 1};
    add_piece(l, &p);
    return thing_of(l, "list", p.number);
}

/* ---- what is in it */

td_truth td_low_has_module(td_lower *l, uint32_t test)
{
    uint32_t right = td_low_kid(l, test, 1);
    unsigned op = td_low_node(l, right)->op;
    if (td_low_node(l, test)->n != 2 || (op != TD_O_IN && op != TD_O_NOT_IN)) return TD_SOMETIMES;
    const td_script_object *o = td_low_container(l, td_low_thing(l, td_low_kid(l, right, 0)));
    td_known key;
    if (!o || o->kind != TD_OBJECT_DICT || !td_low_known_value(l, td_low_kid(l, test, 0), &key) || !key.text)
        return TD_SOMETIMES;
    for (uint32_t k = 0; k < o->items; k++)
        if (strcmp(o->names.at[k].name, key.text) == 0) return op == TD_O_IN ? TD_ALWAYS : TD_NEVER;
    return op == TD_O_IN ? TD_NEVER : TD_ALWAYS;
}

uint32_t td_low_keys_of(td_lower *l, uint32_t node)
{
    const td_script_object *o = td_low_container(l, td_low_thing(l, node));
    if (!o || o->kind != TD_OBJECT_DICT || !o->items) return TD_IR_NONE;
    uint32_t *keys = td_low_array(l, o->items);
    td_low_at(l, node);
    for (uint32_t k = 0; k < o->items; k++)
        keys[k] = td_low_made(l, td_ir_str(l->e, o->names.at[k].name, strlen(o->names.at[k].name)));
    return td_low_list(l, node, o->items, keys);
}
