/* The prim:: ops: what a program does beside tensor ops. The rows are written from prim.toml. */
#ifndef TENSORD_PROTO_PROGRAM_PRIM_H
#define TENSORD_PROTO_PROGRAM_PRIM_H

#include "proto/program/ir.h"
#include "proto/program/primid.h"

typedef enum td_prim_rule { /* what the verifier asks of it; all but the first have functions of their own */
                            TD_PR_SIGNATURE,
                            TD_PR_CONSTANT,
                            TD_PR_IF,
                            TD_PR_LOOP,
                            TD_PR_LIST,
                            TD_PR_UNLIST,
                            TD_PR_TUPLE,
                            TD_PR_UNTUPLE,
                            TD_PR_DICT,
                            TD_PR_CAST,
                            TD_PR_MAKE,
                            TD_PR_FORMAT,
                            TD_PR_ANY
} td_prim_rule;

enum {                     /* td_prim.flags */
       TD_PRF_RAISES = 1,  /* may fail on what it is given */
       TD_PRF_MUTATES = 2, /* writes its first argument */
       TD_PRF_EFFECT = 4,  /* not to be removed, repeated, or moved across others */
       TD_PRF_REACHES = 8  /* looks at and writes what its arguments lead to, as a call does */
};

typedef struct td_prim {
    uint16_t id; /* never reused */
    uint8_t rule, flags;
    uint32_t hash;    /* of name, signature, rule, flags */
    const char *name; /* with the overload: "add.int" */
    const char *signature;
    const char *codes; /* of TD_PR_SIGNATURE: the types of arguments, '>', those of results (gen/prims.py, CODES) */
    const char *doc;
} td_prim;

extern const td_prim td_prims[TD_PRIM_COUNT]; /* rows of unused ids have name NULL */

static inline const td_prim *td_prim_by_id(unsigned id)
{
    return id < TD_PRIM_COUNT && td_prims[id].name ? &td_prims[id] : NULL;
}
/* By "add.int"; NULL when there is none. */
const td_prim *td_prim_by_name(const char *name);

#endif
