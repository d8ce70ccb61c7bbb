/* cublasLt.h's side of the comparison (cublaslt_layout.h). */
#include "tests/unit/cuda/cublaslt_layout.h"

#ifdef TD_TESTS_CUBLASLT_H
#include <cuda.h>

#include <cublasLt.h>
/* After cublasLt.h, whose types it then takes. */
#include "daemon/cuda/helper/cublaslt.h"

#define SAME_TYPE(result, name, parameters)                                                                            \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&name), __typeof__(((td_cublaslt *)0)->name)),              \
                   #name " is declared otherwise");
TD_CUBLASLT_FUNCTIONS(SAME_TYPE)

const cuda_layout *cublaslt_layout_of_header(void)
{
    static const cuda_layout all[] = CUBLASLT_LAYOUT;
    return all;
}
#else
const cuda_layout *cublaslt_layout_of_header(void)
{
    return NULL;
}
#endif
