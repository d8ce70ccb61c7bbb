/* Tokens become a tree. The one door is td_parse; the rest is what its files share.
 *
 * Invariant: every recursion is counted (td_parser_enter), so that no source exhausts the stack. */
#ifndef TENSORD_CLIENT_SCRIPT_PARSE_H
#define TENSORD_CLIENT_SCRIPT_PARSE_H

#include "client/script/ast.h"

enum { TD_PARSE_CLASSES = 1 }; /* the code of a TorchScript archive */

typedef struct td_parser {
    td_fault *f;
    td_ast *ast;
    td_tokens tokens;
    uint32_t now;    /* the next token */
    uint32_t *stack; /* nodes that have no parent yet */
    uint32_t nstack, stack_room;
    char *text; /* of strings that are being read */
    uint32_t ntext, text_room;
    uint32_t starred; /* the last '*name' of a list that may become a target; 0: there is none */
    uint32_t large;   /* an int of 2 ** 63 that has no '-' yet; 0: none */
    unsigned depth, flags, functions, loops;
} td_parser;

/* All of the source of `f`. Nothing is left but `ast`, which the caller ends, also after a fault. The parser is the
 * caller's so that a fault leaves no memory behind: td_parser_deinit in any case. */
void td_parse(td_parser *p, td_fault *f, td_ast *ast, unsigned flags);
void td_parser_deinit(td_parser *p);

/* ---- what its files share ---- */
static inline const td_token *td_parser_token(const td_parser *p)
{
    return &p->tokens.at[p->now];
}
static inline td_span td_parser_here(const td_parser *p)
{
    return td_parser_token(p)->span;
}
static inline bool td_at_sign(const td_parser *p, unsigned sign)
{
    return td_parser_token(p)->kind == TD_TOKEN_SIGN && td_parser_token(p)->which == sign;
}
static inline bool td_at_keyword(const td_parser *p, unsigned keyword)
{
    return td_parser_token(p)->kind == TD_TOKEN_KEYWORD && td_parser_token(p)->which == keyword;
}
bool td_take_sign(td_parser *p, unsigned sign);
bool td_take_keyword(td_parser *p, unsigned keyword);
void td_want_sign(td_parser *p, unsigned sign, const char *why);
uint32_t td_want_name(td_parser *p, const char *what); /* its text */

void td_parser_enter(td_parser *p);
void td_parser_leave(td_parser *p);
void td_ast_push(td_parser *p, uint32_t node);
/* A node over what was pushed since `first`, from there to the last token taken that is seen. */
uint32_t td_make(td_parser *p, unsigned kind, unsigned op, td_span from, uint32_t first);
_Noreturn void td_parser_refuse(td_parser *p, td_span at, const char *words); /* no part of the subset */
_Noreturn void td_parser_wrong(td_parser *p, td_span at, const char *words);  /* no Python */

/* parse_expr.c, parse_atom.c, parse_string.c: each gives one node, which it does not push. */
uint32_t td_parse_choice(td_parser *p); /* a whole expression, but no tuple without brackets */
uint32_t td_parse_list(td_parser *p);   /* one expression, or a tuple */
uint32_t td_parse_targets(td_parser *p);
uint32_t td_parse_maybe_targets(td_parser *p); /* td_parse_list(), or what stands before a '=': p->starred */
void td_parse_no_star(td_parser *p);           /* it was no target */
uint32_t td_parse_sum(td_parser *p);           /* what stands between comparisons */
uint32_t td_parse_or(td_parser *p);
uint32_t td_parse_primary(td_parser *p);
uint32_t td_parse_strings(td_parser *p);
void td_check_target(td_parser *p, uint32_t node);
bool td_begins_expression(const td_parser *p);
/* An expression that stands in a part of the source; *stop as td_lex_part. */
uint32_t td_parse_part(td_parser *p, uint32_t line, uint32_t column, uint32_t at, uint32_t size, uint32_t *stop);

/* parse_simple.c, parse_function.c: statements push what they make. */
void td_parse_simple(td_parser *p);
uint32_t td_parse_block(td_parser *p);
void td_parse_function(td_parser *p, uint32_t first, td_span from);
void td_parse_class(td_parser *p);
/* "# type:" behind the statement that ended before the next token: what it says, or 0. */
uint32_t td_parse_type_comment(td_parser *p, uint32_t line);
/* The one between two lines: of a function. Gives a tuple, and *returns. */
uint32_t td_parse_type_signature(td_parser *p, uint32_t from, uint32_t to, uint32_t *returns);

#endif
