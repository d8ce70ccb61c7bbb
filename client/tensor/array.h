/* A tensor's handle. It has an id, which the daemon knows it by, and what is known here of the tensor: its descriptor,
 * and where its bytes lie. Under the client's lock, but where it says so. */
#ifndef TENSORD_CLIENT_TENSOR_ARRAY_H
#define TENSORD_CLIENT_TENSOR_ARRAY_H

#include "client/wire/memory.h"
#include "client/wire/stream.h"

struct td_array {
    td_client *client;
    uint32_t id;
    uint32_t refs;
    td_desc desc;
    bool unknown;                /* the descriptor is not known yet: td_resolve() asks */
    bool writing;                /* between td_write_begin and td_write_end */
    int32_t mapping;             /* index of the mapping that `bytes` points into, or -1 */
    unsigned char *bytes;        /* first byte of the storage, once it is known */
    struct td_cuda_arena *arena; /* of a GPU's memory, mapped because td_cuda_data() was called; else NULL */
    uint64_t far;                /* first byte of the storage there */
    uint64_t settled;            /* client->writes when the bytes were known to be written; 0: never */
    uint64_t storage; /* a number that all handles of the storage have that were made here; 0: it came otherwise */
    bool view;        /* made by an op that gives a view, so a part of its base's history */
    bool leaf;        /* its requires_grad was turned on by this handle */
    bool is_grad;     /* it was got as a .grad, or set as one */
    uint64_t traced;  /* which value of which trace it is (program/trace.c); 0: of none */
    uint64_t outside; /* td_moment() + 1 when the daemon said that it is outside of every graph; 0: never */
    td_scope *scope;
    td_array *next, *prev; /* in its scope; next: in the free list */
};

/* ---- handles */
td_array *td_array_new(td_client *c); /* with an id; NULL: this thread's error says why */
void td_array_drop(td_array *a);      /* undo td_array_new: the id was never bound */
/* n handles whose descriptors the daemon knows; none without memory. */
int td_arrays_unknown(td_client *c, int n, td_array **out);
void td_array_forget(td_array *a);   /* end the handle; its id is somebody else's care */
void td_array_free(td_array *a);     /* the last reference: releases the id */
void td_array_announce(td_array *a); /* it is made: enters the thread's scope */
void td_array_keep(td_array *a);     /* it leaves that */
/* Check that `a` is an array of `c` (NULL *c: sets it). */
int td_same_client(td_client **c, const td_array *a, const char *op);
int td_list_client(td_client **c, td_list l, const char *op, const char *argument);
/* On the CPU: itself, or a copy that is no part of any graph. A new reference; NULL: this thread's error. */
td_array *td_here(td_array *a);
/* Fails: the daemon has no such device; says which it has. */
int td_no_device(const td_client *c, const char *op, const char *where, unsigned device);

/* From now on each storage may come back as one without its number: others may have it. */
static inline void td_hand_on(td_client *c)
{
    c->tensor.handed_on = c->tensor.storages;
}
/* A backward that keeps no graph is in the stream: what was made so far may be of a graph that is gone. */
static inline void td_give_up_graphs(td_client *c)
{
    c->tensor.freed_graph = c->tensor.storages;
}
/* Whose .grad is meant, as records say it: td_set_grad_scope(). */
static inline uint32_t td_grad_scope(const td_client *c)
{
    return c->tensor.own_grads ? c->session : c->tensor.grad_scope;
}

/* ---- what is known: shape.c */
/* Is the descriptor known? Once it is it stays so: no lock is wanted. */
static inline bool td_is_known(const td_array *a)
{
    return !__atomic_load_n(&a->unknown, __ATOMIC_ACQUIRE);
}
int td_desc_from_wire(const Td__Wire__Desc *d, td_desc *out, td_error *e);
int td_take_shape(td_array *a, const Td__Wire__Desc *d, td_error *e);
/* Ask the daemon for the descriptor when it is not known. */
int td_resolve(td_array *a);
/* Ask for many descriptors, in one round trip. codes[i] is TD_E_NOT_FOUND for what is not there; any other error is
 * that of the whole. */
int td_resolve_all(td_client *c, int n, td_array *const *at, int *codes, td_error *e);

/* ---- where the bytes are: value.c */
/* Maps where an array's storage lies, under the lock. */
int td_adopt_address(td_array *a, const Td__Wire__Address *at, int *fd, td_error *e);
/* Under the lock, after a record that writes to it: wait until it is written, if somebody looks. An error is what
 * became of the write. */
int td_written(td_array *a);
unsigned char *td_first_element(const td_array *a); /* of one whose storage is known */
/* This thread will not wait for it, as it was written in time; NULL: no longer. */
void td_at_hand(const td_array *a);

#endif
