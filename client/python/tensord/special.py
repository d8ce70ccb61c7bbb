"""The special functions under the names that PyTorch has for them: tensord.special.erfcx(x), ..."""

import typing as _typing

from tensord import _C
from tensord.core import _absent, _numeric
from tensord._C import Tensor as _Tensor, ops as _ops

airy_ai, bessel_j0, bessel_j1, bessel_y0, bessel_y1 = _ops.airy_ai, _ops.bessel_j0, _ops.bessel_j1, _ops.bessel_y0, _ops.bessel_y1
digamma = psi = _C.digamma
entr, erf, erfc, erfcx, erfinv = _ops.entr, _C.erf, _C.erfc, _ops.erfcx, _C.erfinv
exp2, expm1, log1p, expit = _C.exp2, _C.expm1, _C.log1p, _C.sigmoid
gammainc, gammaincc, gammaln, multigammaln = _C.igamma, _C.igammac, _C.lgamma, _C.mvlgamma
i0, i0e, i1, i1e = _C.i0, _ops.i0e, _ops.i1, _ops.i1e
modified_bessel_i0, modified_bessel_i1 = _C.i0, _ops.i1
modified_bessel_k0, modified_bessel_k1 = _ops.modified_bessel_k0, _ops.modified_bessel_k1
scaled_modified_bessel_k0, scaled_modified_bessel_k1 = _ops.scaled_modified_bessel_k0, _ops.scaled_modified_bessel_k1
spherical_bessel_j0 = _ops.spherical_bessel_j0
ndtr, ndtri, log_ndtr = _ops.ndtr, _ops.ndtri, _ops.log_ndtr
logit, logsumexp, sinc, xlogy, xlog1py, zeta = _C.logit, _C.logsumexp, _C.sinc, _C.xlogy, _ops.xlog1py, _ops.zeta
softmax, log_softmax, round = _C.softmax, _C.log_softmax, _C.round  # noqa: A001
polygamma = _numeric.polygamma


def _polynomial(name: str, shifted: bool = False) -> _typing.Any:
    made: _typing.Any = getattr(_ops, name)

    def polynomial(input: _typing.Any, n: _typing.Any, *, out: _typing.Any = None) -> _Tensor:
        # whole numbers of few bits would wrap
        whole = isinstance(input, _Tensor) and not (input.is_floating_point() or input.is_complex())
        x = 2 * (input.to(_C.get_default_dtype()) if whole else input) - 1 if shifted else input
        return made(x, n) if out is None else made(x, n, out=out)

    polynomial.__name__ = polynomial.__qualname__ = "shifted_" * shifted + name
    polynomial.__doc__ = f"The polynomial of order n{' at 2 x - 1' * shifted}."
    return polynomial


chebyshev_polynomial_t, chebyshev_polynomial_u = _polynomial("chebyshev_polynomial_t"), _polynomial("chebyshev_polynomial_u")
chebyshev_polynomial_v, chebyshev_polynomial_w = _polynomial("chebyshev_polynomial_v"), _polynomial("chebyshev_polynomial_w")
shifted_chebyshev_polynomial_t, shifted_chebyshev_polynomial_u = _polynomial("chebyshev_polynomial_t", True), _polynomial("chebyshev_polynomial_u", True)
shifted_chebyshev_polynomial_v, shifted_chebyshev_polynomial_w = _polynomial("chebyshev_polynomial_v", True), _polynomial("chebyshev_polynomial_w", True)
hermite_polynomial_h, hermite_polynomial_he = _polynomial("hermite_polynomial_h"), _polynomial("hermite_polynomial_he")
laguerre_polynomial_l, legendre_polynomial_p = _polynomial("laguerre_polynomial_l"), _polynomial("legendre_polynomial_p")

if not _typing.TYPE_CHECKING:
    __getattr__ = _absent.of("tensord.special")
