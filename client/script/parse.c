/* Blocks and the statements that have some. See parse.h. */
#include "client/script/parse.h"

#include <stdlib.h>

void td_parser_deinit(td_parser *p)
{
    td_tokens_deinit(&p->tokens);
    free(p->stack);
    free(p->text);
    *p = (td_parser){0};
}

/* ---- blocks */

static void statement(td_parser *p);

/* Behind a colon: statements on the same line, or indented ones. */
uint32_t td_parse_block(td_parser *p)
{
    td_want_sign(p, TD_SIGN_COLON, "");
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack;
    td_parser_enter(p);
    if (td_parser_token(p)->kind != TD_TOKEN_NEWLINE) {
        td_parse_simple(p);
    } else {
        p->now++;
        from = td_parser_here(p);
        if (td_parser_token(p)->kind != TD_TOKEN_INDENT)
            td_parser_wrong(p, from, "expected an indented block; 'pass' does nothing");
        p->now++;
        from = td_parser_here(p);
        while (td_parser_token(p)->kind != TD_TOKEN_DEDENT && td_parser_token(p)->kind != TD_TOKEN_END) statement(p);
        if (td_parser_token(p)->kind == TD_TOKEN_DEDENT) p->now++;
    }
    td_parser_leave(p);
    return td_make(p, TD_N_BLOCK, 0, from, first);
}

static uint32_t otherwise(td_parser *p)
{
    return td_take_keyword(p, TD_KW_ELSE) ? td_parse_block(p) : 0;
}

/* Behind "if" or "elif"; `from` is that word. */
static uint32_t if_statement(td_parser *p, td_span from)
{
    uint32_t first = p->nstack;
    td_parser_enter(p);
    td_ast_push(p, td_parse_choice(p));
    td_ast_push(p, td_parse_block(p));
    td_span at = td_parser_here(p);
    if (td_take_keyword(p, TD_KW_ELIF)) {
        uint32_t inner = p->nstack;
        td_ast_push(p, if_statement(p, at));
        td_ast_push(p, td_make(p, TD_N_BLOCK, 0, at, inner));
    } else {
        td_ast_push(p, otherwise(p));
    }
    td_parser_leave(p);
    return td_make(p, TD_N_IF, 0, from, first);
}

static uint32_t loop_block(td_parser *p)
{
    p->loops++;
    uint32_t block = td_parse_block(p);
    p->loops--;
    return block;
}

static uint32_t while_statement(td_parser *p, td_span from)
{
    uint32_t first = p->nstack;
    td_ast_push(p, td_parse_choice(p));
    td_ast_push(p, loop_block(p));
    td_ast_push(p, otherwise(p));
    return td_make(p, TD_N_WHILE, 0, from, first);
}

static uint32_t for_statement(td_parser *p, td_span from)
{
    uint32_t first = p->nstack;
    td_ast_push(p, td_parse_targets(p));
    if (!td_take_keyword(p, TD_KW_IN)) td_parser_wrong(p, td_parser_here(p), "expected 'in'");
    td_ast_push(p, td_parse_list(p));
    td_ast_push(p, loop_block(p));
    td_ast_push(p, otherwise(p));
    return td_make(p, TD_N_FOR, 0, from, first);
}

static uint32_t with_item(td_parser *p)
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack;
    td_ast_push(p, td_parse_choice(p));
    uint32_t target = td_take_keyword(p, TD_KW_AS) ? td_parse_sum(p) : 0;
    if (target) td_check_target(p, target);
    td_ast_push(p, target);
    return td_make(p, TD_N_WITH_ITEM, 0, from, first);
}

static uint32_t with_statement(td_parser *p, td_span from)
{
    uint32_t first = p->nstack;
    td_ast_push(p, 0); /* the block, which comes last and stands first */
    do td_ast_push(p, with_item(p));
    while (td_take_sign(p, TD_SIGN_COMMA));
    uint32_t block = td_parse_block(p);
    p->stack[first] = block;
    return td_make(p, TD_N_WITH, 0, from, first);
}

/* ---- statements */

/* "match x:" is a statement, "match(x)" may be a call. */
static bool at_match(const td_parser *p)
{
    const td_token *t = td_parser_token(p);
    if (t->kind != TD_TOKEN_NAME || t->size != 5 || memcmp(p->f->source->text + t->at, "match", 5) != 0) return false;
    while (t[1].kind != TD_TOKEN_NEWLINE && t[1].kind != TD_TOKEN_END) t++;
    return t->kind == TD_TOKEN_SIGN && t->which == TD_SIGN_COLON && t[1].kind == TD_TOKEN_NEWLINE &&
           t[2].kind == TD_TOKEN_INDENT;
}

static const char *refused(unsigned keyword)
{
    switch (keyword) {
    case TD_KW_TRY: return "cannot catch errors; test by 'if' before, or catch outside of it";
    case TD_KW_ASYNC: return "has no 'async': nothing waits until a value is looked at";
    default: return NULL;
    }
}

static void decorated(td_parser *p)
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack;
    if (p->functions) td_parser_refuse(p, from, "cannot decorate a 'def' inside; write what it does");
    while (td_take_sign(p, TD_SIGN_MATMUL)) {
        td_ast_push(p, td_parse_choice(p));
        if (td_parser_token(p)->kind != TD_TOKEN_NEWLINE)
            td_parser_wrong(p, td_parser_here(p), "expected the end of the line");
        p->now++;
    }
    td_span at = td_parser_here(p);
    if (!td_take_keyword(p, TD_KW_DEF)) td_parser_wrong(p, at, "expected 'def'");
    td_parse_function(p, first, at);
}

static void statement(td_parser *p)
{
    td_span from = td_parser_here(p);
    const td_token *t = td_parser_token(p);
    if (t->kind == TD_TOKEN_KEYWORD && refused(t->which)) td_parser_refuse(p, from, refused(t->which));
    if (t->kind == TD_TOKEN_INDENT)
        td_parser_wrong(p, p->tokens.at[p->now + 1].span, "this line is indented without a reason");
    if (at_match(p)) td_parser_refuse(p, from, "has no 'match'; write 'if' and 'elif'");
    if (td_take_keyword(p, TD_KW_IF)) td_ast_push(p, if_statement(p, from));
    else if (td_take_keyword(p, TD_KW_WHILE)) td_ast_push(p, while_statement(p, from));
    else if (td_take_keyword(p, TD_KW_FOR)) td_ast_push(p, for_statement(p, from));
    else if (td_take_keyword(p, TD_KW_WITH)) td_ast_push(p, with_statement(p, from));
    else if (td_take_keyword(p, TD_KW_DEF)) td_parse_function(p, p->nstack, from);
    else if (td_take_keyword(p, TD_KW_CLASS)) td_parse_class(p);
    else if (td_at_sign(p, TD_SIGN_MATMUL)) decorated(p);
    else td_parse_simple(p);
}

void td_parse(td_parser *p, td_fault *f, td_ast *ast, unsigned flags)
{
    p->f = f, p->ast = ast, p->flags = flags;
    td_lex(f, &p->tokens);
    td_span from = td_parser_here(p);
    while (td_parser_token(p)->kind != TD_TOKEN_END) statement(p);
    ast->root = td_make(p, TD_N_MODULE, 0, from, 0);
}
