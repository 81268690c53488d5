"""Norms of a block as a whole: nuclear norm, Euclidean ball."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import linalg

from ..base.capabilities import Has
from ..base.immutable import as_float, store
from ..base.protocols import Array, Shape
from ._base import ALWAYS, GUARD, Part, check_alpha, eps

LEADING = 1e-2
"""Share of the largest singular value from which on the others may come from a Gram matrix."""
TINY = 1000
"""Entries up to which the shorter call of NumPy counts; of larger matrices SciPy's routine takes
half the time and a third of the memory in single precision, which NumPy widens."""


@dataclass(frozen=True)
class Nuclear(Part):
    """Nuclear norm of a matrix, ``alpha`` times the sum of its singular values.

    Parameters
    ----------
    alpha : float
        Strength.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.penalties import Nuclear
    >>> x = np.outer([2.0, 0.0], [0.0, 3.0])
    >>> float(round(Nuclear(0.5).value(x), 12))
    3.0
    >>> left, values, right = Nuclear(1.0).factors(x, step=1.0)
    >>> values
    array([5.])
    """

    alpha: float

    def __post_init__(self) -> None:
        check_alpha(self.alpha)

    capabilities = ALWAYS | {Has.REACH, Has.RESTRICTED, Has.FACTORS}

    def value(self, x: Array) -> float:
        """Return h(x) in float64."""
        return float(self.alpha * _singular_values(_matrix(x)).sum())

    def factors(self, v: Array, step: float) -> tuple[Array, Array, Array]:
        """Return the prox as ``left @ diag(values) @ right`` with positive values only.

        The rank is exact: it is the number of singular values of ``v`` above the threshold.
        """
        threshold = step * self.alpha
        quick = _leading(_matrix(v), threshold)
        left, values, right = _svd(_matrix(v)) if quick is None else quick
        rank = int((~(values <= threshold)).sum())  # what is not a number stays so
        return left[:, :rank], values[:rank] - values.dtype.type(threshold), right[:rank]

    def prox(self, v: Array, step: float, out: Array | None = None) -> Array:
        """Return ``argmin_u h(u) + |u - v|^2 / (2 step)``: singular values soft-thresholded."""
        v, threshold = _matrix(v), float(step) * self.alpha
        if _is_long(v) and np.isfinite(v).all():
            return store(_shrunk(v, threshold), out)
        if _is_long(v.T) and np.isfinite(v).all():
            return store(_shrunk(v.T, threshold).T, out)
        left, values, right = self.factors(v, float(step))
        return store((left * values) @ right, out)

    def conjugate(self, u: Array) -> float:
        """Return 0 when the largest singular value is at most ``alpha``, ``inf`` otherwise.

        The singular value itself is known up to rounding, which is forgiven: four units (of the
        dtype of ``u``) times the square root of the smaller side.
        """
        u = _matrix(u)
        return 0.0 if self._largest(u) <= self.alpha * (1.0 + self._guard(u)) else np.inf

    def dual_scale(self, u: Array) -> float:
        """Return the largest t in [0, 1] with finite ``conjugate(t * u)``."""
        u = _matrix(u)
        largest = self._largest(u)
        return 1.0 if largest <= self.alpha * (1.0 + self._guard(u)) else self.alpha / largest

    def reach(self, size: Array, level: float) -> float:
        """Return a bound on ``<size, |x|>`` over all x with ``h(x) <= level``; ``size >= 0``."""
        length = float(np.linalg.norm(size))
        if length == 0:
            return 0.0
        return length * level / self.alpha if self.alpha > 0 else np.inf

    def project_dual(self, u: Array) -> Array:
        """Return the nearest point of the domain of the conjugate: singular values clipped."""
        left, values, right = _svd(_matrix(u))
        clipped: Array = (left * np.minimum(values, values.dtype.type(self.alpha))) @ right
        return clipped

    def zeros(self, x: Array) -> Array:
        """Return where a matrix of rank zero is zero: lower rank zeroes no single entry."""
        x = np.asarray(x)
        return np.full(x.shape, self.alpha > 0 and not x.any())

    def restricted(self, rows: Array) -> Nuclear:
        """Return the penalty itself: rows of zeros have no singular values."""
        return self

    def check(self, shape: Shape) -> None:
        """Raise when the block is not a matrix."""
        _check_matrix(shape)

    def _largest(self, u: Array) -> float:
        return float(_singular_values(u).max(initial=0.0))

    @staticmethod
    def _guard(u: Array) -> float:
        return GUARD * eps(u) * float(np.sqrt(min(u.shape)))


def _check_matrix(shape: Shape) -> None:
    if len(shape) != 2:
        raise ValueError(
            f"Nuclear needs a matrix, got a block of shape {shape}; use targets with several "
            "columns, or L1 for a single output"
        )


def _matrix(x: Array) -> Array:
    x = as_float(x)
    _check_matrix(x.shape)
    return x


def _is_long(x: Array) -> bool:
    """Say whether a matrix of the smaller side costs little beside this one."""
    return bool(x.shape[1] >= 16 and x.shape[0] >= 2 * x.shape[1])


def _leading(x: Array, threshold: float) -> tuple[Array, Array, Array] | None:
    """Return the singular triples above a threshold from the smaller Gram matrix of a long matrix.

    None where that would lose digits, or where there is nothing to win.
    """
    if x.shape[0] < x.shape[1]:
        turned = _leading(x.T, threshold)
        return None if turned is None else (turned[2].T, turned[1], turned[0].T)
    if not _is_long(x) or x.dtype != np.float64 or not np.isfinite(x).all():
        return None
    found = _by_gram(x, threshold)
    if found is None:
        return None
    values, right = found
    kept = int((values > threshold).sum())
    return (x @ right[:kept].T) / values[:kept], values[:kept], right[:kept]


def _by_gram(x: Array, threshold: float) -> tuple[Array, Array] | None:
    """Return singular values and right vectors in float64 from the Gram matrix of the columns.

    Squaring loses digits of what is small beside the largest value: None unless the threshold is
    large enough, or the digits are those that single precision does not have.
    """
    single = x.dtype == np.float32
    # values that are all alike have the smallest largest one
    if not single and not threshold >= LEADING * _norm(x) / x.shape[1] ** 0.5:
        return None
    squares, vectors = _wide_eigh(x) if single else np.linalg.eigh(x.T @ x)
    values = np.sqrt(np.maximum(squares[::-1], 0.0))
    if not single and not threshold >= LEADING * values[0] > 0:
        return None
    return values, vectors[:, ::-1].T


def _wide_eigh(x: Array) -> tuple[Array, Array]:
    """Return the eigenpairs of x'x in float64, with as little memory as that takes.

    Rows are widened as many at a time as the Gram matrix has, which is added to in place and
    becomes the eigenvectors.
    """
    n = x.shape[1]
    gram = np.zeros((n, n), order="F")
    for first in range(0, len(x), n):
        wide = np.ascontiguousarray(x[first : first + n], dtype=np.float64)
        gram = linalg.blas.dsyrk(1.0, wide.T, beta=1.0, c=gram, lower=1, overwrite_c=1)
        del wide
    squares, vectors = linalg.eigh(gram, overwrite_a=True, check_finite=False, driver="evd")
    return squares, vectors


def _shrunk(x: Array, threshold: float) -> Array:
    """Return a long matrix with its singular values soft-thresholded.

    With x = U diag(s) V' that is ``x V diag(max(1 - threshold / s, 0)) V'``: the vectors of the
    smaller side suffice, and errors of those with small values are small beside x.
    """
    if not x.any():  # as a method begins
        return np.zeros_like(x)
    found = _by_gram(x, threshold)
    if found is None:  # the triangle of x has the same values and right vectors, to all digits
        _, values, right = _svd(np.asarray(np.linalg.qr(x, mode="r")))
    else:
        values, right = found
    del found
    kept = int((values > threshold).sum())
    shares = (1.0 - threshold / values[:kept]).astype(x.dtype)
    right = right[:kept].astype(x.dtype)
    if 2 * kept < x.shape[1]:
        return np.asarray(((x @ right.T) * shares) @ right)
    return np.asarray(x @ ((right.T * shares) @ right))


def _svd(v: Array) -> tuple[Array, Array, Array]:
    rows, columns = v.shape
    if 0 in v.shape:
        return np.zeros((rows, 0)), np.zeros(0), np.zeros((0, columns))
    if not np.isfinite(v).all():  # LAPACK would complain on the terminal
        nan = np.full((max(v.shape), min(v.shape)), np.nan, dtype=v.dtype)
        return nan[:rows], nan[0], nan.T[:, :columns]
    try:
        if v.size <= TINY:
            left, values, right = np.linalg.svd(v, full_matrices=False)
        else:
            left, values, right = linalg.svd(v, full_matrices=False, check_finite=False)
    except np.linalg.LinAlgError:  # divide and conquer gives up on rare inputs, QR does not
        left, values, right = linalg.svd(
            v, full_matrices=False, check_finite=False, lapack_driver="gesvd"
        )
    return left, values, right


def _singular_values(x: Array) -> Array:
    if 0 in x.shape:
        return np.zeros(0)
    if not np.isfinite(x).all():
        return np.full(min(x.shape), np.nan)
    try:
        values: Array
        if _is_long(x) or _is_long(x.T):  # in the place of the wide copy, which may be large
            wide = x.astype(np.float64, order="F")
            values = linalg.svdvals(wide, overwrite_a=True, check_finite=False)
        else:
            values = np.linalg.svd(x.astype(np.float64), compute_uv=False)  # many are tiny
    except np.linalg.LinAlgError:
        wide = x.astype(np.float64)
        values = linalg.svd(wide, compute_uv=False, check_finite=False, lapack_driver="gesvd")
    return values


@dataclass(frozen=True)
class L2Ball(Part):
    """Indicator of ``|x|_2 <= radius``, the norm over all entries of the block.

    Parameters
    ----------
    radius : float
        At least zero.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.penalties import L2Ball
    >>> L2Ball(1.0).prox(np.array([3.0, 4.0]), 1.0)
    array([0.6, 0.8])
    """

    radius: float

    def __post_init__(self) -> None:
        check_alpha(self.radius, "radius")

    capabilities = ALWAYS | {Has.REACH, Has.RESTRICTED}

    def value(self, x: Array) -> float:
        """Return 0 inside the ball and ``inf`` outside."""
        return 0.0 if _norm(as_float(x)) <= self.radius else np.inf

    def prox(self, v: Array, step: Array | float, out: Array | None = None) -> Array:
        """Return the nearest point of the ball, whatever the step."""
        if np.ndim(step) != 0 and np.ptp(step) != 0:
            raise ValueError("L2Ball takes one step for the block, got different ones")
        return store(self.project(v), out)

    def conjugate(self, u: Array) -> float:
        """Return ``radius |u|_2``."""
        return self.radius * _norm(as_float(u))

    def dual_scale(self, u: Array) -> float:
        """Return 1: the conjugate is finite everywhere."""
        return 1.0

    def reach(self, size: Array, level: float) -> float:
        """Return a bound on ``<size, |x|>`` over the ball."""
        return self.radius * _norm(as_float(size))

    def project_dual(self, u: Array) -> Array:
        """Return ``u``: the conjugate is finite everywhere."""
        return as_float(u)

    def project(self, x: Array) -> Array:
        """Return the nearest point of the ball, rounded to its inside."""
        x = as_float(x)
        norm = _norm(x)
        if norm <= self.radius:
            return x.copy()
        nearest = (x * (self.radius / norm)).astype(x.dtype)
        while _norm(nearest) > self.radius:
            nearest *= 1.0 - 2.0 * eps(x)
        return nearest

    def zeros(self, x: Array) -> Array:
        """Return where the entries are zero because the radius is."""
        x = np.asarray(x)
        return np.asarray((x == 0) & (self.radius == 0))

    def scaled(self, factor: float) -> L2Ball:
        """Return the penalty itself: an indicator has no strength."""
        check_alpha(factor, "factor")
        return self

    def restricted(self, rows: Array) -> L2Ball:
        """Return the penalty itself: rows of zeros add nothing to the norm."""
        return self

    def check(self, shape: Shape) -> None:
        """Accept any shape."""


def _norm(x: Array) -> float:
    return float(np.linalg.norm(x.astype(np.float64).ravel()))
