/* Causes: the first error, shared by all values that it took along; and the counts of what lives in this room. */
#include "daemon/tensor/live.h"

/* Counts for the whole process, as the contract has them. */
td_live td_live_now;

td_live td_live_counts(void)
{
    return td_live_now;
}

td_cause *td_cause_new(const td_error *e)
{
    td_cause *c = malloc(sizeof *c);
    if (!c) return NULL;
    c->refs = 1;
    c->error = *e;
    td_live_now.causes++;
    td_live_now.bytes += sizeof *c;
    return c;
}

td_cause *td_cause_ref(td_cause *c)
{
    c->refs++;
    return c;
}

void td_cause_unref(td_cause *c)
{
    if (!c || --c->refs) return;
    free(c);
    td_live_now.causes--;
    td_live_now.bytes -= sizeof *c;
}
