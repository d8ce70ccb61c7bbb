/* Inside of the printer of TorchScript's code; for torchscript.c, torchscript_call.c, torchscript_row.c,
 * torchscript_enter.c, torchscript_class.c. */
#ifndef TENSORD_CLIENT_FILES_TORCHSCRIPT_PRINT_H
#define TENSORD_CLIENT_FILES_TORCHSCRIPT_PRINT_H

#include "client/files/pickle.h"
#include "client/files/torchscript.h"
#include "proto/program/print.h"
#include "proto/program/type.h"

typedef struct td_coding {
    td_print p;
    const td_ir *ir;
    const char *program;      /* its name */
    const td_ir_block *block; /* of the function that is printed */
    bool *used;               /* values that something looks at */
    uint32_t temporaries;
    bool modes;  /* some ops are done in no_grad() */
    td_error *e; /* the first that was wrong; what is printed behind it is of no use */
} td_coding;

/* Why there is no code. */
void td_coding_refuse(td_coding *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
void td_coding_line(td_coding *c, unsigned level);
/* A value where it is used: a name, a path from self, or the constant that it is. */
void td_coding_value(td_coding *c, uint32_t value);
void td_coding_type(td_coding *c, uint32_t type);
/* It as this type, which it may be less than. */
void td_coding_as(td_coding *c, uint32_t value, uint32_t type);
/* self.linear.weight; what is no name of Python is asked for by getattr(). */
void td_coding_path(td_coding *c, const char *name);
bool td_coding_is_word(const char *text, size_t n); /* a name that may stand anywhere */
void td_coding_text(td_print *p, const char *bytes, size_t n);
void td_coding_real(td_coding *c, double v);
/* Is it a constant? Its words. */
bool td_coding_constant(const td_coding *c, uint32_t value, td_literal *v);
/* The items of a list that was written as one; -1: it was not. */
int td_coding_items(const td_coding *c, uint32_t value, const uint32_t **at);
/* Is it a list of one item, also as a constant? It is printed, if that is wanted. */
bool td_coding_one(td_coding *c, uint32_t value, bool print);

/* torchscript_call.c: what a node that has no blocks does, as an expression. */
void td_coding_call(td_coding *c, uint32_t node);
/* torchscript_row.c: an op of the table */
void td_coding_row(td_coding *c, uint32_t node);
/* How many of its results its expression gives: all, or of some ops the first alone. */
uint32_t td_coding_results(const td_coding *c, uint32_t node);

/* torchscript_enter.c: how Python calls a program. */
enum { TD_CALLED = 64 };
typedef struct td_entry {
    td_pickle memory;
    const td_plain *names, *defaults, *takes, *gives; /* NULL: it does not say */
    char (*called)[TD_CALLED];                        /* the parameters, by td_coding_parameters() */
} td_entry;
bool td_entry_open(td_entry *t, const td_scripted_program *p, td_error *e);
void td_entry_close(td_entry *t);
/* "x: Tensor, n: int=3": behind self; then what takes arguments apart. */
void td_coding_parameters(td_coding *c, td_entry *t);
void td_coding_take_apart(td_coding *c, const td_entry *t);
void td_coding_result_type(td_coding *c, const td_entry *t);
void td_coding_result(td_coding *c, const td_entry *t);

/* torchscript_class.c: the classes around the methods, and the tree of their objects. */
typedef struct td_classes td_classes;
td_classes *td_classes_new(td_note tree, td_error *e);
void td_classes_free(td_classes *t);
void td_classes_print(const td_classes *t, uint32_t class, td_print *p); /* without methods */
uint32_t td_classes_count(const td_classes *t);
bool td_classes_has(const td_classes *t, const char *name); /* an attribute of the outermost */
bool td_classes_note(const td_classes *t, td_bytes *out);

#endif
