/* Other names of one thing, as PyTorch has them. */
#include "client/script/lower.h"

const char *td_low_usual_name(const char *name, char *text, size_t size)
{
    static const char *const other[][2] = {{"absolute", "abs"},
                                           {"arccos", "acos"},
                                           {"arccosh", "acosh"},
                                           {"arcsin", "asin"},
                                           {"arcsinh", "asinh"},
                                           {"arctan", "atan"},
                                           {"arctan2", "atan2"},
                                           {"arctanh", "atanh"},
                                           {"argwhere", "nonzero"},
                                           {"cholesky", "linalg_cholesky"},
                                           {"clip", "clamp"},
                                           {"concatenate", "cat"},
                                           {"conj_physical", "conj"},
                                           {"divide", "div"},
                                           {"expit", "sigmoid"},
                                           {"fix", "trunc"},
                                           {"gammainc", "igamma"},
                                           {"gammaincc", "igammac"},
                                           {"gammaln", "lgamma"},
                                           {"ger", "outer"},
                                           {"greater", "gt"},
                                           {"greater_equal", "ge"},
                                           {"less", "lt"},
                                           {"less_equal", "le"},
                                           {"modified_bessel_i0", "i0"},
                                           {"matrix_exp", "linalg_matrix_exp"},
                                           {"matrix_power", "linalg_matrix_power"},
                                           {"moveaxis", "movedim"},
                                           {"multigammaln", "mvlgamma"},
                                           {"multiply", "mul"},
                                           {"negative", "neg"},
                                           {"not_equal", "ne"},
                                           {"orgqr", "linalg_householder_product"},
                                           {"permute_dims", "permute"},
                                           {"psi", "digamma"},
                                           {"row_stack", "vstack"},
                                           {"subtract", "sub"},
                                           {"swapdims", "transpose"},
                                           {"trapz", "trapezoid"}};
    size_t n = strlen(name), bare = n > 1 && name[n - 1] == '_' ? n - 1 : n;
    for (size_t k = 0; k < sizeof other / sizeof *other; k++) {
        if (strlen(other[k][0]) != bare || memcmp(other[k][0], name, bare) != 0) continue;
        snprintf(text, size, "%s%s", other[k][1], bare < n ? "_" : "");
        return text;
    }
    return NULL;
}
