/* Memory that holds code: written once, then readable and executable, and never writable at the same time. */
#ifndef TENSORD_DAEMON_KERNELS_CPU_JIT_JIT_CODE_H
#define TENSORD_DAEMON_KERNELS_CPU_JIT_JIT_CODE_H

#include <stdbool.h>
#include <stddef.h>

/* False: the system allows none, or there is so much that more would take what the process may map. */
bool td_jit_code_allowed(void);
unsigned td_jit_code_left(void);
/* `bytes`, the first `ncode` of them executable: whole pages. NULL: it cannot be had. `mapped`: what it takes. */
void *td_jit_code_new(const void *code, size_t ncode, size_t bytes, size_t *mapped);
void td_jit_code_free(void *code, size_t mapped);

#endif
