/* Every gradient formula against finite differences, in float64 (and complex128 where it matters), to first and second
 * order.
 *
 * For random weights r the function is L(x) = sum r*op(x); its gradient by backward is compared with central
 * differences. For the second order the function is sum s*grad(L), differentiated once more with create_graph. Ops with
 * a formula that no row covers fail the suite. */
#include "daemon/autograd/gradient.h"
#include "tests/unit/grad_support.h"
#include "tests/unit/op_calls.h"

enum {
    POSITIVE = 1,
    ABOVE_ONE = 2,
    INSIDE_ONE = 4,
    DISTINCT = 8,
    SOME_ZEROS = 16,
    HERMITIAN = 32,
    DEFINITE = 64,
    SHARE = 128,
    FIRST = 256 /* has no second derivative */
};

typedef struct row {
    const char *call;
    int flags;
    int64_t mod; /* integer inputs are in [0, mod) */
} row;

static const row rows[] = {
    {"linalg_cholesky_ex f64[2,3,3]", DEFINITE, 0},
    {"linalg_cholesky_ex f64[3,3] | true", DEFINITE, 0},
    {"linalg_cholesky_ex c128[3,3]", DEFINITE, 0},
    {"linalg_lu_factor_ex f64[2,3,3]", 0, 0},
    {"linalg_lu_factor_ex f64[4,2]", 0, 0},
    {"linalg_lu_factor_ex f64[2,4]", 0, 0},
    {"linalg_lu_factor_ex c128[3,2]", 0, 0},
    {"euclidean_dist f64[2,3,4] f64[2,5,4]", 0, 0},
    {"linalg_solve_triangular f64[3,3] f64[2,3,2] | true", POSITIVE, 0},
    {"linalg_solve_triangular f64[2,3,3] f64[2,3] | false false", POSITIVE, 0},
    {"linalg_solve_triangular c128[2,2] c128[2,1] | false true true", POSITIVE, 0},
    {"linalg_inv_ex f64[2,3,3]", 0, 0},
    {"linalg_inv_ex c128[2,2]", 0, 0},
    {"linalg_solve_ex f64[2,3,3] f64[3,2]", 0, 0},
    {"linalg_solve_ex f64[3,3] f64[3]", 0, 0},
    {"linalg_solve_ex c128[2,2] c128[2,2] | false", 0, 0},
    {"linalg_det_lu f64[2,3,3]", 0, 0},
    {"linalg_det_lu c128[3,3]", 0, 0},
    {"linalg_slogdet_lu f64[3,3]", 0, 0},
    {"linalg_slogdet_lu c128[2,3,3]", 0, 0},
    {"linalg_qr f64[4,3]", 0, 0},
    {"linalg_qr f64[2,3,3] | 1", 0, 0},
    {"linalg_qr f64[2,4]", 0, 0},
    {"linalg_qr c128[3,2]", 0, 0},
    {"linalg_svd f64[3,3]", 0, 0},
    {"linalg_svd f64[2,4,2] | false", 0, 0},
    {"linalg_svd f64[2,3] | false", 0, 0},
    {"linalg_svdvals f64[2,3,2]", 0, 0},
    {"linalg_svdvals c128[2,3]", 0, 0},
    {"linalg_eigh f64[2,3,3]", HERMITIAN, 0},
    {"linalg_eigvalsh f64[3,3] | true", HERMITIAN, 0},
    {"linalg_eigvalsh c128[3,3]", HERMITIAN, 0},
    {"linalg_eig f64[2,3,3]", HERMITIAN, 0},
    {"linalg_eigvals f64[3,3]", HERMITIAN, 0},
    {"linalg_eigvals c128[2,2]", 0, 0},
    {"linalg_lstsq_ex f64[4,2] f64[4,3]", 0, 0},
    {"linalg_lstsq_ex f64[2,3,2] f64[2,3,1] | none 1", 0, 0},
    {"linalg_lstsq_ex c128[2,3] c128[2,1]", 0, 0},
    {"linalg_pinv f64[2,3,2]", 0, 0},
    {"linalg_pinv f64[2,3]", 0, 0},
    {"linalg_pinv c128[3,2]", 0, 0},
    {"linalg_matrix_exp f64[2,3,3]", 0, 0},
    {"linalg_matrix_exp c128[2,2]", 0, 0},
    {"copy f64[2,3]", 0, 0},
    {"copy_last f64[2,3,2,2]", 0, 0},
    {"copy_kept f64[2,3,2,2]@[12,1,6,3]", 0, 0},
    {"to_device f64[2,3] | 0", 0, 0},
    {"view f64[2,3] | [3,2]", 0, 0},
    {"view f64[2,3] | [6]", 0, 0},
    {"as_strided f64[3,4] | [2,2] [4,1] 1", 0, 0},
    {"as_strided f64[6] | [3,4] [1,1] 0", 0, 0},
    {"as_strided f64[6] | [2,2] [0,1] 1", 0, 0},
    {"view_as_real c128[2,3]", 0, 0},
    {"view_as_real c128[2,3]@[1,2]", 0, 0},
    {"view_part c128[2,3] | 0", 0, 0},
    {"view_part c128[2,3]@[1,2] | 1", 0, 0},
    {"view_as_complex f64[2,3,2]", 0, 0},
    {"view_as_complex f64[2,2]@[4,1]", 0, 0},
    {"expand f64[2,1] | [3,2,4]", 0, 0},
    {"permute f64[2,3,4] | [2,0,1]", 0, 0},
    {"transpose f64[2,3,2] | 0 -1", 0, 0},
    {"squeeze f64[2,1,3]", 0, 0},
    {"unsqueeze f64[2,3] | -1", 0, 0},
    {"select f64[3,4] | 1 -2", 0, 0},
    {"slice f64[5,3] | 0 1 5 2", 0, 0},
    {"slice f64[5,3] | -1 none -1 1", 0, 0},
    {"diagonal f64[4,3]", 0, 0},
    {"diagonal f64[2,4,3] | 1 -1 1", 0, 0},
    {"unfold f64[7,2] | 0 3 2", 0, 0},
    {"unfold f64[2,7] | 1 3 1", 0, 0},
    {"unbind f64[3,2] | 1", 0, 0},
    {"split f64[5,2] | [2,3] 0", 0, 0},
    {"cat f64[2,3] f64[1,3] f64[2,3] | 0", 0, 0},
    {"cat f64[2,3] f64[2,1] | -1", 0, 0},
    {"stack f64[2,3] f64[2,3] | 1", 0, 0},
    {"repeat f64[2,3] | [2,2]", 0, 0},
    {"repeat f64[3] | [2,2]", 0, 0},
    {"repeat f64[1,2,1,2,2] | [2,1,3,2,1]", 0, 0}, /* one after the other */
    {"repeat f64[2] | [1,2,1,1,2,1]", 0, 0},
    {"flip f64[2,3] | [0,1]", 0, 0},
    {"roll f64[2,3] | [1,2] [0,1]", 0, 0},
    {"roll f64[5] | [2] [0]", 0, 0},
    {"constant_pad f64[2,3] | [1,2,0,1] 1.5", 0, 0},
    {"tril f64[3,4] | 1", 0, 0},
    {"triu f64[3,4] | -1", 0, 0},
    {"neg f64[2,3]", 0, 0},
    {"abs f64[2,3]", 0, 0},
    {"abs c128[2,2]", 0, 0},
    {"sign f64[2,3]", 0, 0},
    {"exp f64[2,3]", 0, 0},
    {"exp c128[3]", 0, 0},
    {"exp2 f64[2,3]", 0, 0},
    {"expm1 f64[2,3]", 0, 0},
    {"log f64[2,3]", POSITIVE, 0},
    {"log c128[3]", POSITIVE, 0},
    {"log2 f64[2,3]", POSITIVE, 0},
    {"log10 f64[2,3]", POSITIVE, 0},
    {"log1p f64[2,3]", POSITIVE, 0},
    {"sqrt f64[2,3]", POSITIVE, 0},
    {"rsqrt f64[2,3]", POSITIVE, 0},
    {"reciprocal f64[2,3]", POSITIVE, 0},
    {"reciprocal c128[3]", POSITIVE, 0},
    {"square f64[2,3]", 0, 0},
    {"square c128[3]", 0, 0},
    {"sin f64[2,3]", 0, 0},
    {"cos f64[2,3]", 0, 0},
    {"tan f64[2,3]", INSIDE_ONE, 0},
    {"asin f64[2,3]", INSIDE_ONE, 0},
    {"acos f64[2,3]", INSIDE_ONE, 0},
    {"atan f64[2,3]", 0, 0},
    {"sinh f64[2,3]", 0, 0},
    {"cosh f64[2,3]", 0, 0},
    {"tanh f64[2,3]", 0, 0},
    {"tanh c128[2]", INSIDE_ONE, 0},
    {"asinh f64[2,3]", 0, 0},
    {"acosh f64[2,3]", ABOVE_ONE, 0},
    {"atanh f64[2,3]", INSIDE_ONE, 0},
    {"sigmoid f64[2,3]", 0, 0},
    {"erf f64[2,3]", 0, 0},
    {"erfc f64[2,3]", 0, 0},
    {"floor f64[2,3]", 0, 0},
    {"ceil f64[2,3]", 0, 0},
    {"round f64[2,3]", 0, 0},
    {"trunc f64[2,3]", 0, 0},
    {"conj f64[2,3]", 0, 0},
    {"conj c128[2]", 0, 0},
    {"real c128[3]", 0, 0},
    {"imag c128[3]", 0, 0},
    {"relu f64[2,3]", 0, 0},
    {"silu f64[2,3]", 0, 0},
    {"mish f64[2,3]", 0, 0},
    {"leaky_relu f64[2,3] | 0.1", 0, 0},
    {"elu f64[2,3] | 1.3", 0, 0},
    {"hardsigmoid f64[2,3]", 0, 0},
    {"hardswish f64[2,3]", 0, 0},
    {"selu f64[2,3]", 0, 0},
    {"celu f64[2,3] | 1.3", 0, 0},
    {"softshrink f64[2,3] | 0.1", 0, 0},
    {"hardshrink f64[2,3] | 0.1", 0, 0},
    {"scaled_below f64[2,3] f64[3]", 0, 0},
    {"huber f64[2,3] f64[2,1] | 0.7 1.3", 0, 0},
    {"gelu f64[2,3]", 0, 0},
    {"gelu f64[2,3] | true", 0, 0},
    {"softplus f64[2,3] | 1.5 20", 0, 0},
    {"hardtanh f64[2,3] | -0.7 0.6", 0, 0},
    {"nan_to_num f64[2,3]", 0, 0},
    {"nan_to_num c128[3]", 0, 0},
    {"add f64[2,3] f64[3] | 2.5", 0, 0},
    {"add c128[2] f64[2] | 1j", 0, 0},
    {"sub f64[2,3] f64[2,1] | 2", 0, 0},
    {"sub f64[2] f64[]", 0, 0},
    {"mul f64[2,3] f64[3]", 0, 0},
    {"mul f64[2,3] #2.5", 0, 0},
    {"mul c128[2] c128[2]", 0, 0},
    {"mul c128[2] f64[2]", 0, 0},
    {"div f64[2,3] f64[3]", POSITIVE, 0},
    {"div #2.5 f64[3]", POSITIVE, 0},
    {"div c128[2] c128[2]", POSITIVE, 0},
    {"floor_divide f64[3] f64[3]", POSITIVE, 0},
    {"trunc_divide f64[3] f64[3]", POSITIVE, 0},
    {"remainder f64[4] f64[4]", POSITIVE, 0},
    {"fmod f64[4] f64[4]", POSITIVE, 0},
    {"pow f64[2,3] f64[3]", POSITIVE, 0},
    {"pow f64[2,3] #2", 0, 0},
    {"pow f64[2,3] #3.5", POSITIVE, 0},
    {"pow f64[3] #0", 0, 0},
    {"pow f64[3] #1", 0, 0},
    {"pow #2.5 f64[3]", 0, 0},
    {"pow #2.5 c128[3]", 0, 0},
    {"pow #1j c128[3]", 0, 0},
    {"pow #0 c128[3]", POSITIVE, 0},
    {"pow c128[2] c128[2]", POSITIVE, 0},
    {"atan2 f64[2,3] f64[3]", 0, 0},
    {"copysign f64[2,3] f64[3]", 0, 0},
    {"copysign f64[2,3] #-2", 0, 0},
    {"hypot f64[2,3] f64[3]", 0, 0},
    {"logaddexp f64[2,3] f64[3]", 0, 0},
    {"nextafter f64[2,3] f64[3]", 0, 0},
    {"maximum f64[2,3] f64[2,3]", 0, 0},
    {"minimum f64[2,3] f64[2,3]", 0, 0},
    {"where b[2,3] f64[2,3] f64[3]", 0, 2},
    {"where b[2,3] f64[2,3] #2", 0, 2},
    {"clamp f64[2,3] | -0.5 0.6", 0, 0},
    {"clamp f64[2,3] | none 0.3", 0, 0},
    {"clamp f64[2,3] | -0.1 none", 0, 0},
    {"lerp f64[2,3] f64[2,3] f64[2,3]", 0, 0},
    {"lerp f64[2,3] f64[2,3] #0.3", 0, 0},
    {"addcmul f64[2,3] f64[2,3] f64[3] | 1.5", 0, 0},
    {"addcdiv f64[2,3] f64[2,3] f64[3] | 1.5", POSITIVE, 0},
    {"masked_fill f64[2,3] b[2,3] #2.5", 0, 2},
    {"masked_fill f64[2,3] b[3] f64[]", 0, 2},
    {"sigmoid_backward f64[2,3] f64[2,3]", 0, 0},
    {"tanh_backward f64[2,3] f64[2,3]", 0, 0},
    {"gelu_backward f64[2,3] f64[2,3]", 0, 0},
    {"gelu_backward f64[2,3] f64[2,3] | true", 0, 0},
    {"threshold_backward f64[2,3] f64[2,3]", 0, 0},
    {"sum f64[2,3]", 0, 0},
    {"sum f64[2,3,2] | [0,2]", 0, 0},
    {"sum f64[2,3,2] | [-2] true", 0, 0},
    {"mean f64[2,3,2] | [0,2]", 0, 0},
    {"mean f64[2,3]", 0, 0},
    {"prod f64[2,3] | 1", 0, 0},
    {"prod f64[2,3]", 0, 0},
    {"prod f64[3,4] | 1 true", SOME_ZEROS, 0},
    {"prod f64[5]", SOME_ZEROS, 0},
    {"amax f64[2,3] | [1]", DISTINCT, 0},
    {"amax f64[2,3]", DISTINCT, 0},
    {"amin f64[2,3] | [0] true", DISTINCT, 0},
    {"max_dim f64[2,3] | 1", DISTINCT, 0},
    {"max_dim f64[2,3] | 0 true", DISTINCT, 0},
    {"min_dim f64[2,3] | -1", DISTINCT, 0},
    {"var f64[2,5] | [1]", 0, 0},
    {"var f64[2,5] | none 0 true", 0, 0},
    {"std f64[2,5] | [1]", 0, 0},
    {"std f64[2,5] | none 0 true", 0, 0},
    {"std c128[5] | [0]", 0, 0},
    {"logsumexp f64[2,3] | [1]", 0, 0},
    {"logsumexp f64[2,3] | [0,1] true", 0, 0},
    {"logsumexp c128[2,2] | [0]", 0, 0},
    {"cumsum f64[2,3] | 1", 0, 0},
    {"cumprod f64[2,3] | 1", 0, 0},
    {"cumprod c128[3,2] | 0", 0, 0},
    {"linear_scan f64[3,2] f64[3,2] | 0", 0, 0},
    {"linear_scan c128[2,3] c128[2,3] | -1", 0, 0},
    {"sum_squares f64[2,3] | [0]", 0, 0},
    {"fft_c2c c128[2,5] | [1] 0 true", 0, 0},
    {"fft_c2c c128[4,3] | [0,1] 2 false", 0, 0},
    {"fft_r2c f64[2,5] | [1] 0 true", 0, 0},
    {"fft_r2c f64[6] | [0] 1 false", 0, 0},
    {"fft_c2r c128[2,4] | [1] 0 6", 0, 0},
    {"fft_c2r c128[2,4] | [1] 2 7", 0, 0},
    {"resample f64[1,2,3,4] | [5,6] 2", 0, 0},
    {"resample f64[2,1,5] | [3] 0", 0, 0},
    {"resample_backward f64[1,2,5,6] | [1,2,3,4] [5,6] 2", 0, 0},
    {"grid_sampler f64[1,2,3,4] f64[1,2,2,2] | 0 0 true", FIRST, 0},
    {"lstm_layer f64[3,2,2] f64[1,2,2] f64[1,2,2] f64[8,2] f64[8,2] f64[8] f64[8]", 0, 0},
    {"lstm_layer f64[3,2,2] f64[1,2,1] f64[1,2,1] f64[4,2] f64[4,1] _ _ | true", 0, 0},
    {"gru_layer f64[3,2,2] f64[1,2,2] f64[6,2] f64[6,2] f64[6] f64[6]", 0, 0},
    {"rnn_layer f64[3,2,2] f64[1,2,2] f64[2,2] f64[2,2] f64[2] f64[2]", 0, 0},
    {"tiled_attention f64[1,2,3,2] f64[1,2,4,2] f64[1,2,4,2] _ | false 0.7", 0, 0},
    {"tiled_attention f64[1,2,3,2] f64[1,1,3,2] f64[1,1,3,2] _ | true 0.5", 0, 0},
    {"sum_squares f64[2,3] | none true", 0, 0},
    {"softmax f64[2,3] | 1", 0, 0},
    {"log_softmax f64[2,3] | -1", 0, 0},
    {"softmax_backward f64[2,3] f64[2,3] | 1", 0, 0},
    {"log_softmax_backward f64[2,3] f64[2,3] | 0", 0, 0},
    {"sum_to f64[4,2,3] | [2,1]", 0, 0},
    {"mm f64[2,3] f64[3,4]", 0, 0},
    {"mm c128[2,2] c128[2,2]", 0, 0},
    {"bmm f64[2,2,3] f64[2,3,2]", 0, 0},
    {"dot f64[4] f64[4]", 0, 0},
    {"mv f64[2,3] f64[3]", 0, 0},
    {"addmm f64[2,4] f64[2,3] f64[3,4] | 0.5 2", 0, 0},
    {"addmm f64[4] f64[2,3] f64[3,4]", 0, 0},
    {"linear f64[2,3] f64[4,3] f64[4]", 0, 0},
    {"linear f64[2,2,3] f64[4,3] _", 0, 0},
    {"linear f64[3] f64[4,3] f64[4]", 0, 0},
    {"index_select f64[4,2] i64[3] | 0", 0, 4},
    {"gather f64[3,4] i64[3,2] | 1", 0, 4},
    {"scatter f64[3,4] i64[1,4] f64[1,4] | 0", 0, 3},
    {"scatter f64[3,4] i64[1,4] #2 | 0", 0, 3},
    {"scatter_add f64[3,4] i64[2,4] f64[2,4] | 0", 0, 3},
    {"lgamma f64[2,3]", POSITIVE, 0},
    {"digamma f64[2,3]", POSITIVE, 0},
    {"polygamma f64[2,3] | 1", POSITIVE, 0},
    {"polygamma f64[2,3] | 2", POSITIVE, 0},
    {"erfinv f64[2,3]", INSIDE_ONE, 0},
    {"sgn f64[2,3]", 0, 0},
    {"sgn c128[3]", 0, 0},
    {"sinc f64[2,3]", 0, 0},
    {"angle_real f64[2,3]", 0, 0},
    {"ldexp_whole f64[2,3] i64[3]", 0, 5},
    {"sinc c128[3]", 0, 0},
    {"i0 f64[2,3]", 0, 0},
    {"i0e f64[2,3]", 0, 0},
    {"i1 f64[2,3]", 0, 0},
    {"i1e f64[2,3]", 0, 0},
    {"igamma #2.5 f64[2,3]", POSITIVE, 0},
    {"igammac #2.5 f64[2,3]", POSITIVE, 0},
    {"zeta #2.5 f64[2,3]", POSITIVE, 0},
    {"xlogy f64[2,3] f64[2,3]", POSITIVE, 0},
    {"xlog1py f64[2,3] f64[2,3]", POSITIVE, 0},
    {"entr f64[2,3]", POSITIVE, 0},
    {"ndtr f64[2,3]", 0, 0},
    {"ndtri f64[2,3]", SHARE, 0},
    {"log_ndtr f64[2,3]", 0, 0},
    {"erfcx f64[2,3]", 0, 0},
    {"logit f64[2,3] | 0.01", SHARE, 0},
    {"logit f64[2,3]", SHARE, 0},
    {"bce_each f64[2,3] f64[3]", SHARE, 0},
    {"fmax f64[2,3] f64[3]", 0, 0},
    {"fmin f64[2,3] f64[3]", 0, 0},
    {"frac f64[2,3]", 0, 0},
    {"frexp_mantissa f64[2,3]", 0, 0},
    {"logaddexp2 f64[2,3] f64[2,3]", 0, 0},
    {"deg2rad f64[2,3]", 0, 0},
    {"rad2deg f64[2,3]", 0, 0},
    {"cummax f64[2,3] | 1", DISTINCT, 0},
    {"kth f64[2,3] | 0 2", DISTINCT, 0},
    {"cummin f64[3,2] | 0", DISTINCT, 0},
    {"logcumsumexp f64[2,3] | 1", 0, 0},
    {"logcumsumexp c128[2,3] | 1", 0, 0},
    {"scatter_fold f64[3,4] i64[2,4] f64[2,4] | 0 0", 0, 3},
    {"scatter_fold c128[3,4] i64[2,4] c128[2,4] | 0 0", 0, 3},
    {"scatter_fold f64[3,4] i64[2,4] f64[2,4] | 0 1", 0, 3},
    {"scatter_fold f64[3,4] i64[2,4] f64[2,4] | 0 2", 0, 3},
    {"index f64[4,3] i64[5]", 0, 4},
    {"index f64[3,3] i64[4] i64[4]", 0, 3},
    {"index f64[2,4] _ i64[5]", 0, 4},
    {"index_put f64[4,3] i64[1] f64[3] | false", 0, 4},
    {"index_put f64[4,3] i64[5] f64[5,3] | true", 0, 4},
    {"index_add f64[3,4] i64[5] f64[5,4] | 0 2.5", 0, 3},
    {"masked_select f64[2,3] b[2,3]", 0, 2},
    {"masked_select f64[3] b[2,3]", 0, 2},
    {"embedding f64[5,2] i64[3,2]", 0, 5},
    {"select_scatter f64[3,4] f64[3] | 1 2", 0, 0},
    {"slice_scatter f64[5,2] f64[2,2] | 0 1 5 2", 0, 0},
    {"masked_scatter f64[2,3] b[2,3] f64[6]", 0, 2},
    {"sort f64[2,4] | 1", DISTINCT, 0},
    {"sort f64[4,2] | 0 true", DISTINCT, 0},
    {"topk f64[2,5] | 2", DISTINCT, 0},
    {"conv2d f64[2,2,4,4] f64[3,2,3,3] f64[3]", 0, 0},
    {"conv2d f64[1,4,5,5] f64[4,2,2,3] _ | [2,1] [1,0] [1,2] 2", 0, 0},
    {"conv2d_backward f64[1,2,2,3] f64[1,2,4,5] f64[2,2,3,3] | [1,1] [0,0] [1,1] 1 7", 0, 0},
    {"max_pool2d f64[1,2,4,4] | [2,2] [2,2]", DISTINCT, 0},
    {"max_pool2d f64[2,1,5,5] | [3,3] [2,2] [1,1]", DISTINCT, 0},
    {"adaptive_max f64[2,5,4] | [3,2]", DISTINCT, 0},
    {"adaptive_max f64[2,3] | [2]", DISTINCT, 0},
    {"max_pool2d_backward f64[1,2,2,2] i64[1,2,2,2] | [1,2,4,4]", 0, 16},
    {"avg_pool2d f64[1,2,4,4] | [2,2] [2,2]", 0, 0},
    {"avg_pool2d f64[1,1,5,5] | [3,3] [2,2] [1,1] false false", 0, 0},
    {"avg_pool2d_backward f64[1,1,2,2] | [1,1,4,4] [2,2] [2,2] [0,0] false true", 0, 0},
    {"layer_norm f64[3,4] f64[4] f64[4] | 1", 0, 0},
    {"layer_norm f64[2,2,3] _ _ | 2", 0, 0},
    {"batch_norm f64[3,2,2] f64[2] f64[2] _ _ | true", 0, 0},
    {"batch_norm f64[4,2] _ _ _ _ | true", 0, 0},
    {"nll_loss f64[3,4] i64[3] _ | 1", 0, 4},
    {"nll_loss f64[3,4] i64[3] _ | 0", 0, 4},
    {"nll_loss f64[3,4] i64[3] _ | 2", 0, 4},
    {"nll_loss_backward f64[] i64[3] _ f64[] | [3,4] 2 -100", 0, 4},
    {"dropout f64[3,4] | 0.4", 0, 0},
};

/* ---- values */

static uint64_t seed;

static double uniform(void)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(seed >> 11) * 0x1p-53;
}

static double draw(int flags, int64_t k)
{
    double u = uniform();
    if (flags & SHARE) return 0.1 + 0.8 * u;
    if (flags & POSITIVE) return 0.5 + u;
    if (flags & ABOVE_ONE) return 1.2 + u;
    if (flags & INSIDE_ONE) return 1.4 * (u - 0.5);
    if (flags & DISTINCT) return (double)(k * 7 % 13) + 0.3 * u;
    if ((flags & SOME_ZEROS) && (k == 1 || k == 5 || k == 6)) return 0;
    return 3 * (u - 0.5);
}

static td_tensor *fill(const td_desc *d, const row *r)
{
    td_tensor *t = t_new((td_dtype)d->dtype, d->ndim, d->shape, NULL);
    bool z = td_dtype_is_complex((td_dtype)d->dtype);
    for (int64_t k = 0; k < td_desc_numel(d); k++) {
        td_scalar s = td_float(draw(r->flags, k));
        if (z) s = td_complex(s.re, draw(r->flags, k) * 0.4);
        if (!td_dtype_is_inexact((td_dtype)d->dtype)) s = td_int((int64_t)(uniform() * (double)r->mod));
        td_scalar_store(s, (td_dtype)d->dtype, t_at(t, k));
    }
    return t;
}

/* Input 0 as matrices that are equal to their adjoints; with DEFINITE far on the positive side. */
static void make_hermitian(td_tensor *t, int flags)
{
    const td_desc *d = &t->desc;
    int64_t n = d->ndim >= 2 ? d->shape[d->ndim - 1] : 0;
    for (int64_t k = 0; n && k < td_desc_numel(d); k++) {
        int64_t i = k / n % n, j = k % n;
        td_scalar s = t_get(t, k / (n * n) * n * n + (i < j ? j * n + i : k % (n * n)));
        if (s.kind == TD_S_COMPLEX) s.im = i == j ? 0 : i < j ? -s.im : s.im;
        if (i == j) s.re += flags & DEFINITE ? 6 : 3 * (double)i;
        td_scalar_store(s, (td_dtype)d->dtype, t_at(t, k));
    }
}

/* ---- one case */

typedef struct check {
    call c;
    const row *row;
    td_tensor *in[16];
    td_tensor *r[16], *s[16]; /* weights of outputs and of gradients */
    int nr;
    char error[512];
} check;

static void drop(int n, td_tensor **t)
{
    for (int i = 0; i < n; i++) td_tensor_unref(t[i]), t[i] = NULL;
}

static bool inexact(const td_tensor *t)
{
    return t && td_dtype_is_inexact((td_dtype)t->desc.dtype);
}

static int apply(check *k, td_tensor *const *x, td_tensor **out, int *n)
{
    td_input in[16];
    td_error e = {0};
    for (int i = 0; i < k->c.nin; i++) {
        in[i] = td_in(x[i]);
        if (k->c.in[i].scalar) in[i] = td_in_number(*k->c.in[i].scalar);
    }
    t_who.counter = 5;
    int err = t_try(k->c.f.op, k->c.nin, in, &k->c.attrs, TD_GRAD_ON, NULL, out, n, &e);
    if (err) snprintf(k->error, sizeof k->error, "forward: %s", e.message);
    return err;
}

#ifdef TD_TESTS_IN_REGION
/* In a checkpoint, on copies that are made there, so that whatever a formula saves is to be made again. */
static int forward(check *k, td_tensor **out, int *n)
{
    td_tensor *x[16] = {0};
    td_error e = {0};
    td_region *r = t_who.region = td_region_new(NULL, t_who.account, &e);
    CU_ASSERT_PTR_NOT_NULL_FATAL(r);
    for (int i = 0; i < k->c.nin; i++)
        if (k->in[i]) x[i] = t_run(TD_OP_COPY, 1, &k->in[i], NULL, TD_GRAD_ON, NULL);
    int err = apply(k, x, out, n);
    drop(16, x);
    t_who.region = NULL;
    td_region_close(r);
    td_region_unref(r);
    return err;
}
#else
static int forward(check *k, td_tensor **out, int *n)
{
    return apply(k, k->in, out, n);
}
#endif

static double weigh(const td_tensor *x, const td_tensor *w)
{
    double sum = 0;
    for (int64_t i = 0; i < td_desc_numel(&x->desc); i++) {
        td_scalar a = t_get(x, i), b = t_get(w, i);
        sum += a.re * b.re + (a.kind == TD_S_COMPLEX ? a.im * b.im : 0);
    }
    return sum;
}

/* L: the weighted sum of the differentiable outputs. */
static double loss(check *k)
{
    td_tensor *out[64];
    int n;
    double sum = 0;
    if (forward(k, out, &n)) return NAN;
    for (int o = 0; o < n; o++)
        if (td_requires_grad(out[o])) sum += weigh(out[o], k->r[o]);
    drop(n, out);
    return sum;
}

/* The weights where the output lies. */
static td_tensor *seed_of(const td_tensor *out, td_tensor *weights)
{
    td_attrs a;
    if (out->desc.device == weights->desc.device) return td_tensor_ref(weights);
    td_attrs_init(&a);
    td_attrs_int(&a, out->desc.device);
    return t_run(TD_OP_TO_DEVICE, 1, &weights, &a, TD_GRAD_ON, NULL);
}

/* dL/d(inputs), NULL for those that are not differentiable. */
static int gradients(check *k, uint32_t flags, td_tensor **g)
{
    td_tensor *out[64], *roots[64], *seeds[64], *inputs[16], *got[16] = {0};
    int n, nroots = 0, nin = 0, at[16];
    td_error e = {0};
    if (forward(k, out, &n)) return 1;
    for (int o = 0; o < n; o++)
        if (td_requires_grad(out[o])) roots[nroots] = out[o], seeds[nroots++] = seed_of(out[o], k->r[o]);
    for (int i = 0; i < k->c.nin; i++)
        if (inexact(k->in[i]) && td_requires_grad(k->in[i])) at[nin] = i, inputs[nin++] = k->in[i];
    int err = t_backward(nroots, roots, seeds, nin, inputs, got, flags | TD_BW_ALLOW_UNUSED, &e);
    if (err) snprintf(k->error, sizeof k->error, "backward: %s: %s", e.op, e.message);
    for (int i = 0; i < 16; i++) g[i] = NULL;
    for (int i = 0; i < nin; i++) g[at[i]] = got[i];
    drop(nroots, seeds);
    drop(n, out);
    return err;
}

/* G: the weighted sum of the gradients. */
static double slope(check *k)
{
    td_tensor *g[16];
    double sum = 0;
    if (gradients(k, 0, g)) return NAN;
    for (int i = 0; i < 16; i++)
        if (g[i]) sum += weigh(g[i], k->s[i]);
    drop(16, g);
    return sum;
}

static int second(check *k, td_tensor **gg)
{
    td_tensor *g[16], *roots[16], *seeds[16], *inputs[16], *got[16] = {0};
    int nroots = 0, nin = 0, at[16];
    td_error e = {0};
    for (int i = 0; i < 16; i++) gg[i] = NULL;
    if (gradients(k, TD_BW_CREATE_GRAPH, g)) return 1;
    for (int i = 0; i < 16; i++)
        if (g[i] && td_requires_grad(g[i])) roots[nroots] = g[i], seeds[nroots++] = k->s[i];
    for (int i = 0; i < k->c.nin; i++)
        if (inexact(k->in[i]) && td_requires_grad(k->in[i])) at[nin] = i, inputs[nin++] = k->in[i];
    int err = nroots ? t_backward(nroots, roots, seeds, nin, inputs, got, TD_BW_ALLOW_UNUSED, &e) : 0;
    if (err) snprintf(k->error, sizeof k->error, "second backward: %s: %s", e.op, e.message);
    for (int i = 0; i < nin; i++) gg[at[i]] = got[i];
    drop(16, g);
    return err;
}

/* The place of the other side of the diagonal; of Hermitian matrices both are moved. */
static int64_t mirror(const check *k, const td_tensor *x, int64_t i)
{
    if (x != k->in[0] || !(k->row->flags & (HERMITIAN | DEFINITE))) return i;
    int64_t n = x->desc.shape[x->desc.ndim - 1], r = i / n % n, c = i % n;
    return i + (c - r) * n + r - c;
}

static double difference(check *k, double (*f)(check *), td_tensor *x, int64_t i, bool imaginary)
{
    const double h = 1e-5;
    int64_t other = mirror(k, x, i);
    double *at = (double *)t_at(x, i) + imaginary, was = *at;
    double *beside = (double *)t_at(x, other) + imaginary, was_beside = *beside, step = imaginary ? -h : h;
    if (other != i) *beside = was_beside + step;
    *at = was + h;
    double up = f(k);
    if (other != i) *beside = was_beside - step;
    *at = was - h;
    double down = f(k);
    *at = was;
    *beside = other == i ? was : was_beside;
    return (up - down) / (2 * h);
}

static bool near(double a, double b)
{
    return fabs(a - b) <= 2e-6 + 2e-5 * fabs(b) || (isnan(a) && isnan(b));
}

/* Compare g (NULL: zero) with the differences of f, element by element. */
static bool agrees(check *k, double (*f)(check *), int i, const td_tensor *g, const char *order)
{
    td_tensor *x = k->in[i];
    bool z = td_dtype_is_complex((td_dtype)x->desc.dtype);
    for (int64_t j = 0; j < td_desc_numel(&x->desc); j++)
        for (int part = 0; part <= z; part++) {
            td_scalar s = g ? t_get(g, j) : td_float(0);
            int64_t other = mirror(k, x, j);
            td_scalar o = g && other != j ? t_get(g, other) : td_float(0);
            if (part && other == j && k->row->flags & (HERMITIAN | DEFINITE) && i == 0) continue; /* it is real */
            double want = difference(k, f, x, j, part), have = part ? s.im - o.im : s.re + o.re;
            if (near(have, want)) continue;
            if (!k->error[0])
                snprintf(k->error, sizeof k->error,
                         "%s order, input %d, element %d: %.9g by backward, %.9g by differences", order, i, (int)j,
                         have, want);
            return false;
        }
    return true;
}

static void open_check(check *k, const row *r)
{
    td_tensor *out[64];
    int n;
    memset(k, 0, sizeof *k);
    call_read(&k->c, r->call);
    k->row = r;
    for (int i = 0; i < k->c.nin; i++) {
        if (k->c.in[i].desc) k->in[i] = fill(k->c.in[i].desc, r);
        if (!inexact(k->in[i])) continue;
        if (!i && r->flags & (HERMITIAN | DEFINITE)) make_hermitian(k->in[i], r->flags);
        const td_formula *f = td_formula_of(k->c.f.op);
        bool wanted = f->saves[td_op_param_of(k->c.f.op, k->c.nin, i)].exists;
        td_set_requires_grad(k->in[i], wanted, NULL);
        k->s[i] = fill(&k->in[i]->desc, &(row){.flags = 0});
    }
    if (forward(k, out, &n)) return;
    for (int o = 0; o < n; o++) k->r[o] = fill(&out[o]->desc, &(row){.flags = 0, .mod = 1});
    k->nr = n;
    drop(n, out);
}

static bool wants(const check *k, int i)
{
    return k->in[i] && td_requires_grad(k->in[i]);
}

static bool run_check(check *k)
{
    td_tensor *g[16] = {0}, *gg[16] = {0};
    bool ok = !k->error[0] && !gradients(k, 0, g);
    for (int i = 0; i < k->c.nin && ok; i++)
        if (wants(k, i)) ok = agrees(k, loss, i, g[i], "first");
    bool twice = !(k->row->flags & FIRST);
    if (ok && twice) ok = !second(k, gg);
    for (int i = 0; i < k->c.nin && ok && twice; i++)
        if (wants(k, i)) ok = agrees(k, slope, i, gg[i], "second");
    drop(16, g);
    drop(16, gg);
    return ok;
}

static void close_check(check *k)
{
    drop(16, k->in);
    drop(16, k->r);
    drop(16, k->s);
}

static void formulas_agree_with_differences(void)
{
    static check k;
    static bool seen[TD_OP_COUNT];
    int passed = 0;
    int skipped = 0;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        seed = i + 1;
        open_check(&k, &rows[i]);
        bool ok = run_check(&k);
        bool lacking = strstr(k.error, "has no kernel for") != NULL;
        if (!ok) printf("  %s: %s\n", rows[i].call, k.error[0] ? k.error : "failed");
        CU_ASSERT(ok || lacking);
        skipped += lacking;
        passed += ok;
        seen[k.c.f.op->id] |= ok;
        close_check(&k);
    }
    int with = 0, covered = 0;
    for (unsigned id = 0; id < td_op_count; id++) {
        const td_op *op = td_op_by_id(id);
        if (!op || !td_formula_of(op)) continue;
        with++;
        covered += seen[id];
        if (!seen[id]) printf("  not covered: %s\n", op->name);
    }
    printf("\n  gradients: %d of %d cases agree to second order (%d lack a kernel), %d of %d ops with a formula\n  ",
           passed, (int)(sizeof rows / sizeof *rows), skipped, covered, with);
    /* dropout_backward: the state is the kernel's own; it is reached through dropout. ctc_losses: its lengths have to
     * fit together; it is compared with torch. */
    CU_ASSERT(skipped || covered + 2 >= with);
}

TD_CUNIT_MAIN_WITH("autograd_grad", t_setup, t_teardown,
                   {"formulas agree with finite differences", formulas_agree_with_differences})
