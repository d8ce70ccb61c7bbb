/* Expressions with operators, by their precedence. See parse.h. */
#include "client/script/parse.h"

/* ---- what all files use */

bool td_take_sign(td_parser *p, unsigned sign)
{
    bool there = td_at_sign(p, sign);
    p->now += there;
    return there;
}

bool td_take_keyword(td_parser *p, unsigned keyword)
{
    bool there = td_at_keyword(p, keyword);
    p->now += there;
    return there;
}

void td_want_sign(td_parser *p, unsigned sign, const char *why)
{
    if (td_take_sign(p, sign)) return;
    td_refuse(p->f, TD_E_INVALID, td_parser_here(p), "expected '%s'%s", td_sign_text(sign), why);
}

uint32_t td_want_name(td_parser *p, const char *what)
{
    const td_token *t = td_parser_token(p);
    if (t->kind != TD_TOKEN_NAME) td_refuse(p->f, TD_E_INVALID, t->span, "expected %s", what);
    p->now++;
    return td_ast_intern(p->f, p->ast, p->f->source->text + t->at, t->size);
}

void td_parser_enter(td_parser *p)
{
    if (++p->depth > TD_SCRIPT_DEPTH)
        td_refuse(p->f, TD_E_INVALID, td_parser_here(p), "this is nested more than %d deep; name its parts",
                  TD_SCRIPT_DEPTH);
}

void td_parser_leave(td_parser *p)
{
    p->depth--;
}

void td_ast_push(td_parser *p, uint32_t node)
{
    td_script_room(p->f, &p->stack, p->nstack, 1, &p->stack_room, sizeof *p->stack);
    p->stack[p->nstack++] = node;
}

/* Is it something that is seen? */
static bool seen(const td_token *t)
{
    return t->kind != TD_TOKEN_NEWLINE && t->kind != TD_TOKEN_INDENT && t->kind != TD_TOKEN_DEDENT;
}

uint32_t td_make(td_parser *p, unsigned kind, unsigned op, td_span from, uint32_t first)
{
    uint32_t last = p->now, n = p->nstack - first;
    while (last > 0 && !seen(&p->tokens.at[last - 1])) last--;
    td_span to = last ? p->tokens.at[last - 1].span : from;
    p->nstack = first;
    return td_ast_add(p->f, p->ast, kind, op, td_span_to(from, to), n ? p->stack + first : NULL, n);
}

void td_parser_refuse(td_parser *p, td_span at, const char *words)
{
    td_refuse(p->f, TD_E_UNSUPPORTED, at, "a program %s", words);
}

void td_parser_wrong(td_parser *p, td_span at, const char *words)
{
    td_refuse(p->f, TD_E_INVALID, at, "%s", words);
}

/* ---- operators */

static uint32_t unary(td_parser *p);

static uint32_t power(td_parser *p)
{
    td_span from = td_parser_here(p);
    if (td_at_keyword(p, TD_KW_AWAIT))
        td_parser_refuse(p, from, "has no 'await': nothing waits until a value is looked at");
    uint32_t first = p->nstack, base = td_parse_primary(p);
    if (!td_take_sign(p, TD_SIGN_POWER)) return base;
    td_ast_push(p, base);
    td_ast_push(p, unary(p));
    return td_make(p, TD_N_BINARY, TD_O_POWER, from, first);
}

static unsigned unary_op(const td_parser *p)
{
    if (td_at_sign(p, TD_SIGN_SUB)) return TD_O_SUB;
    if (td_at_sign(p, TD_SIGN_ADD)) return TD_O_ADD;
    return td_at_sign(p, TD_SIGN_INVERT) ? TD_O_INVERT : TD_O_NONE;
}

static uint32_t unary(td_parser *p)
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack;
    unsigned op = unary_op(p);
    td_parser_enter(p);
    if (op) p->now++;
    uint32_t node = op ? unary(p) : power(p);
    if (op) {
        if (op == TD_O_SUB && node == p->large) p->large = 0;
        td_ast_push(p, node);
        node = td_make(p, TD_N_UNARY, op, from, first);
    }
    td_parser_leave(p);
    return node;
}

/* How strongly a sign binds; 0: it is none of these. */
static unsigned strength(const td_parser *p, unsigned *op)
{
    static const struct {
        uint8_t sign, op, strength;
    } table[] = {{TD_SIGN_OR, TD_O_BIT_OR, 1}, {TD_SIGN_XOR, TD_O_BIT_XOR, 2}, {TD_SIGN_AND, TD_O_BIT_AND, 3},
                 {TD_SIGN_LEFT, TD_O_LEFT, 4}, {TD_SIGN_RIGHT, TD_O_RIGHT, 4}, {TD_SIGN_ADD, TD_O_ADD, 5},
                 {TD_SIGN_SUB, TD_O_SUB, 5},   {TD_SIGN_MUL, TD_O_MUL, 6},     {TD_SIGN_MATMUL, TD_O_MATMUL, 6},
                 {TD_SIGN_DIV, TD_O_DIV, 6},   {TD_SIGN_FLOOR, TD_O_FLOOR, 6}, {TD_SIGN_MOD, TD_O_MOD, 6}};
    for (unsigned i = 0; i < sizeof table / sizeof *table; i++)
        if (td_at_sign(p, table[i].sign)) {
            *op = table[i].op;
            return table[i].strength;
        }
    return 0;
}

static uint32_t binary(td_parser *p, unsigned least)
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack, left = unary(p);
    unsigned op, s;
    while ((s = strength(p, &op)) >= least && s) {
        p->now++;
        td_ast_push(p, left);
        td_ast_push(p, binary(p, s + 1));
        left = td_make(p, TD_N_BINARY, op, from, first);
    }
    return left;
}

uint32_t td_parse_sum(td_parser *p)
{
    uint32_t node = binary(p, 1);
    if (p->large)
        td_parser_refuse(p, p->ast->nodes[p->large].span, "has ints of 64 bits; write a float, or a smaller one");
    return node;
}

static unsigned comparison(td_parser *p)
{
    static const uint8_t signs[][2] = {{TD_SIGN_EQ, TD_O_EQ}, {TD_SIGN_NE, TD_O_NE}, {TD_SIGN_LT, TD_O_LT},
                                       {TD_SIGN_LE, TD_O_LE}, {TD_SIGN_GT, TD_O_GT}, {TD_SIGN_GE, TD_O_GE}};
    for (unsigned i = 0; i < sizeof signs / sizeof *signs; i++)
        if (td_take_sign(p, signs[i][0])) return signs[i][1];
    if (td_take_keyword(p, TD_KW_IN)) return TD_O_IN;
    if (td_take_keyword(p, TD_KW_IS)) return td_take_keyword(p, TD_KW_NOT) ? TD_O_IS_NOT : TD_O_IS;
    if (!td_take_keyword(p, TD_KW_NOT)) return TD_O_NONE;
    if (!td_take_keyword(p, TD_KW_IN)) td_parser_wrong(p, td_parser_here(p), "expected 'in' behind 'not'");
    return TD_O_NOT_IN;
}

static uint32_t compare(td_parser *p)
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack, left = td_parse_sum(p);
    unsigned op = comparison(p);
    if (!op) return left;
    td_ast_push(p, left);
    for (; op; op = comparison(p)) {
        td_span at = td_parser_here(p);
        uint32_t one = p->nstack;
        td_ast_push(p, td_parse_sum(p));
        td_ast_push(p, td_make(p, TD_N_COMPARE_TO, op, at, one));
    }
    return td_make(p, TD_N_COMPARE, 0, from, first);
}

static uint32_t negation(td_parser *p)
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack;
    if (!td_take_keyword(p, TD_KW_NOT)) return compare(p);
    td_parser_enter(p);
    td_ast_push(p, negation(p));
    td_parser_leave(p);
    return td_make(p, TD_N_UNARY, TD_O_NOT, from, first);
}

static uint32_t logic(td_parser *p, unsigned keyword, unsigned op, uint32_t (*part)(td_parser *))
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack, node = part(p);
    if (!td_at_keyword(p, keyword)) return node;
    td_ast_push(p, node);
    while (td_take_keyword(p, keyword)) td_ast_push(p, part(p));
    return td_make(p, TD_N_LOGIC, op, from, first);
}

static uint32_t conjunction(td_parser *p)
{
    return logic(p, TD_KW_AND, TD_O_AND, negation);
}

uint32_t td_parse_or(td_parser *p)
{
    return logic(p, TD_KW_OR, TD_O_OR, conjunction);
}

uint32_t td_parse_choice(td_parser *p)
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack;
    if (td_at_keyword(p, TD_KW_LAMBDA)) td_parser_refuse(p, from, "has no 'lambda'; write a 'def' inside");
    if (td_at_keyword(p, TD_KW_YIELD))
        td_parser_refuse(p, from, "cannot 'yield'; collect what it makes in a list, and return that");
    td_parser_enter(p);
    uint32_t node = td_parse_or(p);
    if (td_take_keyword(p, TD_KW_IF)) {
        td_ast_push(p, td_parse_or(p));
        td_ast_push(p, node);
        if (!td_take_keyword(p, TD_KW_ELSE))
            td_parser_wrong(p, td_parser_here(p), "expected 'else': a choice has two sides");
        td_ast_push(p, td_parse_choice(p));
        node = td_make(p, TD_N_CHOICE, 0, from, first);
    }
    td_parser_leave(p);
    return node;
}
