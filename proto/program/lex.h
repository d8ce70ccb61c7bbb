/* Words of a program's text; for read.c, read_node.c, read_value.c and read_type.c. */
#ifndef TENSORD_PROTO_PROGRAM_LEX_H
#define TENSORD_PROTO_PROGRAM_LEX_H

#include "proto/program/edit.h"

typedef enum td_ir_token {
    TD_TOK_END,
    TD_TOK_LINE,  /* the end of a line, and of empty ones behind it */
    TD_TOK_NAME,  /* letters, digits, _, and dots within */
    TD_TOK_VALUE, /* %NAME or %INT: without the % */
    TD_TOK_INT,
    TD_TOK_FLOAT,
    TD_TOK_STRING, /* with its quotes */
    TD_TOK_SOURCE, /* what stands behind # */
    TD_TOK_ARROW,
    TD_TOK_COLONS,
    TD_TOK_DOTS,
    TD_TOK_SIGN, /* one character: the first of the token */
    TD_TOK_BAD
} td_ir_token;

typedef struct td_ir_numbers { /* of numbers */
    uint32_t *at;
    uint32_t n, room;
} td_ir_numbers;

typedef struct td_ir_named { /* beside strings of the edit: the value of that name, in which function */
    uint32_t value, function;
} td_ir_named;

typedef struct td_ir_reader {
    const char *text;
    size_t length;
    td_ir_token token; /* the one that is looked at, and where it stands */
    size_t start, end;
    td_ir_edit *e;
    td_error *error; /* set once */
    td_ir_named *named;
    uint32_t nnamed;
    uint32_t function; /* names of values hold in it; of captured ones everywhere */
    unsigned depth;
    td_ir_numbers values, types, words,
        calls; /* results of a node: places of their names, and types; calls: node, place */
    td_ir_numbers args;
    char *buffer; /* for a string without its escapes */
} td_ir_reader;

/* Look at the next token. */
void td_ir_next(td_ir_reader *r);
bool td_ir_at_sign(const td_ir_reader *r, char sign);
bool td_ir_at_name(const td_ir_reader *r, const char *name);
/* A sign that must be there; false: it was not. */
bool td_ir_expect(td_ir_reader *r, char sign);
/* Something is wrong at a place of the text; always false. */
bool td_ir_read_fail(td_ir_reader *r, size_t at, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool td_ir_add_number(td_ir_reader *r, td_ir_numbers *list, uint32_t number);
/* The string token without quotes and escapes, in r->buffer; its length in *n. */
/* A text of so many bytes, ended by a 0, to be freed; NULL: no memory. What is copied may end nowhere. */
char *td_ir_copied(const char *text, size_t n);
bool td_ir_unquote(td_ir_reader *r, size_t *n);

/* A type, from the token on; TD_IR_NONE after a failure. */
uint32_t td_ir_read_type(td_ir_reader *r);
/* A literal that may stand for this type, appended to r->words. */
bool td_ir_read_literal(td_ir_reader *r, uint32_t type);

/* ---- values and lines */

#define TD_EVERYWHERE UINT32_MAX /* the function of captured values */
/* The name at `start` is that of `value`, in this function. */
bool td_ir_define(td_ir_reader *r, size_t start, uint32_t value, uint32_t function);
/* '(' values ')' into r->args. */
bool td_ir_read_uses(td_ir_reader *r);
/* VALUE ':' type {',' ...} into r->values (places) and r->types, up to something else. */
bool td_ir_read_typed(td_ir_reader *r);
/* '(' typed ')' ':' as parameters of a block. */
bool td_ir_read_params(td_ir_reader *r, uint32_t block);
bool td_ir_end_line(td_ir_reader *r);
/* Results, op, attributes, arguments, source: the node, or TD_IR_NONE after a failure. */
uint32_t td_ir_read_line(td_ir_reader *r);

#endif
