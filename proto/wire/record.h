/* Records: ops and control steps as packed 32-bit words inside a Batch. The hot form of the wire.
 *
 *   word 0   bits 0-15 op id or TD_REC_*; bits 16-19 mode; bits 20-23 device (of creation ops and DATA; others 0); bits
 * 24-31 flags word 1   bits 0-11 inputs; bits 12-23 outputs word 2   words of the whole record [site]   with
 * TD_RF_SITE: id of the call site inputs   object ids; 0 = absent; with bit 31: the next immediate number outputs
 * object ids, chosen by the client and not in use (with TD_RF_OUT: existing tensors that are written) numbers  one for
 * each immediate: tag (td_scalar_kind), then 2 words (complex: 4) rest     attributes (td_attrs_encode), or what the
 * control record says
 *
 * Ids are 1..TD_MAX_ID, dense: they index a table. Every count is checked against the record's words, once, here. */
#ifndef TENSORD_PROTO_WIRE_RECORD_H
#define TENSORD_PROTO_WIRE_RECORD_H

#include "proto/ops/op.h"

#define TD_MAX_ID (UINT32_C(1) << 24)
#define TD_NUMBER_BIT UINT32_C(0x80000000)
#define TD_SAVES_BIT UINT32_C(0x80000000)
#define TD_RECORD_HEAD 3
#define TD_CALL_HEAD 6 /* words of a call's rest before its arguments */

enum { /* control records; op ids are below TD_REC_FIRST */
       TD_REC_FIRST = 0xF000,
       TD_REC_RELEASE = 0xF001, /* inputs: ids that the client no longer holds */
       TD_REC_DATA = 0xF002, /* output: a small tensor. rest: dtype | ndim << 8, sizes (2 words each), offset and bytes
                                in Batch.data */
       TD_REC_PUT = 0xF003,  /* output: a tensor over a lease. rest: lease, byte offset (2 words), dtype | ndim << 8,
                                sizes (2 each) */
       TD_REC_BACKWARD = 0xF004,      /* inputs: roots, then their gradients (0: none given), then the inputs of grad().
                                         outputs: grads of those. rest: flags (TD_BW_*), number of roots, scope; and for who
                                         answers hooks a serial (2 words): a Reply when it is over, or asks; further outputs
                                         are ids for what the first hook is given */
       TD_REC_REQUIRES_GRAD = 0xF005, /* input; rest: 0 or 1 */
       TD_REC_GRAD = 0xF006,          /* input; output: its .grad (an error value when there is none). rest: scope */
       TD_REC_SET_GRAD = 0xF007,      /* inputs: tensor, gradient (0: None). rest: scope */
       TD_REC_SEED = 0xF008, /* rest: seed (2 words), and how many ops drew from it (2 words; without them none) */
       TD_REC_READ =
           0xF009, /* input; rest: serial (2 words): a Reply with its value, or its address when it is large */
       TD_REC_SYNC = 0xF00A, /* rest: serial (2 words): a Reply when all before has ended, with the first error not yet
                                told; third word 1: without it, it stays untold */
       TD_REC_RETAIN_GRAD = 0xF00B, /* input */
       TD_REC_ALIAS = 0xF00C,       /* input, output: a second id for the same tensor */
       TD_REC_WRITE_END = 0xF00D,   /* input: the write lease ends; the version moves */
       TD_REC_SHAPE = 0xF00E,   /* inputs; rest: serial (2 words): a Reply with their descriptors (data-shaped ops) */
       TD_REC_DATA_OF = 0xF00F, /* input, output: the same bytes with a version counter of its own (.data) */
       TD_REC_CALL = 0xF010,    /* inputs: the tensors of a program's arguments; outputs: ids for the tensors of its
                                   results, at most. rest: program, serial (2 words; 0: no Reply is wanted), the
                                   milliseconds that it may run (0: any), the scope of its gradients, number of arguments
                                   (so far TD_CALL_HEAD words), these (program/values.h) */
       TD_REC_PROGRAM_END = 0xF011, /* rest: a program that the client no longer holds */
       TD_REC_REGION = 0xF012, /* rest: the checkpoint that ops lie in from here on (0: none), and, if it is new, the
                                  one that it lies in (0: none) */
       TD_REC_REGION_END = 0xF013, /* rest: a checkpoint that is over */
       TD_REC_BACKWARD_GO =
           0xF014, /* the answer to a hook. inputs: gradients (0: none). outputs: ids for what the next hook is given.
                      rest: the serial of the BACKWARD (2 words), one for the Reply to come (2 words), TD_GO_* */
       TD_REC_HOOK =
           0xF015, /* input: a tensor, or none: a node. rest: number of the hook, kind (autograd.h), the node or 0 */
       TD_REC_HOOK_END = 0xF016, /* rest: hooks that are none any more, 1,024 at most */
       TD_REC_FUNCTION =
           0xF017, /* inputs: what a function of the program's was given (0: no tensor), its results, what it saved.
                      rest: number of its hook, how many of each (with TD_SAVES_BIT in the last one: as
                      TD_RF_SAVES), TD_FN_* of each result, its name (packed bytes) */
       TD_REC_NODE_END = 0xF018 /* rest: numbers of nodes that the client no longer holds, 1,024 at most */
};

enum {                 /* how a backward goes on */
       TD_GO_SAME = 0, /* with the gradients as they were */
       TD_GO_GIVEN = 1,
       TD_GO_MORE = 2, /* these are more ids: ask again */
       TD_GO_NOT = 3   /* it is given up; there is no Reply */
};

enum { /* mode */
       TD_RM_GRAD_OFF = 1,
       TD_RM_INFERENCE = 2,
       TD_RM_SERVICE = 4, /* outputs go into service memory */
       TD_RM_RACY = 8,    /* outputs are declared racy (Hogwild), but for views */
       TD_RM_DEVICE = 4   /* from this bit on: the device of a creation op, or of DATA */
};

enum { /* flags */
       TD_RF_OUT = 1,
       TD_RF_SITE = 2,
       TD_RF_SAVES = 4 /* of an op: the client will ask for what is saved for a backward (message Saved) */
};

typedef struct td_record {
    uint16_t op;
    uint8_t mode, flags, device;
    uint16_t nin, nout;
    uint32_t words;
    uint32_t site;            /* 0: none */
    const uint32_t *in, *out; /* nin, nout ids */
    const uint32_t *rest;     /* what follows the outputs (numbers, then attributes) */
    uint32_t nrest;
} td_record;

/* Parse the record at words[0..count). On failure TD_E_PROTOCOL with what is wrong. Ids are not looked up, but for
 * their range. */
int td_record_parse(const uint32_t *words, size_t count, td_record *r, td_error *e);
/* Read the next immediate number from `*at` words into the rest. */
int td_record_number(const td_record *r, uint32_t *at, td_scalar *s, td_error *e);

static inline uint64_t td_words_u64(const uint32_t *w)
{
    return w[0] | (uint64_t)w[1] << 32;
}
static inline void td_words_put_u64(uint32_t *w, uint64_t v)
{
    w[0] = (uint32_t)v;
    w[1] = (uint32_t)(v >> 32);
}

/* Growing array of words, for whoever builds batches. */
typedef struct td_words {
    uint32_t *at;
    size_t count, capacity;
} td_words;
void td_words_deinit(td_words *w);
/* Room for `more` words at the end: a pointer to them, or NULL without memory. The count is not changed. */
uint32_t *td_words_room(td_words *w, size_t more);

/* Append an op's record. in[i] is an id, 0, or TD_NUMBER_BIT for numbers taken from `numbers` in order. */
int td_words_op(td_words *w, const td_op *op, unsigned mode, unsigned flags, uint32_t site, int nin, const uint32_t *in,
                int nout, const uint32_t *out, const td_scalar *numbers, const td_attrs *attrs, td_error *e);
/* Append a control record. */
int td_words_control(td_words *w, unsigned rec, unsigned mode, uint32_t site, int nin, const uint32_t *in, int nout,
                     const uint32_t *out, int nrest, const uint32_t *rest, td_error *e);

#endif
