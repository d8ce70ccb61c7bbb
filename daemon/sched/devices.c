/* Which devices have an executor of their own: none yet. A program that links this room may have a table of its own. */
#include "daemon/sched/sched.h"

const td_executor_maker td_executor_makers[TD_MAX_DEVICES] = {0};
