/* A source becomes tokens: indentation, joined lines, strings, numbers, comments.
 *
 * Invariants: every INDENT has its DEDENT, brackets match and are at most TD_SCRIPT_DEPTH deep, the last token is END.
 * The source is UTF-8 without a 0. A source that is indented as a whole (a function inside of something) is read as if
 * it were not. */
#ifndef TENSORD_CLIENT_SCRIPT_LEX_H
#define TENSORD_CLIENT_SCRIPT_LEX_H

#include "client/script/fault.h"

#define TD_SCRIPT_SIZE (1u << 20) /* bytes of source */
#define TD_SCRIPT_DEPTH 200       /* of brackets, of expressions, of blocks and expressions together */

typedef enum td_token_kind {
    TD_TOKEN_END,
    TD_TOKEN_NEWLINE,
    TD_TOKEN_INDENT,
    TD_TOKEN_DEDENT,
    TD_TOKEN_NAME,
    TD_TOKEN_NUMBER,
    TD_TOKEN_STRING,
    TD_TOKEN_SIGN,   /* which: td_sign */
    TD_TOKEN_KEYWORD /* which: td_keyword */
} td_token_kind;

/* Longer ones first: the first that fits is it. */
#define TD_SIGNS(S)                                                                                                    \
    S(POWER_IS, "**=")                                                                                                 \
    S(FLOOR_IS, "//=")                                                                                                 \
    S(LEFT_IS, "<<=")                                                                                                  \
    S(RIGHT_IS, ">>=")                                                                                                 \
    S(DOTS, "...")                                                                                                     \
    S(NE, "!=")                                                                                                        \
    S(MOD_IS, "%=")                                                                                                    \
    S(AND_IS, "&=")                                                                                                    \
    S(POWER, "**")                                                                                                     \
    S(MUL_IS, "*=")                                                                                                    \
    S(ADD_IS, "+=")                                                                                                    \
    S(SUB_IS, "-=")                                                                                                    \
    S(ARROW, "->")                                                                                                     \
    S(FLOOR, "//")                                                                                                     \
    S(DIV_IS, "/=")                                                                                                    \
    S(WALRUS, ":=")                                                                                                    \
    S(LEFT, "<<")                                                                                                      \
    S(LE, "<=")                                                                                                        \
    S(EQ, "==")                                                                                                        \
    S(GE, ">=")                                                                                                        \
    S(RIGHT, ">>")                                                                                                     \
    S(MATMUL_IS, "@=")                                                                                                 \
    S(XOR_IS, "^=")                                                                                                    \
    S(OR_IS, "|=")                                                                                                     \
    S(MOD, "%")                                                                                                        \
    S(AND, "&")                                                                                                        \
    S(OPEN, "(")                                                                                                       \
    S(CLOSE, ")")                                                                                                      \
    S(MUL, "*")                                                                                                        \
    S(ADD, "+")                                                                                                        \
    S(COMMA, ",")                                                                                                      \
    S(SUB, "-")                                                                                                        \
    S(DOT, ".")                                                                                                        \
    S(DIV, "/")                                                                                                        \
    S(COLON, ":")                                                                                                      \
    S(SEMICOLON, ";")                                                                                                  \
    S(LT, "<")                                                                                                         \
    S(IS, "=")                                                                                                         \
    S(GT, ">")                                                                                                         \
    S(MATMUL, "@")                                                                                                     \
    S(OPEN_LIST, "[")                                                                                                  \
    S(CLOSE_LIST, "]")                                                                                                 \
    S(XOR, "^")                                                                                                        \
    S(OPEN_DICT, "{")                                                                                                  \
    S(OR, "|")                                                                                                         \
    S(CLOSE_DICT, "}")                                                                                                 \
    S(INVERT, "~")                                                                                                     \
    S(BANG, "!")

#define TD_KEYWORDS(K)                                                                                                 \
    K(FALSE, "False")                                                                                                  \
    K(NONE, "None")                                                                                                    \
    K(TRUE, "True")                                                                                                    \
    K(AND, "and")                                                                                                      \
    K(AS, "as")                                                                                                        \
    K(ASSERT, "assert")                                                                                                \
    K(ASYNC, "async")                                                                                                  \
    K(AWAIT, "await")                                                                                                  \
    K(BREAK, "break")                                                                                                  \
    K(CLASS, "class")                                                                                                  \
    K(CONTINUE, "continue")                                                                                            \
    K(DEF, "def")                                                                                                      \
    K(DEL, "del")                                                                                                      \
    K(ELIF, "elif")                                                                                                    \
    K(ELSE, "else")                                                                                                    \
    K(EXCEPT, "except")                                                                                                \
    K(FINALLY, "finally")                                                                                              \
    K(FOR, "for")                                                                                                      \
    K(FROM, "from")                                                                                                    \
    K(GLOBAL, "global")                                                                                                \
    K(IF, "if")                                                                                                        \
    K(IMPORT, "import")                                                                                                \
    K(IN, "in")                                                                                                        \
    K(IS, "is")                                                                                                        \
    K(LAMBDA, "lambda")                                                                                                \
    K(NONLOCAL, "nonlocal")                                                                                            \
    K(NOT, "not")                                                                                                      \
    K(OR, "or")                                                                                                        \
    K(PASS, "pass")                                                                                                    \
    K(RAISE, "raise")                                                                                                  \
    K(RETURN, "return")                                                                                                \
    K(TRY, "try")                                                                                                      \
    K(WHILE, "while")                                                                                                  \
    K(WITH, "with")                                                                                                    \
    K(YIELD, "yield")

#define TD_SIGN_NAME(name, text) TD_SIGN_##name,
#define TD_KEYWORD_NAME(name, text) TD_KW_##name,
typedef enum td_sign { TD_SIGNS(TD_SIGN_NAME) TD_SIGN_COUNT } td_sign;
typedef enum td_keyword { TD_KEYWORDS(TD_KEYWORD_NAME) TD_KW_COUNT } td_keyword;

typedef struct td_token {
    uint8_t kind, which;
    td_span span;
    uint32_t at, size; /* in the source */
} td_token;

/* "# type: ..." at the end of a line, or on one of its own. */
typedef struct td_type_comment {
    uint32_t line, column, at, size; /* of what follows the colon */
} td_type_comment;

typedef struct td_tokens {
    td_token *at;
    td_type_comment *comments;
    uint32_t n, room, ncomments, comment_room;
} td_tokens;

void td_tokens_deinit(td_tokens *t);

/* All of the source of `f`. */
void td_lex(td_fault *f, td_tokens *out);
/* A part of it, as if it stood in brackets, appended: an END behind it. `stop`: at a '}', ':', '=' or single '!'
 * outside of brackets there, as in an f-string. Where that was, or the end. */
uint32_t td_lex_part(td_fault *f, td_tokens *out, uint32_t line, uint32_t column, uint32_t at, uint32_t size,
                     bool stop);

/* How signs and keywords are written. */
const char *td_sign_text(unsigned which);
const char *td_keyword_text(unsigned which);

/* ---- lex_number.c: its length; what it says ---- */
size_t td_lex_number(td_fault *f, const char *at, const char *end, td_span where);

typedef struct td_number {
    uint8_t kind;   /* 'i', 'f', 'j' */
    bool too_large; /* 2 ** 63, of which only the negative is an int */
    int64_t i;
    double f;
} td_number;
void td_number_read(td_fault *f, const td_token *t, td_number *out);

/* ---- lex_string.c ---- */
typedef struct td_string {
    bool raw, bytes, format;
    uint8_t quote;     /* bytes of it: 1 or 3 */
    uint32_t at, size; /* what is between the quotes, in the source */
} td_string;

/* The length of a string with its prefix and quotes; 0: none begins here. */
size_t td_lex_string(td_fault *f, const char *at, const char *end, td_span where);
void td_string_parts(const td_fault *f, const td_token *t, td_string *out);
/* Write what [at, end) of a string means to `out`, which has room for as many bytes; how many. bytes: \303 is a byte,
 * and no character. */
size_t td_string_decode(td_fault *f, const char *at, const char *end, bool raw, bool bytes, td_span where, char *out);

#endif
