/* Functions, and the classes of TorchScript archives. See parse.h. */
#include "client/script/parse.h"

static uint32_t param(td_parser *p, unsigned place, bool *defaults)
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack, text = td_want_name(p, "the name of a parameter");
    td_ast_push(p, td_take_sign(p, TD_SIGN_COLON) ? td_parse_choice(p) : 0);
    td_span end = p->tokens.at[p->now - 1].span;
    bool given = td_take_sign(p, TD_SIGN_IS);
    td_ast_push(p, given ? td_parse_choice(p) : 0);
    if (!given && *defaults && place != TD_PLACE_KEYWORD)
        td_parser_wrong(p, from, "a parameter without a default stands behind one with a default");
    *defaults |= given;
    uint32_t node = td_make(p, TD_N_PARAM, place, from, first);
    p->ast->nodes[node].span = td_span_to(from, end); /* as Python has it: without the default */
    p->ast->nodes[node].text = text;
    return node;
}

/* All before a "/" are by position only. */
static void only_positions(td_parser *p, uint32_t first)
{
    for (uint32_t i = first; i < p->nstack; i++) p->ast->nodes[p->stack[i]].op = TD_PLACE_POSITION;
    if (p->nstack == first) td_parser_wrong(p, td_parser_here(p), "expected a parameter before '/'");
    p->now++;
}

static uint32_t params(td_parser *p)
{
    td_span from = td_parser_here(p);
    uint32_t first = p->nstack;
    unsigned place = TD_PLACE_ANY;
    bool defaults = false, slash = false;
    td_want_sign(p, TD_SIGN_OPEN, "");
    while (!td_take_sign(p, TD_SIGN_CLOSE)) {
        td_span at = td_parser_here(p);
        if (td_at_sign(p, TD_SIGN_POWER)) td_parser_refuse(p, at, "has no '**' of arguments; take a dict");
        if (td_at_sign(p, TD_SIGN_DIV) && !slash && place == TD_PLACE_ANY) {
            only_positions(p, first);
            slash = true;
        } else if (td_at_sign(p, TD_SIGN_MUL) && place == TD_PLACE_ANY) {
            p->now++;
            if (!td_at_sign(p, TD_SIGN_COMMA))
                td_parser_refuse(p, at, "has no '*' of arguments; take a list, or name each of them");
            place = TD_PLACE_KEYWORD;
            if (p->tokens.at[p->now + 1].kind != TD_TOKEN_NAME)
                td_parser_wrong(p, at, "expected a parameter behind '*'");
        } else {
            td_ast_push(p, param(p, place, &defaults));
        }
        if (!td_at_sign(p, TD_SIGN_CLOSE)) td_want_sign(p, TD_SIGN_COMMA, " or ')'");
    }
    return td_make(p, TD_N_PARAMS, 0, from, first);
}

/* The line of the first statement of the block that begins here. */
static uint32_t block_line(const td_parser *p)
{
    const td_token *t = td_parser_token(p);
    while (t->kind == TD_TOKEN_NEWLINE || t->kind == TD_TOKEN_INDENT ||
           (t->kind == TD_TOKEN_SIGN && t->which == TD_SIGN_COLON))
        t++;
    return t->span.line;
}

/* Behind "def". Decorators were pushed from `first` on; they come last in the node. */
void td_parse_function(td_parser *p, uint32_t first, td_span from)
{
    uint32_t decorators = p->nstack - first, returns = 0, promised = 0;
    unsigned loops = p->loops;
    uint32_t text = td_want_name(p, "the name of the function");
    uint32_t list = params(p);
    if (td_take_sign(p, TD_SIGN_ARROW)) returns = td_parse_choice(p);
    uint32_t header = td_parser_here(p).line, line = block_line(p);
    uint32_t types = td_parse_type_signature(p, header, line > header ? line : header + 1, &promised);
    p->functions++, p->loops = 0;
    uint32_t block = td_parse_block(p);
    p->functions--, p->loops = loops;
    uint32_t all = p->nstack;
    td_ast_push(p, list);
    td_ast_push(p, returns ? returns : promised);
    td_ast_push(p, types);
    td_ast_push(p, block);
    for (uint32_t i = 0; i < decorators; i++) td_ast_push(p, p->stack[first + i]);
    uint32_t node = td_make(p, TD_N_FUNCTION, 0, from, all);
    p->ast->nodes[node].text = text;
    p->nstack = first;
    td_ast_push(p, node);
}

void td_parse_class(td_parser *p)
{
    td_span from = p->tokens.at[p->now - 1].span;
    uint32_t first = p->nstack;
    if (!(p->flags & TD_PARSE_CLASSES) || p->functions)
        td_parser_refuse(p, from, "cannot define a class; define it outside, or use a tuple");
    uint32_t text = td_want_name(p, "the name of the class");
    td_ast_push(p, 0);
    if (td_take_sign(p, TD_SIGN_OPEN))
        while (!td_take_sign(p, TD_SIGN_CLOSE)) {
            td_ast_push(p, td_parse_choice(p));
            if (!td_at_sign(p, TD_SIGN_CLOSE)) td_want_sign(p, TD_SIGN_COMMA, " or ')'");
        }
    uint32_t block = td_parse_block(p);
    p->stack[first] = block;
    uint32_t node = td_make(p, TD_N_CLASS, 0, from, first);
    p->ast->nodes[node].text = text;
    td_ast_push(p, node);
}
