/* Causes: the first error, shared by all values that it took along; and the counts of what lives in this room. */
#include "daemon/tensor/live.h"

/* Counts of what this loop thread made. */
_Thread_local td_live td_loop_live;

td_live td_live_counts(void)
{
    return td_loop_live;
}

td_cause *td_cause_new(const td_error *e)
{
    td_cause *c = malloc(sizeof *c);
    if (!c) return NULL;
    c->refs = 1;
    c->told = 0;
    c->account = NULL;
    c->error = *e;
    td_loop_live.causes++;
    td_loop_live.bytes += sizeof *c;
    return c;
}

/* In objects: the texts of an error are long. */
static uint64_t cost(void)
{
    return td_objects_of(sizeof(td_cause));
}

int td_cause_charge(td_cause *c, td_account *account, td_error *e)
{
    int rc = c->account ? 0 : td_account_charge(account, 0, cost(), e);
    if (!rc && !c->account) c->account = td_account_ref(account);
    return rc;
}

void td_cause_end(td_cause *c)
{
    td_account_discharge(c->account, 0, cost());
    td_account_unref(c->account);
    free(c);
    td_loop_live.causes--;
    td_loop_live.bytes -= sizeof *c;
}
