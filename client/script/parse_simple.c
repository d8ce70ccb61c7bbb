/* Statements of one line. See parse.h. */
#include "client/script/parse.h"

#include <string.h>

/* ---- type comments */

uint32_t td_parse_part(td_parser *p, uint32_t line, uint32_t column, uint32_t at, uint32_t size, uint32_t *stop)
{
    uint32_t before = p->now, first = p->tokens.n;
    uint32_t end = td_lex_part(p->f, &p->tokens, line, column, at, size, stop != NULL);
    p->now = first;
    uint32_t node = td_parse_list(p);
    if (td_parser_token(p)->kind != TD_TOKEN_END)
        td_parser_wrong(p, td_parser_here(p), "expected the end of the value");
    p->now = before;
    p->tokens.n = first;
    if (stop) *stop = end;
    return node;
}

/* The first of the comments from a line on, which stand in their order; NULL: there is none before `to`. */
static const td_type_comment *comment_in(const td_parser *p, uint32_t from, uint32_t to)
{
    uint32_t low = 0, high = p->tokens.ncomments;
    while (low < high) {
        uint32_t mid = (low + high) / 2;
        if (p->tokens.comments[mid].line < from) low = mid + 1;
        else high = mid;
    }
    bool there = low < p->tokens.ncomments && p->tokens.comments[low].line < to;
    return there ? &p->tokens.comments[low] : NULL;
}

uint32_t td_parse_type_comment(td_parser *p, uint32_t line)
{
    const td_type_comment *c = comment_in(p, line, line + 1);
    return c ? td_parse_part(p, c->line, c->column, c->at, c->size, NULL) : 0;
}

static uint32_t signature(td_parser *p, uint32_t *returns)
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack;
    td_want_sign(p, TD_SIGN_OPEN, ": a function's types are '(A, B) -> C'");
    while (!td_take_sign(p, TD_SIGN_CLOSE)) {
        td_ast_push(p, td_parse_choice(p));
        if (!td_at_sign(p, TD_SIGN_CLOSE)) td_want_sign(p, TD_SIGN_COMMA, " or ')'");
    }
    uint32_t types = td_make(p, TD_N_TUPLE, 0, from, first);
    td_want_sign(p, TD_SIGN_ARROW, " and what it returns");
    *returns = td_parse_choice(p);
    if (td_parser_token(p)->kind != TD_TOKEN_END)
        td_parser_wrong(p, td_parser_here(p), "expected the end of the types");
    return types;
}

uint32_t td_parse_type_signature(td_parser *p, uint32_t from, uint32_t to, uint32_t *returns)
{
    const td_type_comment *c = comment_in(p, from, to);
    if (!c) return 0;
    uint32_t before = p->now, first = p->tokens.n;
    td_lex_part(p->f, &p->tokens, c->line, c->column, c->at, c->size, false);
    p->now = first;
    uint32_t types = signature(p, returns);
    p->now = before;
    p->tokens.n = first;
    return types;
}

/* ---- assignments */

static unsigned augmented(const td_parser *p)
{
    static const uint8_t signs[][2] = {
        {TD_SIGN_ADD_IS, TD_O_ADD},     {TD_SIGN_SUB_IS, TD_O_SUB},       {TD_SIGN_MUL_IS, TD_O_MUL},
        {TD_SIGN_DIV_IS, TD_O_DIV},     {TD_SIGN_MATMUL_IS, TD_O_MATMUL}, {TD_SIGN_FLOOR_IS, TD_O_FLOOR},
        {TD_SIGN_MOD_IS, TD_O_MOD},     {TD_SIGN_POWER_IS, TD_O_POWER},   {TD_SIGN_LEFT_IS, TD_O_LEFT},
        {TD_SIGN_RIGHT_IS, TD_O_RIGHT}, {TD_SIGN_AND_IS, TD_O_BIT_AND},   {TD_SIGN_OR_IS, TD_O_BIT_OR},
        {TD_SIGN_XOR_IS, TD_O_BIT_XOR}};
    for (unsigned i = 0; i < sizeof signs / sizeof *signs; i++)
        if (td_at_sign(p, signs[i][0])) return signs[i][1];
    return TD_O_NONE;
}

static void one_target(td_parser *p, uint32_t node)
{
    const td_ast_node *n = td_ast_at(p->ast, node);
    if (n->kind == TD_N_TUPLE || n->kind == TD_N_LIST)
        td_parser_wrong(p, n->span, "this takes one name; several only with '='");
    td_check_target(p, node);
}

static uint32_t annotated(td_parser *p, td_span from, uint32_t first, uint32_t target)
{
    one_target(p, target);
    p->now++;
    td_ast_push(p, target);
    td_ast_push(p, td_parse_choice(p));
    td_ast_push(p, td_take_sign(p, TD_SIGN_IS) ? td_parse_list(p) : 0);
    return td_make(p, TD_N_ANN_ASSIGN, 0, from, first);
}

static uint32_t assignment(td_parser *p, td_span from, uint32_t first, uint32_t node)
{
    td_ast_push(p, 0); /* the value, which comes last and stands first */
    td_ast_push(p, 0);
    while (td_take_sign(p, TD_SIGN_IS)) {
        td_check_target(p, node);
        td_ast_push(p, node);
        node = td_parse_maybe_targets(p);
    }
    p->stack[first] = node;
    td_span end = p->tokens.at[p->now - 1].span;
    uint32_t type = td_parse_type_comment(p, end.end_line);
    p->stack[first + 1] = type;
    return td_make(p, TD_N_ASSIGN, 0, from, first);
}

static uint32_t expression(td_parser *p)
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack, node = td_parse_maybe_targets(p);
    unsigned op = augmented(p);
    if (!td_at_sign(p, TD_SIGN_IS)) td_parse_no_star(p);
    if (td_at_sign(p, TD_SIGN_COLON)) return annotated(p, from, first, node);
    if (td_at_sign(p, TD_SIGN_IS)) return assignment(p, from, first, node);
    td_ast_push(p, node);
    if (!op) return td_make(p, TD_N_EXPR, 0, from, first);
    one_target(p, node);
    p->now++;
    td_ast_push(p, td_parse_list(p));
    return td_make(p, TD_N_AUG_ASSIGN, op, from, first);
}

/* ---- words */

static uint32_t raise_statement(td_parser *p)
{
    td_span from = p->tokens.at[p->now - 1].span;
    uint32_t first = p->nstack;
    if (!td_begins_expression(p)) td_parser_refuse(p, from, "cannot raise again what it cannot catch; name the error");
    td_ast_push(p, td_parse_choice(p));
    if (td_at_keyword(p, TD_KW_FROM)) td_parser_refuse(p, td_parser_here(p), "raises an error without a cause");
    return td_make(p, TD_N_RAISE, 0, from, first);
}

static uint32_t assert_statement(td_parser *p)
{
    td_span from = p->tokens.at[p->now - 1].span;
    uint32_t first = p->nstack;
    td_ast_push(p, td_parse_choice(p));
    td_ast_push(p, td_take_sign(p, TD_SIGN_COMMA) ? td_parse_choice(p) : 0);
    return td_make(p, TD_N_ASSERT, 0, from, first);
}

static uint32_t delete_statement(td_parser *p)
{
    td_span from = p->tokens.at[p->now - 1].span;
    uint32_t first = p->nstack;
    do {
        uint32_t node = td_parse_primary(p);
        td_check_target(p, node);
        td_ast_push(p, node);
    } while (td_take_sign(p, TD_SIGN_COMMA) && td_begins_expression(p));
    return td_make(p, TD_N_DELETE, 0, from, first);
}

static uint32_t return_statement(td_parser *p)
{
    td_span from = p->tokens.at[p->now - 1].span;
    uint32_t first = p->nstack;
    if (!p->functions) td_parser_wrong(p, from, "'return' stands outside of a function");
    td_ast_push(p, td_begins_expression(p) ? td_parse_list(p) : 0);
    return td_make(p, TD_N_RETURN, 0, from, first);
}

static uint32_t jump(td_parser *p, unsigned kind)
{
    td_span from = p->tokens.at[p->now - 1].span;
    if (!p->loops && kind != TD_N_PASS) td_parser_wrong(p, from, "this stands outside of a loop");
    return td_make(p, kind, 0, from, p->nstack);
}

static const char *refused(unsigned keyword)
{
    switch (keyword) {
    case TD_KW_GLOBAL:
    case TD_KW_NONLOCAL: return "cannot write what lies outside of it; return the value";
    case TD_KW_IMPORT:
    case TD_KW_FROM: return "cannot import; import outside of it";
    case TD_KW_YIELD: return "cannot 'yield'; collect what it makes in a list, and return that";
    default: return NULL;
    }
}

static uint32_t small(td_parser *p)
{
    const td_token *t = td_parser_token(p);
    if (t->kind == TD_TOKEN_KEYWORD && refused(t->which)) td_parser_refuse(p, t->span, refused(t->which));
    if (td_take_keyword(p, TD_KW_RETURN)) return return_statement(p);
    if (td_take_keyword(p, TD_KW_RAISE)) return raise_statement(p);
    if (td_take_keyword(p, TD_KW_ASSERT)) return assert_statement(p);
    if (td_take_keyword(p, TD_KW_DEL)) return delete_statement(p);
    if (td_take_keyword(p, TD_KW_PASS)) return jump(p, TD_N_PASS);
    if (td_take_keyword(p, TD_KW_BREAK)) return jump(p, TD_N_BREAK);
    if (td_take_keyword(p, TD_KW_CONTINUE)) return jump(p, TD_N_CONTINUE);
    return expression(p);
}

void td_parse_simple(td_parser *p)
{
    do td_ast_push(p, small(p));
    while (td_take_sign(p, TD_SIGN_SEMICOLON) && td_parser_token(p)->kind != TD_TOKEN_NEWLINE);
    if (td_parser_token(p)->kind != TD_TOKEN_NEWLINE)
        td_parser_wrong(p, td_parser_here(p), "expected the end of the line");
    p->now++;
}
