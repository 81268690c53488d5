"""Checks for losses, penalties and operators, ours and anybody's.

Each takes a part, tries the properties that solvers rely on at random points, and raises
AssertionError with the property that fails. Optional members that a part does not offer are
skipped; what it declares in ``capabilities`` must be there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .base.capabilities import Capabilities, Has, has_members, offers
from .base.protocols import Array, Shape

__all__ = ["check_loss", "check_operator", "check_penalty"]

_N_TRIALS = 5


def check_loss(
    loss: Any, y: Array | None = None, rng: np.random.Generator | int | None = 0
) -> None:
    """Check a loss: derivative, curvature, weights, extreme predictions, conjugate and proxes.

    Parameters
    ----------
    loss : object
        Has ``value``, ``derivative`` and ``curvature_bound`` at least.
    y : array, optional
        Targets. By default a few that ``check_targets`` accepts, or labels -1 and +1.
    rng : Generator or seed
        For the random points.

    Examples
    --------
    >>> from stochadmm.losses import Huber
    >>> from stochadmm.testing import check_loss
    >>> check_loss(Huber())
    """
    _check_declaration(loss)
    rng = np.random.default_rng(rng)
    y = _targets(loss, rng) if y is None else np.asarray(y)
    n_outputs = loss.n_outputs(y) if offers(loss, Has.N_OUTPUTS) else None
    shape = (len(y),) if n_outputs is None else (len(y), n_outputs)
    for scale in (0.1, 1.0, 5.0):
        z = rng.normal(scale=scale, size=shape)
        with _Untouched(z, y):
            loss.derivative(z, y)
        with _Untouched(z, y):
            _check_derivative(loss, z, y)
            _check_curvature(loss, z, y, rng)
            _check_weights(loss, z, y)
            _check_conjugate(loss, z, y, rng)
            _check_loss_proxes(loss, z, y)
            _check_mean(loss, z)
        single = z.astype(np.float32)
        _require(
            loss.derivative(single, y).dtype == np.float32, "derivative does not keep float32"
        )
        if offers(loss, Has.CURVATURE):
            kept = loss.curvature(single, y).dtype == np.float32
            _require(kept, "curvature does not keep float32")
    for size in (1e2, 1e4):
        for z in (np.full(shape, size), np.full(shape, -size)):
            _require(
                np.isfinite(loss.value(z, y)), f"value is not finite at predictions {z.flat[0]}"
            )
            _require(
                np.isfinite(loss.derivative(z, y)).all(),
                f"derivative is not finite at {z.flat[0]}",
            )


def _targets(loss: Any, rng: np.random.Generator) -> Array:
    signs = np.where(np.arange(12) % 2, 1.0, -1.0)
    if not offers(loss, Has.CHECK_TARGETS):
        return signs
    amounts = np.linspace(0.1, 5.0, 12)
    for y in (rng.normal(size=12), signs, np.arange(12) % 3, np.arange(12) % 2, amounts):
        try:
            return np.asarray(loss.check_targets(y))
        except ValueError:
            continue
    raise AssertionError("check_targets accepts no numbers, signs, labels or amounts; give y")


def _row_values(loss: Any, z: Array, y: Array) -> Array:
    return np.array([loss.value(z[i : i + 1], y[i : i + 1]) for i in range(len(y))])


def _check_derivative(loss: Any, z: Array, y: Array) -> None:
    derivative = loss.derivative(z, y)
    _require(
        derivative.shape == z.shape, f"derivative has shape {derivative.shape}, expected {z.shape}"
    )
    h = 1e-5
    flat = z.reshape(len(y), -1)
    for c in range(flat.shape[1]):
        moves = np.zeros_like(flat)
        moves[:, c] = h
        move = moves.reshape(z.shape)
        rise = _row_values(loss, z + move, y) - _row_values(loss, z - move, y)
        got = derivative.reshape(len(y), -1)[:, c]
        _close(got, rise / (2 * h), 1e-5, "derivative is not the derivative of value")


def _check_curvature(loss: Any, z: Array, y: Array, rng: np.random.Generator) -> None:
    bound = loss.curvature_bound
    other = z + rng.normal(size=z.shape)
    change = (loss.derivative(other, y) - loss.derivative(z, y)).reshape(len(y), -1)
    move = (other - z).reshape(len(y), -1)
    _require(((change * move).sum(axis=1) >= -1e-10).all(), "the loss is not convex")
    ratio = np.linalg.norm(change, axis=1) / np.linalg.norm(move, axis=1)
    _require((ratio <= bound * (1 + 1e-9)).all(), "curvature_bound is not a bound")
    if offers(loss, Has.CURVATURE):
        curvature = loss.curvature(z, y)
        inside = (curvature >= 0) & (curvature <= bound * (1 + 1e-12))
        _require(inside.all(), "curvature is not between 0 and curvature_bound")
    if offers(loss, Has.CURVATURE_APPLY):
        v, h = rng.normal(size=z.shape), 1e-5
        rise = (loss.derivative(z + h * v, y) - loss.derivative(z - h * v, y)) / (2 * h)
        got = loss.curvature_apply(z, y, v)
        _close(got, rise, 1e-4, "curvature_apply is not the derivative of derivative")
        if offers(loss, Has.CURVATURE_PARTS):
            a, b = loss.curvature_parts(z, y)
            along = 0.0 if b is None else b * (b * v).sum(axis=-1, keepdims=True)
            _close(a * v - along, got, 1e-12, "curvature_parts is not curvature_apply")


def _check_weights(loss: Any, z: Array, y: Array) -> None:
    rows = _row_values(loss, z, y)
    _close(loss.value(z, y), rows.mean(), 1e-12, "value is not the mean over the rows")
    weight = np.arange(len(y)) % 3.0
    mean = (weight * rows).sum() / weight.sum()
    _close(loss.value(z, y, weight), mean, 1e-12, "value with weights is not the weighted mean")


def _check_conjugate(loss: Any, z: Array, y: Array, rng: np.random.Generator) -> None:
    if not offers(loss, Has.CONJUGATE):
        return
    u = loss.derivative(z, y)
    product = _rows(u * z)
    conjugate = loss.conjugate(u, y)
    _require(conjugate.shape == (len(y),), "conjugate is not one number per row")
    _close(
        conjugate + _row_values(loss, z, y),
        product,
        1e-9,
        "value and conjugate miss Fenchel-Young",
    )
    other = z + rng.normal(size=z.shape)
    below = loss.conjugate(u, y) + _row_values(loss, other, y) - _rows(u * other)
    _require((below >= -1e-9).all(), "the conjugate is below <u, z> - value")
    if offers(loss, Has.DUAL_STEP_LIMIT):
        du = loss.derivative(other, y) - u
        du *= 10.0  # beyond a point of the domain, so that its edge may be met
        t = loss.dual_step_limit(u, du, y)
        _require(((t >= 0) & (t <= 1)).all(), "dual_step_limit is not between 0 and 1")
        wide = t.reshape(-1, *[1] * (z.ndim - 1))
        at_edge = loss.conjugate(u + wide * du, y)
        _require(np.isfinite(at_edge).all(), "dual_step_limit leaves the domain of the conjugate")
        beyond = loss.conjugate(u + 1.0001 * wide * du, y)
        _require(np.isinf(beyond[t < 1]).all(), "dual_step_limit is not the largest possible")


def _check_loss_proxes(loss: Any, v: Array, y: Array) -> None:
    for step in (0.01, 1.0, 100.0):
        if offers(loss, Has.PROX):
            z = loss.prox(v, step, y)
            _close(
                z + step * loss.derivative(z, y), v, 1e-8 * (1 + step), "prox is not a minimizer"
            )
        if offers(loss, Has.PROX_CONJUGATE):
            u = loss.prox_conjugate(v, step, y)
            expected = loss.derivative((v - u) / step, y)
            _close(u, expected, 1e-7, "prox_conjugate does not satisfy Moreau's identity")


def _check_mean(loss: Any, z: Array) -> None:
    if offers(loss, Has.MEAN):
        _require(loss.mean(z).shape == z.shape, "mean changes the shape")
        _require(loss.mean(z.astype(np.float32)).dtype == np.float32, "mean does not keep float32")


def check_penalty(penalty: Any, shape: Shape, rng: np.random.Generator | int | None = 0) -> None:
    """Check a penalty: its prox, conjugate, projections, scaling and compiled description.

    Parameters
    ----------
    penalty : object
        Has ``value`` and ``prox`` at least.
    shape : tuple of int
        Shape of the block it acts on.
    rng : Generator or seed
        For the random points.

    Examples
    --------
    >>> from stochadmm.penalties import L1
    >>> from stochadmm.testing import check_penalty
    >>> check_penalty(L1(0.5), (6,))
    """
    _check_declaration(penalty)
    rng = np.random.default_rng(rng)
    if offers(penalty, Has.CHECK):
        penalty.check(shape)
    for trial in range(_N_TRIALS):
        v = rng.normal(scale=4.0 ** (2 - trial), size=shape)
        w = rng.normal(size=shape)
        step = float(rng.exponential())
        with _Untouched(v):
            p = penalty.prox(v, step)
        with _Untouched(v, w):
            _check_prox(penalty, v, w, p, step)
            _check_penalty_dual(penalty, v, p, step)
            _check_projections(penalty, v, p, step)
            if offers(penalty, Has.SCALED):
                _check_scaled(penalty, v, p, step)
            if offers(penalty, Has.TERMS):
                _check_terms(penalty, p)
        out = np.empty_like(v)
        returned = penalty.prox(v, step, out=out)
        _require(returned is out, "prox does not return the array given as out")
        _close(out, p, 1e-14, "prox with out differs from prox without")
        single = penalty.prox(v.astype(np.float32), step)
        _require(single.dtype == np.float32, "prox does not keep float32")
        _close(single, p, 1e-4, "prox in float32 is far from float64")


def _check_prox(penalty: Any, v: Array, w: Array, p: Array, step: float) -> None:
    _require(p.shape == v.shape, f"prox has shape {p.shape}, expected {v.shape}")
    value = penalty.value(p)
    _require(np.isfinite(value), "prox is outside the domain")
    # points of the domain, and points near p that beat it when it is not the minimizer
    near = (p + 0.1 * (v - p), 0.9 * p, 1.1 * p)
    for u in (penalty.prox(w, step), penalty.prox(p + 0.1 * w, 0.1 * step), *near):
        rise = float(((v - p) * (u - p)).sum()) / step
        slack = penalty.value(u) - value - rise
        scale = 1.0 + abs(value) + abs(rise)
        _require(slack >= -1e-8 * scale, "prox is not the minimizer: a better point exists")
    q = penalty.prox(w, step)
    inner = float(((v - w) * (p - q)).sum())
    firm = float(((p - q) ** 2).sum()) <= inner + 1e-9 * (1 + abs(inner))
    _require(firm, "prox is not firmly non-expansive")
    still = penalty.prox(v, 1e-10)
    target = penalty.project(v) if offers(penalty, Has.PROJECT) else still
    _close(still, target, 1e-6, "prox with a tiny step is not the point itself")


def _check_penalty_dual(penalty: Any, v: Array, p: Array, step: float) -> None:
    if not offers(penalty, Has.CONJUGATE):
        return
    u = (v - p) / step
    if offers(penalty, Has.PROJECT_DUAL):
        inside = penalty.project_dual(u)
        _close(inside, u, 1e-8, "(v - prox) / step is outside the domain of the conjugate")
        u = inside
    elif np.isinf(penalty.conjugate(u)):
        u = u * (1.0 - 1e-12)  # rounding may push it over the edge
    total = penalty.conjugate(u) + penalty.value(p)
    _close(total, float((u * p).sum()), 1e-8, "value and conjugate miss Fenchel-Young")
    if offers(penalty, Has.DUAL_SCALE):
        t = penalty.dual_scale(v)
        _require(0 <= t <= 1, "dual_scale is not between 0 and 1")
        _require(np.isfinite(penalty.conjugate(t * v)), "dual_scale leaves the domain")
        if t < 1:
            beyond = penalty.conjugate((1.0001 * t + 1e-12) * v)
            _require(np.isinf(beyond), "dual_scale is not the largest possible")
    if offers(penalty, Has.PROJECT_DUAL):
        nearest = penalty.project_dual(v)
        _require(np.isfinite(penalty.conjugate(nearest)), "project_dual leaves the domain")
        _close(penalty.project_dual(nearest), nearest, 1e-12, "project_dual is not a projection")


def _check_projections(penalty: Any, v: Array, p: Array, step: float) -> None:
    if offers(penalty, Has.PROJECT):
        inside = penalty.project(v)
        _require(np.isfinite(penalty.value(inside)), "project leaves the domain")
        _close(penalty.project(inside), inside, 1e-12, "project is not a projection")
    if offers(penalty, Has.ZEROS):
        mask = penalty.zeros(p)
        _require(mask.shape == p.shape and mask.dtype == bool, "zeros is not a mask of x")
        _require(not np.asarray(p)[mask].any(), "zeros marks entries that are not zero")


def _check_scaled(penalty: Any, v: Array, p: Array, step: float) -> None:
    double = penalty.scaled(2.0)
    _close(double.value(p), 2.0 * penalty.value(p), 1e-10, "scaled(2) is not twice the value")
    _close(double.prox(v, step / 2), p, 1e-10, "prox of scaled(2) differs from twice the step")


def _check_terms(penalty: Any, x: Array) -> None:
    terms = penalty.terms(len(x))
    if terms is None:
        _require(not _declares(penalty, Has.TERMS), "TERMS is declared but terms gives None")
        return
    _require(sum(term.size for term in terms) == len(x), "terms do not cover the rows")
    total, start = 0.0, 0
    for term in terms:
        rows = x[start : start + term.size]
        start += term.size
        total += term.value(rows)
    _close(total, penalty.value(x), 1e-10, "terms do not add up to value")


def check_operator(A: Any, rng: np.random.Generator | int | None = 0) -> None:
    """Check an operator: adjoint, linearity, matrices, norm, sparse form, dtype.

    Parameters
    ----------
    A : object
        Has ``shape``, ``matvec``, ``rmatvec`` and ``norm2``.
    rng : Generator or seed
        For the random points.

    Examples
    --------
    >>> from stochadmm.operators import Differences
    >>> from stochadmm.testing import check_operator
    >>> check_operator(Differences(7, order=2))
    """
    _check_declaration(A)
    rng = np.random.default_rng(rng)
    n_rows, n_columns = A.shape
    for _ in range(_N_TRIALS):
        x, u = rng.normal(size=n_columns), rng.normal(size=n_rows)
        with _Untouched(x, u):
            image, back = A.matvec(x), A.rmatvec(u)
        _require(image.shape == (n_rows,), f"matvec gives shape {image.shape}")
        _require(back.shape == (n_columns,), f"rmatvec gives shape {back.shape}")
        scale = 1.0 + float(np.linalg.norm(image) * np.linalg.norm(u))
        _close(image @ u / scale, x @ back / scale, 1e-10, "rmatvec is not the adjoint of matvec")
        other = rng.normal(size=n_columns)
        _close(A.matvec(2.0 * x + other), 2.0 * image + A.matvec(other), 1e-9, "not linear")
    _check_products(A.matvec, n_columns, rng, "matvec")
    _check_products(A.rmatvec, n_rows, rng, "rmatvec")
    if min(A.shape) == 0:
        return
    x = rng.normal(size=n_columns)
    for _ in range(50):
        x = A.rmatvec(A.matvec(x))
        size = np.linalg.norm(x)
        if size == 0:
            break
        x /= size
    largest = float(np.linalg.norm(A.matvec(x))) ** 2
    _require(A.norm2 >= largest * (1 - 1e-12), "norm2 is below the squared norm")
    if offers(A, Has.SPARSE):
        matrix = A.tosparse()
        _require(matrix.format == "csr", f"tosparse gives {matrix.format}, expected csr")
        _require(matrix.shape == tuple(A.shape), "tosparse has another shape")
        _close(matrix @ x, A.matvec(x), 1e-9, "tosparse is another operator")


def _check_products(
    apply: Callable[..., Array], n: int, rng: np.random.Generator, name: str
) -> None:
    X = rng.normal(size=(n, 3))
    with _Untouched(X):
        image = apply(X)
    for c in range(3):
        column = apply(np.ascontiguousarray(X[:, c]))
        _close(image[:, c], column, 1e-10, f"{name} of a matrix is not column by column")
    _require(apply(X.astype(np.float32)).dtype == np.float32, f"{name} does not keep float32")
    out = np.empty_like(image)
    apply(X, out)
    _close(out, image, 1e-12, f"{name} does not fill the array given as out")


def _declared(part: Any) -> Capabilities:
    """Return what a part declares, nothing where it leaves that to its members."""
    return part.capabilities if has_members(part, "capabilities") else frozenset()


def _declares(part: Any, capability: Has) -> bool:
    return capability in _declared(part)


def _check_declaration(part: Any) -> None:
    for capability in _declared(part):
        _require(  # a member that is None has been taken back
            has_members(part, capability.value),
            f"{capability.name} is declared but there is no `{capability.value}`",
        )


def _require(condition: Any, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _close(a: Any, b: Any, tol: float, message: str) -> None:
    difference = np.max(np.abs(np.subtract(a, b)), initial=0.0)
    scale = 1.0 + np.max(np.abs(b), initial=0.0)
    if not difference <= tol * scale:
        raise AssertionError(f"{message}: they differ by {difference:.2e}")


def _rows(terms: Array) -> Array:
    return terms if terms.ndim == 1 else np.asarray(terms.sum(axis=1))


class _Untouched:
    """Fails when the block inside changes the arrays given."""

    def __init__(self, *arrays: Array) -> None:
        self._pairs = [(array, array.copy()) for array in arrays]

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None:
            for array, before in self._pairs:
                _require(np.array_equal(array, before), "an input array was changed")
