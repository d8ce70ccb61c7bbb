/* Memory that holds code: written once, then readable and executable, and never writable at the same time. */
#ifndef TENSORD_KERNELS_CPU_JIT_CODE_H
#define TENSORD_KERNELS_CPU_JIT_CODE_H

#include <stddef.h>

/* NULL: nobody may make code here. `mapped`: the bytes that it takes. */
void *td_jit_code_new(const void *code, size_t bytes, size_t *mapped);
void td_jit_code_free(void *code, size_t mapped);

#endif
