/* What a fused call is made of; for this room only. */
#ifndef TENSORD_DAEMON_OPS_FUSED_PARTS_H
#define TENSORD_DAEMON_OPS_FUSED_PARTS_H

#include "daemon/kernels/jit.h"
#include "daemon/ops/fused.h"
#include "proto/ops/opid.h"

#define TD_FUSED_NONE UINT32_MAX
enum { TD_FUSED_USED = 1, TD_FUSED_WRITTEN = 2 };

/* What a tensor lies in: an input, or a block that a call made. */
typedef struct td_fused_root {
    bool input;
    uint32_t nr; /* of the input; of the block, and when the fused call is made of the output */
} td_fused_root;

typedef struct td_fused_operand {
    td_karg arg;     /* of a number all of it, but for `data` */
    uint32_t base;   /* 0: the arena; then inputs, then outputs; TD_FUSED_NONE: a number, or nothing */
    uint32_t desc;   /* of a tensor: among td_fused.descs */
    int64_t offset;  /* bytes */
    int64_t advance; /* bytes, from tile to tile of a sweep */
    int64_t step;    /* of a run's: from piece to piece of a tile */
} td_fused_operand;

typedef struct td_fused_plan {
    uint32_t operands; /* where they begin */
    uint8_t nphases;
    td_phase phase[TD_MAX_PHASES];
    td_replan_fn replan;
    void (*wrote)(const td_kcall *k, int64_t chunk, td_kpart *part);
    td_packing packing;
    size_t state_bytes;
    unsigned char *state;
} td_fused_plan;
/* As it was made. False: no memory. */
bool td_fused_plan_take(td_fused_plan *p, const td_kcall *k, uint32_t operands);

/* One call. */
typedef struct td_fused_part {
    const td_op *op;
    uint16_t nin, nout;
    uint8_t compute;
    bool writes; /* what was there before */
    double cost_ns;
    td_attrs *attrs;
    char *where;
    td_fused_plan plan, last; /* of all its elements, or of a tile; last: of the last tile, where that is smaller */
} td_fused_part;
void td_fused_part_free(td_fused_part *p);

/* How often something is written behind its making, and by which op in the end. */
typedef struct td_fused_moves {
    uint16_t times, op;
} td_fused_moves;

typedef struct td_fused_made {
    td_desc desc;
    uint32_t flags; /* TD_TF_ */
    uint64_t bytes;
    td_fused_moves writes;
} td_fused_made;

/* An input that is written; who is written last comes last. */
typedef struct td_fused_written {
    uint32_t input;
    td_fused_moves writes;
} td_fused_written;

typedef struct td_fused_given {
    td_fused_root root;
    bool view, based; /* based: it has a view_base */
    uint32_t flags;
    uint32_t slot; /* while it is recorded */
    uint32_t same; /* it is what was given under this number before; its own: nothing is */
    td_desc desc;  /* its offset counts from the root's */
} td_fused_given;

/* A number of a sweep, as a tile of it: loops take arrays. */
typedef struct td_fused_number {
    uint64_t at; /* in the arena */
    uint8_t dtype;
    unsigned char value[16];
} td_fused_number;

/* Calls of a sweep that are one loop of machine code. It does a tile in pieces: where all lie in one row there is one,
 * otherwise they are as long as every operand either goes along or stays where it is. */
typedef struct td_fused_run {
    uint32_t first, ncalls;
    uint32_t operands, noperands; /* in the order of the loop's at[] */
    td_jit jit;
    int dims;       /* of a tile, behind which pieces begin */
    int64_t length; /* elements of a piece; 0: of a tile */
    double cost_ns; /* of an element */
} td_fused_run;

struct td_fused {
    _Atomic uint32_t refs;
    uint32_t ninputs, ncalls, noperands, nmade, ngiven, most_args;
    uint32_t room_parts, room_operands, room_made, room_given;
    td_fused_part *parts;
    td_fused_operand *operands;
    td_desc *descs; /* few of many operands are unlike the last ones */
    uint32_t ndescs, room_descs;
    td_fused_made *made;
    td_fused_given *given;
    td_fused_number *numbers; /* of a sweep */
    uint32_t nnumbers, room_numbers;
    td_fused_written *written;
    uint32_t nwritten, room_written;
    td_fused_run *runs; /* in order */
    uint32_t nruns, room_runs;
    uint64_t tile;                /* its elements */
    uint8_t *used;                /* of each input: TD_FUSED_USED, TD_FUSED_WRITTEN */
    bool heads;                   /* the first part has chunks, behind each of which the rest, one run, goes on */
    bool prepacks;                /* a part packs an input */
    int64_t tiles, tiles_a_chunk; /* of a sweep; 0: it is none */
    bool last;                    /* the last tile is smaller: */
    uint64_t last_tile;           /* its elements */
    uint64_t arena;
    size_t work_bytes, scratch_bytes; /* the most that a part wants */
    double cost_ns;
    uint64_t bytes; /* of all this */
};

/* The number of a descriptor among a fused call's, TD_FUSED_NONE without memory. */
uint32_t td_fused_desc(td_fused *g, const td_desc *d);
/* So many bytes, in whole lines of the cache. */
static inline uint64_t td_fused_lines(uint64_t bytes)
{
    return (bytes + 63) / 64 * 64;
}
/* Room for one more in an array that doubles. */
bool td_fused_grow(void **at, uint32_t n, uint32_t *room, size_t size);

/* fused_sweep.c. Before memory is laid out: how tiles are cut; false: operands lie so that it cannot be done. */
typedef struct td_sweep {
    td_desc whole;        /* what each call gives */
    bool flat;            /* everything lies as it does: elements in one row */
    int64_t rows, a_tile; /* of them, or of elements */
    bool broad;           /* a row is too long to be kept in the cache by each call */
} td_sweep;
bool td_sweep_begin(td_sweep *s, const td_desc *whole);
/* Can an operand be cut? `made`: by one of the calls, so that it has to be cut as what they give. */
bool td_sweep_takes(td_sweep *s, const td_desc *d, bool made);
void td_sweep_cut(td_sweep *s);
uint64_t td_sweep_tile_bytes(const td_sweep *s, td_dtype t);
/* Everything is one run that lies in one row: nothing passes through memory, and tiles may be longer. */
void td_sweep_widen(td_sweep *s);
/* From tile to tile. */
int64_t td_sweep_advance(const td_sweep *s, const td_fused_operand *o, const td_desc *d);
/* When all operands have their places: plans for tiles. */
bool td_sweep_plan(const td_sweep *s, td_fused *g);

/* fused_jit.c. What an operand's slot is, while operands have slots for bases. */
typedef struct td_fused_seen {
    const td_desc *desc;
    uint32_t whole;       /* of a view of what a call made: that; otherwise its own */
    uint32_t first, last; /* the call that makes it, TD_FUSED_NONE of an input; that uses it last, or TD_FUSED_NONE */
} td_fused_seen;
/* Before memory is laid out: which calls become runs. False: no memory. */
bool td_runs_find(td_fused *g, const td_sweep *s, const td_fused_seen *seen, uint32_t most);
/* The run that a call is of, or NULL. */
const td_fused_run *td_run_of(const td_fused *g, uint32_t call);
/* All of it is one. */
bool td_runs_all(const td_fused *g);
/* When all operands have their places: how they move. */
void td_runs_place(td_fused *g, const td_sweep *s);
/* So many elements, behind so many others; all lie in one row. */
void td_run_part(const td_fused *g, const td_fused_run *r, const td_kpart *part, unsigned char *const *base);
void td_run_tile(const td_fused *g, const td_fused_run *r, int64_t tile, unsigned char *const *base);
void td_runs_free(td_fused *g);

/* fused_prepacked.c: what parts have packed, of one call. NULL: nothing. */
typedef struct td_fused_prepacked {
    td_prepack *prepack; /* NULL: the part packs for itself */
    bool ready;
} td_fused_prepacked;
td_fused_prepacked *td_fused_take_prepacked(const td_fused *g, td_tensor *const *inputs);
/* It was run, well or not. */
void td_fused_put_prepacked(const td_fused *g, td_fused_prepacked *p, bool good);

/* fused_run.c */
/* What a call keeps in its state. */
typedef struct td_fused_note {
    td_fused *g;
    td_fused_prepacked *prepacked; /* of each part; NULL: there are none */
    void (*finished)(td_call *c);
    char caller[56];
} td_fused_note;
/* A part as it was planned, but for where operands lie. */
void td_fused_set_up(const td_fused_part *p, const td_fused_plan *plan, td_kcall *k);
/* Phases, memory and cost of a call that runs it. */
void td_fused_set_kernel(td_kcall *k, const td_fused *g, const td_fused_prepacked *prepacked);

#endif
