/* A program that the daemon has: what programs.c and program_call.c share. */
#ifndef TENSORD_CLIENT_PROGRAMS_H
#define TENSORD_CLIENT_PROGRAMS_H

#include "client/client.h"
#include "proto/program/ir.h"

struct td_program {
    td_client *client;
    uint32_t id;
    td_ir *ir;
    int narrays;  /* tensors that it returns, at most */
    bool exactly; /* it returns nothing but these tensors, always: no answer is wanted */
    bool writes;  /* to what it is given, or has captured */
    bool reaches; /* also what gradients lead to: graphs that it may free, .grad */
    bool prints;  /* so an answer is wanted, which brings that */
    int ncaptured;
    td_array **captured; /* a reference each; of one that was opened none, before td_program_captured */
};

/* The program that a module is, given to the daemon; takes the module over. NULL with this thread's error. */
td_program *td_program_give(td_client *c, td_ir *ir, td_list captured, const char *op);

/* The text of a module, to be freed; NULL with `e`. */
char *td_program_show(const td_ir *ir, td_text_kind what, td_error *e);
/* A handle of a module (a reference of its own), which the daemon does not have yet. NULL: raised. */
td_program *td_program_make(td_client *c, td_ir *ir, td_list captured, const char *op);
/* Of one that the daemon does not have. */
void td_program_drop(td_program *p);
/* All that it captures, with a handle each. */
int td_program_captured(td_program *p);
/* program_names.c: TD_TEXT_PLANS, which the daemon knows. NULL: raised. */
char *td_program_plans(const td_program *p);

#endif
