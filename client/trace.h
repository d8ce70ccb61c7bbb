/* Recording what a thread asks for into a program: what the way of every op tells the recorder (trace.c), and what
 * bindings want beside tensord.h.
 *
 * Where no trace is on, all this costs is one look at a thread's variable: who calls asks td_tracing first. */
#ifndef TENSORD_CLIENT_TRACE_H
#define TENSORD_CLIENT_TRACE_H

#include "client/client.h"
#include "proto/program/ir.h"

extern _Thread_local td_trace *td_tracing __attribute__((tls_model("initial-exec"))); /* this thread's, or NULL */

/* ---- told under the client's lock */

/* An op was asked for, in the form in which the program asked: before what it is made of. */
void td_trace_op(td_client *c, const char *where, const td_op *op, unsigned flags, int nin, const td_arg *in,
                 const td_attrs *attrs, int nout, td_array *const *out);
/* `made` has the same bytes as `of`, outside of its graph. */
void td_trace_data_of(td_array *made, td_array *of);
/* A tensor with the values at `data` was made. */
void td_trace_data(td_array *made, const void *data);

/* A program was called, and gave this. */
void td_trace_call(const td_program *p, const char *where, int n, const td_value *args, const td_value *result);

/* ---- told without it */

/* Its value is looked at: "item". A program does not see what is then done by it. */
void td_trace_look(const td_array *a, const char *how);
/* This cannot be part of a program: the trace will fail. `a`: only if it belongs to the trace; NULL: whatever it is. */
void td_trace_refuse(const td_array *a, const char *where, const char *what);

/* ---- for bindings */

/* How the line of the program that runs is found, for what says no place of its own (td_item). */
void td_trace_places(td_trace *t, const char *(*where)(void));
/* On: what this thread asks for is no part of the trace, until off. Was it on? Without a trace nothing is changed. */
bool td_trace_pause(bool on);
/* What a parameter, or a tensor if it is captured, is called. */
void td_trace_name_input(td_trace *t, int k, const char *name);
int td_trace_name_captured(td_trace *t, td_array *a, const char *name);
/* The end, as a module: `captured` gets the tensors that it captures, a reference each, in a piece of memory to be
 * freed. NULL with this thread's error. The trace is gone. */
td_ir *td_trace_take(td_trace *t, td_list outputs, td_array ***captured);

#endif
