/* Rows of nodes that a backward runs as one call; for this room only. */
#ifndef TENSORD_DAEMON_AUTOGRAD_ROWS_H
#define TENSORD_DAEMON_AUTOGRAD_ROWS_H

#include "daemon/autograd/backward.h"
#include "daemon/ops/fused.h"

/* Before the next node is begun: a row that is known is run in its place (*ran). What that costs is
 * added to b->debt. Errors, and lacking memory, as of a node. */
int td_row_before(td_backward *b, bool *ran, td_error *e);
/* The next node: one that was taken already, or the newest that is ready. */
uint32_t td_row_pop(td_backward *b);
bool td_row_has(const td_backward *b);
/* The node was run. */
void td_row_after(td_backward *b);
void td_row_drop(td_backward *b);

#endif
