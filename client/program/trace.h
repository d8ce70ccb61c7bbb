/* A trace: a program that is recorded from what a thread asks for. trace.c is the recorder that ops tell
 * (tensor/recorder.h); here is what the calls of programs tell it.
 *
 * Where no trace is on, all this costs is one look at a thread's variable: a caller asks td_tracing first. */
#ifndef TENSORD_CLIENT_PROGRAM_TRACE_H
#define TENSORD_CLIENT_PROGRAM_TRACE_H

#include "client/tensor/array.h"
#include "proto/program/ir.h"

extern _Thread_local td_trace *td_tracing __attribute__((tls_model("initial-exec"))); /* this thread's, or NULL */

/* ---- told under the client's lock */

/* A program was called, and gave this. */
void td_trace_call(const td_program *p, const char *where, int n, const td_value *args, const td_value *result);

/* ---- told without it */

/* This cannot be part of a program: the trace will fail. `a`: only if it belongs to the trace; NULL: whatever it is. */
void td_trace_refuse(const td_array *a, const char *where, const char *what);

#endif
