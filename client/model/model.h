/* A handle of a model: this client's own, which has its program, or one of a name, which has a number in the session.
 * For this room only. */
#ifndef TENSORD_CLIENT_MODEL_MODEL_H
#define TENSORD_CLIENT_MODEL_MODEL_H

#include "client/model/card.h"
#include "client/program/programs.h"
#include "client/wire/request.h"
#include "proto/rows/rows.h"

struct td_model {
    td_client *client;
    td_card card;
    td_program *program; /* NULL: it is a name's */
    char *name;
    uint32_t id, session; /* the number, in that session: a forked child opens it again */
    uint32_t version;     /* that it was when it was opened */
    uint32_t pinned;      /* the version that it stays with; 0: whichever the name means */
};

/* Under the lock: it has a number in this session. */
int td_model_enter(td_model *m, const char *op);

/* warm.c: what runs of a version that is warming have shown. */
enum { TD_WARM_SIZES = 16 };
typedef struct td_warmed {
    int in_rows[TD_CARD_ENDS], out_rows[TD_CARD_ENDS]; /* the dimension that counts rows; -1: none does */
    int nsizes;
    uint32_t sizes[TD_WARM_SIZES];
    uint32_t tried; /* rows, of the largest run */
    char why[TD_ROWS_WHY]; /* requests are not joined; empty: they are */
} td_warmed;
/* `m` is a version of a name, of which runs are asked; `program` what it was made of. */
int td_model_warm(td_model *m, td_program *program, int max_batch, td_warmed *out);

#endif
