/* Recipes: what follows from how a call looks. Inference and planning make one; binding one to a call's tensors gives
 * what preparing the call in full would give.
 *
 * A recipe holds no addresses and no tensors, so it may be kept for as long as anybody likes. */
#ifndef TENSORD_DAEMON_OPS_RECIPE_H
#define TENSORD_DAEMON_OPS_RECIPE_H

#include "daemon/ops/prepare.h"
#include "proto/ops/look.h"

enum { TD_RECIPE_OUTS = 4 };

/* What a call that fits asks for first lies in front. */
typedef struct td_recipe {
    uint16_t nout; /* 0: it holds nothing */
    uint16_t nwords;
    uint8_t compute, device;
    uint8_t nphases, clean_phases;
    bool light; /* what the plan works with is not worth charging, on however many threads */
    /* The plan; replan NULL: it cannot be moved to other addresses, so each call is planned anew. */
    td_replan_fn replan;
    void (*wrote)(const td_kcall *k, int64_t chunk, td_kpart *part);
    td_packing packing;
    size_t scratch_bytes, work_bytes, state_bytes;
    double cost_ns;
    bool lasting, sure;
    uint64_t look[TD_LOOK_WORDS];
    uint64_t bytes[TD_RECIPE_OUTS]; /* of the outputs' storages */
    td_desc out[TD_RECIPE_OUTS];
    td_phase phase[TD_MAX_PHASES];
    _Alignas(16) unsigned char state[TD_KSTATE_BYTES];
} td_recipe;

/* All of td_ops_prepare but for versions, for a call that fits. */
int td_recipe_bind(const td_recipe *r, td_call *c, td_need *need, td_error *e);

/* Those that are kept for all of a loop's calls: the one that fits, or NULL. */
const td_recipe *td_recipe_find(const td_call *c);
/* Make one of a call that was prepared in full, and keep it; none of what looks like no other. */
void td_recipe_keep(const td_prep *p);

#endif
