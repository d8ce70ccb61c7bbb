/* What operators stand between: names, numbers, brackets; calls, attributes and subscripts behind them; tuples and
 * targets. See parse.h. */
#include "client/script/parse.h"

/* ---- lists of expressions */

bool td_begins_expression(const td_parser *p)
{
    const td_token *t = td_parser_token(p);
    static const uint8_t signs[] = {TD_SIGN_OPEN,   TD_SIGN_OPEN_LIST, TD_SIGN_OPEN_DICT, TD_SIGN_ADD,  TD_SIGN_SUB,
                                    TD_SIGN_INVERT, TD_SIGN_DOTS,      TD_SIGN_MUL,       TD_SIGN_POWER};
    static const uint8_t words[] = {TD_KW_FALSE,  TD_KW_TRUE,  TD_KW_NONE, TD_KW_NOT,
                                    TD_KW_LAMBDA, TD_KW_YIELD, TD_KW_AWAIT};
    if (t->kind == TD_TOKEN_NAME || t->kind == TD_TOKEN_NUMBER || t->kind == TD_TOKEN_STRING) return true;
    for (unsigned i = 0; t->kind == TD_TOKEN_SIGN && i < sizeof signs; i++)
        if (t->which == signs[i]) return true;
    for (unsigned i = 0; t->kind == TD_TOKEN_KEYWORD && i < sizeof words; i++)
        if (t->which == words[i]) return true;
    return false;
}

static void no_star(td_parser *p)
{
    if (td_at_sign(p, TD_SIGN_MUL) || td_at_sign(p, TD_SIGN_POWER))
        td_parser_refuse(p, td_parser_here(p), "cannot unpack here; write each item");
}

static void no_generator(td_parser *p, td_span from)
{
    if (td_at_keyword(p, TD_KW_ASYNC) || td_at_keyword(p, TD_KW_FOR))
        td_parser_refuse(p, td_span_to(from, td_parser_here(p)), "has no generators; write a list, in [ ]");
}

void td_parse_no_star(td_parser *p)
{
    if (p->starred) td_parser_refuse(p, p->ast->nodes[p->starred].span, "cannot unpack here; write each item");
}

/* "*value", in targets a name; or an item. */
static uint32_t starred(td_parser *p, uint32_t (*item)(td_parser *))
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack;
    if (!td_at_sign(p, TD_SIGN_MUL)) no_star(p);
    if (!td_take_sign(p, TD_SIGN_MUL)) return item(p);
    td_ast_push(p, td_parse_sum(p));
    return p->starred = td_make(p, TD_N_STARRED, 0, from, first);
}

/* The same where no target can stand. */
static uint32_t unpacked(td_parser *p)
{
    uint32_t outer = p->starred, node = starred(p, td_parse_choice);
    p->starred = outer;
    return node;
}

/* One, or with commas a tuple. */
static uint32_t items(td_parser *p, uint32_t (*item)(td_parser *))
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack, outer = p->starred;
    p->starred = 0;
    uint32_t node = starred(p, item);
    if (td_at_sign(p, TD_SIGN_COMMA)) {
        td_ast_push(p, node);
        while (td_take_sign(p, TD_SIGN_COMMA) && td_begins_expression(p)) td_ast_push(p, starred(p, item));
        node = td_make(p, TD_N_TUPLE, 0, from, first);
    } else {
        td_parse_no_star(p);
    }
    if (!p->starred) p->starred = outer;
    return node;
}

uint32_t td_parse_maybe_targets(td_parser *p)
{
    p->starred = 0;
    return items(p, td_parse_choice);
}

uint32_t td_parse_list(td_parser *p)
{
    uint32_t outer = p->starred;
    p->starred = 0;
    uint32_t node = items(p, td_parse_choice);
    p->starred = outer;
    return node;
}

void td_check_target(td_parser *p, uint32_t node)
{
    const td_ast_node *n = td_ast_at(p->ast, node);
    if (n->kind == TD_N_TUPLE || n->kind == TD_N_LIST)
        for (uint32_t k = 0, stars = 0; k < n->n; k++) {
            uint32_t kid = td_ast_kid(p->ast, node, k);
            if (td_ast_at(p->ast, kid)->kind == TD_N_STARRED && stars++)
                td_parser_wrong(p, td_ast_at(p->ast, kid)->span, "only one '*' can stand in what is assigned to");
            td_check_target(p, kid);
        }
    else if (n->kind == TD_N_STARRED) td_check_target(p, td_ast_kid(p->ast, node, 0));
    else if (n->kind != TD_N_NAME && n->kind != TD_N_ATTRIBUTE && n->kind != TD_N_SUBSCRIPT)
        td_parser_wrong(p, n->span, "this cannot be assigned to: expected a name");
}

uint32_t td_parse_targets(td_parser *p)
{
    uint32_t outer = p->starred, node = items(p, td_parse_sum);
    td_check_target(p, node);
    p->starred = outer;
    return node;
}

/* ---- atoms */

static uint32_t leaf(td_parser *p, unsigned kind)
{
    td_span at = td_parser_here(p);
    p->now++;
    return td_make(p, kind, 0, at, p->nstack);
}

static uint32_t number(td_parser *p)
{
    td_number v;
    td_number_read(p->f, td_parser_token(p), &v);
    uint32_t node = leaf(p, v.kind == 'i' ? TD_N_INT : v.kind == 'f' ? TD_N_FLOAT : TD_N_IMAGINARY);
    td_ast_node *n = &p->ast->nodes[node];
    if (v.kind == 'i') n->i = v.i, n->op = v.too_large;
    else n->f = v.f;
    if (v.too_large) p->large = node;
    return node;
}

static uint32_t name(td_parser *p)
{
    td_span at = td_parser_here(p);
    uint32_t text = td_want_name(p, "a name");
    if (td_at_sign(p, TD_SIGN_WALRUS))
        td_parser_refuse(p, td_span_to(at, td_parser_here(p)), "has no ':='; assign on a line before");
    uint32_t node = td_make(p, TD_N_NAME, 0, at, p->nstack);
    p->ast->nodes[node].text = text;
    return node;
}

static uint32_t bool_leaf(td_parser *p, bool value)
{
    uint32_t node = leaf(p, TD_N_BOOL);
    p->ast->nodes[node].i = value;
    return node;
}

/* "(": one expression as it is, or a tuple with its brackets. */
static uint32_t brackets(td_parser *p)
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack;
    bool tuple = false;
    p->now++;
    while (!td_take_sign(p, TD_SIGN_CLOSE)) {
        td_span inside = td_parser_here(p);
        uint32_t node = unpacked(p);
        td_ast_push(p, node);
        no_generator(p, inside);
        tuple |= td_at_sign(p, TD_SIGN_COMMA);
        if (!tuple && p->ast->nodes[node].kind == TD_N_STARRED)
            td_parser_refuse(p, p->ast->nodes[node].span, "cannot unpack here; write each item");
        if (!td_at_sign(p, TD_SIGN_CLOSE)) td_want_sign(p, TD_SIGN_COMMA, " or ')'");
    }
    if (tuple || p->nstack == first) return td_make(p, TD_N_TUPLE, 0, from, first);
    return p->stack[--p->nstack];
}

/* From its 'for' on, to the sign that closes it. */
static uint32_t comprehension(td_parser *p, unsigned kind, unsigned close, uint32_t first, td_span from)
{
    if (td_at_keyword(p, TD_KW_ASYNC)) td_parser_refuse(p, td_parser_here(p), "has no 'async'");
    p->now++;
    td_ast_push(p, td_parse_targets(p));
    if (!td_take_keyword(p, TD_KW_IN)) td_parser_wrong(p, td_parser_here(p), "expected 'in'");
    td_ast_push(p, td_parse_or(p));
    while (td_take_keyword(p, TD_KW_IF)) td_ast_push(p, td_parse_or(p));
    if (td_at_keyword(p, TD_KW_FOR) || td_at_keyword(p, TD_KW_ASYNC))
        td_parser_refuse(p, td_parser_here(p), "has one 'for' in a list; write loops for more");
    td_want_sign(p, close, " behind this");
    return td_make(p, kind, 0, from, first);
}

static uint32_t list(td_parser *p)
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack;
    p->now++;
    while (!td_take_sign(p, TD_SIGN_CLOSE_LIST)) {
        td_ast_push(p, unpacked(p));
        if (p->nstack == first + 1 && (td_at_keyword(p, TD_KW_FOR) || td_at_keyword(p, TD_KW_ASYNC)))
            return comprehension(p, TD_N_LIST_COMP, TD_SIGN_CLOSE_LIST, first, from);
        if (!td_at_sign(p, TD_SIGN_CLOSE_LIST)) td_want_sign(p, TD_SIGN_COMMA, " or ']'");
    }
    return td_make(p, TD_N_LIST, 0, from, first);
}

static uint32_t dict(td_parser *p)
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack;
    p->now++;
    while (!td_take_sign(p, TD_SIGN_CLOSE_DICT)) {
        if (td_take_sign(p, TD_SIGN_POWER)) {
            td_ast_push(p, 0);
            td_ast_push(p, td_parse_sum(p));
            if (!td_at_sign(p, TD_SIGN_CLOSE_DICT)) td_want_sign(p, TD_SIGN_COMMA, " or '}'");
            continue;
        }
        no_star(p);
        td_ast_push(p, td_parse_choice(p));
        if (!td_at_sign(p, TD_SIGN_COLON))
            td_parser_refuse(p, td_span_to(from, td_parser_here(p)), "has no sets; write a list, or a dict");
        p->now++;
        td_ast_push(p, td_parse_choice(p));
        if (p->nstack == first + 2 && (td_at_keyword(p, TD_KW_FOR) || td_at_keyword(p, TD_KW_ASYNC)))
            return comprehension(p, TD_N_DICT_COMP, TD_SIGN_CLOSE_DICT, first, from);
        if (!td_at_sign(p, TD_SIGN_CLOSE_DICT)) td_want_sign(p, TD_SIGN_COMMA, " or '}'");
    }
    return td_make(p, TD_N_DICT, 0, from, first);
}

static uint32_t atom(td_parser *p)
{
    const td_token *t = td_parser_token(p);
    if (t->kind == TD_TOKEN_NAME) return name(p);
    if (t->kind == TD_TOKEN_NUMBER) return number(p);
    if (t->kind == TD_TOKEN_STRING) return td_parse_strings(p);
    if (td_at_sign(p, TD_SIGN_OPEN)) return brackets(p);
    if (td_at_sign(p, TD_SIGN_OPEN_LIST)) return list(p);
    if (td_at_sign(p, TD_SIGN_OPEN_DICT)) return dict(p);
    if (td_at_sign(p, TD_SIGN_DOTS)) return leaf(p, TD_N_DOTS);
    if (td_at_keyword(p, TD_KW_NONE)) return leaf(p, TD_N_NONE);
    if (td_at_keyword(p, TD_KW_TRUE)) return bool_leaf(p, true);
    if (td_at_keyword(p, TD_KW_FALSE)) return bool_leaf(p, false);
    if (t->kind == TD_TOKEN_KEYWORD)
        td_refuse(p->f, TD_E_INVALID, t->span, "expected a value, not '%s'", td_keyword_text(t->which));
    td_parser_wrong(p, t->span, "expected a value");
}

/* ---- what stands behind */

/* What a generator alone would give one by one is a list. True: it was one, and the call is closed. */
static bool generator(td_parser *p, uint32_t first, td_span open)
{
    if (p->nstack != first + 1 || !td_at_keyword(p, TD_KW_FOR)) return false;
    uint32_t node = comprehension(p, TD_N_LIST_COMP, TD_SIGN_CLOSE, first, open);
    td_ast_push(p, node);
    return true;
}

static void argument(td_parser *p, bool *named, bool only)
{
    td_span from = td_parser_here(p);
    if (td_at_sign(p, TD_SIGN_POWER)) td_parser_refuse(p, from, "cannot unpack arguments by names; write each of them");
    uint32_t first = p->nstack;
    if (td_parser_token(p)->kind == TD_TOKEN_NAME && p->tokens.at[p->now + 1].kind == TD_TOKEN_SIGN &&
        p->tokens.at[p->now + 1].which == TD_SIGN_IS) {
        uint32_t text = td_want_name(p, "a name");
        p->now++;
        td_ast_push(p, td_parse_choice(p));
        uint32_t node = td_make(p, TD_N_KEYWORD, 0, from, first);
        p->ast->nodes[node].text = text;
        td_ast_push(p, node);
        *named = true;
        return;
    }
    uint32_t node = unpacked(p);
    if (!only) no_generator(p, from);
    if (*named)
        td_parser_wrong(p, p->ast->nodes[node].span, "an argument without a name stands behind one with a name");
    td_ast_push(p, node);
}

static void arguments(td_parser *p)
{
    bool named = false;
    uint32_t first = p->nstack;
    td_span open = p->tokens.at[p->now - 1].span;
    while (!td_take_sign(p, TD_SIGN_CLOSE)) {
        argument(p, &named, p->nstack == first);
        if (!named && generator(p, first, open)) return;
        if (!td_at_sign(p, TD_SIGN_CLOSE)) td_want_sign(p, TD_SIGN_COMMA, " or ')'");
    }
}

static uint32_t slice_end(td_parser *p)
{
    return td_at_sign(p, TD_SIGN_COLON) || td_at_sign(p, TD_SIGN_COMMA) || td_at_sign(p, TD_SIGN_CLOSE_LIST)
               ? 0
               : td_parse_choice(p);
}

static uint32_t slice(td_parser *p)
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack;
    uint32_t node = td_at_sign(p, TD_SIGN_COLON) ? 0 : td_parse_choice(p);
    if (!td_take_sign(p, TD_SIGN_COLON)) return node;
    td_ast_push(p, node);
    td_ast_push(p, slice_end(p));
    td_ast_push(p, td_take_sign(p, TD_SIGN_COLON) ? slice_end(p) : 0);
    return td_make(p, TD_N_SLICE, 0, from, first);
}

static uint32_t key(td_parser *p)
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack;
    no_star(p);
    uint32_t node = slice(p);
    if (!td_at_sign(p, TD_SIGN_COMMA)) return node;
    td_ast_push(p, node);
    while (td_take_sign(p, TD_SIGN_COMMA) && !td_at_sign(p, TD_SIGN_CLOSE_LIST)) {
        no_star(p);
        td_ast_push(p, slice(p));
    }
    return td_make(p, TD_N_TUPLE, 0, from, first);
}

uint32_t td_parse_primary(td_parser *p)
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack, node = atom(p);
    for (;;) {
        if (td_take_sign(p, TD_SIGN_DOT)) {
            td_ast_push(p, node);
            uint32_t text = td_want_name(p, "a name behind '.'");
            node = td_make(p, TD_N_ATTRIBUTE, 0, from, first);
            p->ast->nodes[node].text = text;
        } else if (td_take_sign(p, TD_SIGN_OPEN)) {
            td_ast_push(p, node);
            arguments(p);
            node = td_make(p, TD_N_CALL, 0, from, first);
        } else if (td_take_sign(p, TD_SIGN_OPEN_LIST)) {
            td_ast_push(p, node);
            td_ast_push(p, key(p));
            td_want_sign(p, TD_SIGN_CLOSE_LIST, " behind this");
            node = td_make(p, TD_N_SUBSCRIPT, 0, from, first);
        } else {
            return node;
        }
    }
}
