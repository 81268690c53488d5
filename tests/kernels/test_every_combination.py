"""Every kernel beside NumPy, whatever the type, storage, loss, penalty, size and scale.

Hypothesis draws the combinations; bounds follow from rounding: a sum of k numbers is off by at
most k units of rounding of the sum of their sizes, whatever the order of addition.
"""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from tests.variants import by_variant

import stochadmm as sa
from stochadmm.base.terms import (
    KINDS,
    Elementwise,
    GroupNorms,
    NuclearNorm,
    SparseGroupNorms,
    TotalVariation,
)
from stochadmm.forms.compiled import terms_view
from stochadmm.kernels import _numpy, extension, passes
from stochadmm.kernels.loops import Sample
from stochadmm.kernels.views import DataView

pytestmark = pytest.mark.compiled

LOSSES = {
    "logistic": sa.Logistic(),
    "squared": sa.Squared(),
    "twice": sa.Squared(half=False),
    "huber": sa.Huber(0.5),
    "quantile": sa.Quantile(0.7, 0.3),
    "hinge": sa.SquaredHinge(),
    "poisson": sa.Poisson(3.0),
    "gamma": sa.Gamma(3.0),
    "tweedie": sa.Tweedie(1.4, 20.0),
    "negative_binomial": sa.NegativeBinomial(0.7, 30.0),
}
WIDTHS = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 50, 64, 65, 129, 515, 1030)
"""Around whole vectors of both types, around those of one chunk, and rows longer than a page."""


def bounded(n_examples):
    return settings(max_examples=n_examples, deadline=None, derandomize=True)


def targets(rng, loss, n):
    if loss in ("logistic", "hinge"):
        return np.where(rng.random(n) < 0.5, -1.0, 1.0)
    if loss in ("poisson", "negative_binomial", "tweedie"):
        return rng.poisson(2.0, n).astype(float)
    return rng.exponential(2.0, n) + 1e-3 if loss == "gamma" else rng.standard_normal(n)


@dataclasses.dataclass
class Rows:
    """Rows with all that belongs to them, as NumPy and as the kernels see them."""

    loss: str
    dtype: type
    A: np.ndarray
    """Dense, float64, with the ones of an intercept."""
    y: np.ndarray
    weight: np.ndarray | None
    offset: np.ndarray | None
    view: DataView

    @property
    def q(self):
        n = len(self.A)
        return np.ones(n) if self.weight is None else self.weight.astype(float)

    @property
    def eps(self):
        return float(np.finfo(self.dtype).eps)


@st.composite
def data(draw, most_rows=70, losses=tuple(LOSSES), scales=True):
    """Draw rows; their numbers come from a generator, their shape and kind from hypothesis."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    loss, dtype = draw(st.sampled_from(losses)), draw(st.sampled_from([np.float64, np.float32]))
    storage = draw(st.sampled_from(["dense", "int32", "int64"]))
    n, d = draw(st.integers(0, most_rows)), draw(st.sampled_from(WIDTHS))
    weights, intercept = draw(st.sampled_from(["none", "some", "zero"])), draw(st.booleans())
    shifted = draw(st.booleans())
    most = 60 if dtype == np.float64 else 8
    scale = 10.0 ** draw(st.integers(-most, most)) if scales else 1.0
    X = (scale * rng.standard_normal((n, d))).astype(dtype)
    X[:, rng.random(d) < 0.1] = 0
    none, y = np.empty(0, dtype), targets(rng, loss, n).astype(dtype)
    parts = (X, none, none, none)
    if storage != "dense":
        X = np.where(rng.random((n, d)) < 0.3, X, 0).astype(dtype)
        kind = np.int32 if storage == "int32" else np.int64
        made = sparse.csr_array(X)
        parts = (none, made.indptr.astype(kind), made.indices.astype(kind), made.data)
    weight = {"none": None, "some": rng.random(n) * (rng.random(n) < 0.7), "zero": np.zeros(n)}[
        weights
    ]
    weight = None if weight is None or n == 0 else weight.astype(dtype)
    offset = scale * rng.standard_normal(n).astype(dtype) if shifted and n else None
    offset = None if offset is None else offset.astype(dtype)
    name, p0, p1 = LOSSES[loss].kernel
    view = DataView(
        n,
        d,
        1,
        storage != "dense",
        *parts,
        y.reshape(-1, 1),
        none if weight is None else weight,
        none if offset is None else offset,
        intercept,
        name,
        float(p0),
        float(p1),
    )
    A = X.astype(float)
    A = np.column_stack([A, np.ones(n)]) if intercept else A
    return Rows(loss, dtype, A, y.astype(float), weight, offset, view), rng


def same_for_every_variant(run):
    """Return what ``run`` gives; the bits are those of every variant."""
    first, *others = by_variant(run)
    for other in others:
        for a, b in zip(first, other, strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
    return first


def within(found, expected, size, terms, eps):
    """Assert that sums of so many terms agree, ``size`` being the sums of absolute terms."""
    error = np.abs(np.asarray(found, dtype=float) - expected)
    allowed = (terms + 8) * eps * size + np.finfo(np.float32).tiny * (eps > 1e-10)
    assert (error <= allowed).all(), (float(error.max()), float(np.min(allowed)))


# -------------------------------------------------------------------- full passes


@given(data(), st.data())
@bounded(250)
def test_a_full_pass_over_any_rows_equals_numpy(drawn, more):
    rows, rng = drawn
    n, d = rows.A.shape
    lo = more.draw(st.integers(0, n))
    hi = more.draw(st.integers(lo, n))
    x = rng.standard_normal(d).astype(rows.dtype)

    def run():
        z, u = np.empty(hi - lo, rows.dtype), np.empty(hi - lo, rows.dtype)
        gradient = np.zeros(d, rows.dtype)
        return z, u, gradient, passes.full_pass(rows.view, lo, hi, x, z, u, gradient)

    z, u, gradient, total = same_for_every_variant(run)
    A, y, q, x = rows.A[lo:hi], rows.y[lo:hi], rows.q[lo:hi], x.astype(float)
    shift = 0.0 if rows.offset is None else rows.offset[lo:hi].astype(float)
    within(z, A @ x + shift, np.abs(A) @ np.abs(x) + np.abs(shift), d, rows.eps)
    loss, at = LOSSES[rows.loss], z.astype(float)
    derivative = loss.derivative(at, y)
    unit = rows.eps + 4e-15
    np.testing.assert_allclose(
        u, derivative, rtol=unit, atol=unit * (1 + np.abs(y).max(initial=0))
    )
    losses = loss.values(at, y)
    sizes = np.abs(losses) + np.abs(y * at) + np.abs(at)
    assert abs(total - float((q * losses).sum())) <= 1e-14 * (hi - lo + 8) * float(
        (q * sizes).sum()
    )
    pulled = q * u.astype(float)
    within(gradient, A.T @ pulled, np.abs(A.T) @ np.abs(pulled), hi - lo, rows.eps)


@given(data(), st.data())
@bounded(120)
def test_passes_for_constants_equal_numpy(drawn, more):
    rows, rng = drawn
    A, (n, d), weighted = rows.A, rows.A.shape, rows.weight is not None
    v = rng.standard_normal(d).astype(rows.dtype)
    runs = more.draw(st.integers(1, max(n, 1)))
    energy = rng.random(d) + 0.1

    def run():
        z, out = np.empty(n, rows.dtype), np.zeros(d, rows.dtype)
        mean, largest, scores = np.zeros(d), np.zeros(d), np.empty(n)
        passes.gram_pass(rows.view, 0, n, v, weighted, z, out)
        if n:
            passes.column_energies(rows.view, runs, weighted, mean, largest)
        passes.row_scores(rows.view, weighted, 1 / energy, scores)
        return out, mean, largest, scores

    out, mean, largest, scores = same_for_every_variant(run)
    product, size = A @ v.astype(float), np.abs(A) @ np.abs(v.astype(float))
    within(out, A.T @ (rows.q * product), np.abs(A.T) @ (rows.q * size), n + d, rows.eps)
    squares = rows.q[:, None] * A**2
    unit = np.finfo(float).eps
    if n:
        within(mean, squares.mean(axis=0), squares.mean(axis=0), n, unit)
        edges = np.arange(runs + 1) * n // runs
        parts = np.array([squares[a:b].mean(axis=0) for a, b in itertools.pairwise(edges)])
        within(largest, parts.max(axis=0), parts.max(axis=0), n, unit)
    expected = rows.q * (A**2 / energy).sum(axis=1)
    within(scores, expected, expected, d, unit)


@given(data(most_rows=25, losses=("squared",)))
@bounded(60)
def test_sparse_copies_and_their_gram_matrices_equal_numpy(drawn):
    rows, rng = drawn
    n, d = rows.view.n_rows, rows.view.n_features
    X = np.ascontiguousarray(rows.A[:, :d].astype(rows.dtype))

    def run():
        made = passes.sparse_copy(X)
        return made.indptr, made.indices, made.data

    indptr, indices, values = same_for_every_variant(run)
    made = sparse.csr_array((values, indices, indptr), shape=X.shape)
    np.testing.assert_array_equal(made.toarray(), X)
    assert np.count_nonzero(values) == values.size
    numbers, first = rng.standard_normal(n), int(rng.integers(0, d))
    last = int(rng.integers(first, d + 1))
    (out,) = same_for_every_variant(lambda: [_gram(made, numbers, first, last, d)])
    wide = X.astype(float)
    expected, size = (
        np.tril(left.T @ (w[:, None] * left))
        for left, w in ((wide, numbers), (np.abs(wide), np.abs(numbers)))
    )
    within(out[first:last], expected[first:last], size[first:last], n, np.finfo(float).eps)
    assert not out[:first].any() and not out[last:].any()


def _gram(made, numbers, first, last, d):
    out = np.zeros((d, d))
    passes.sparse_gram(made, numbers, first, last, out)
    return out


# -------------------------------------------------------------------- batches and dual rows


@given(data(scales=False), st.data())
@bounded(150)
def test_batches_equal_numpy(drawn, more):
    rows, rng = drawn
    A, (n, d) = rows.A, rows.A.shape
    if n == 0:
        return
    n_runs = more.draw(st.integers(1, n))
    batch = rng.integers(0, n_runs, size=(1, more.draw(st.integers(1, 5))))
    renew, scale = more.draw(st.booleans()), float(rng.uniform(0.1, 2))
    x, old = rng.standard_normal(d), rng.standard_normal(n)
    x, old = x.astype(rows.dtype), old.astype(rows.dtype)

    def run():
        derivatives, out = old.copy(), np.empty(d, rows.dtype)
        sample = Sample(batch, n_runs, scale)
        extension.core().batch_gradient(rows.view.native, sample, x, derivatives, renew, out)
        return out, derivatives

    out, derivatives = same_for_every_variant(run)
    shift = 0.0 if rows.offset is None else rows.offset.astype(float)
    z = A @ x.astype(float) + shift
    kept, expected, size = old.astype(float), np.zeros(d), np.zeros(d)
    for run_ in batch[0]:
        for i in range(run_ * n // n_runs, (run_ + 1) * n // n_runs):
            now = float(LOSSES[rows.loss].derivative(z[i : i + 1], rows.y[i : i + 1])[0])
            expected += scale * rows.q[i] * (now - kept[i]) * A[i]
            size += (
                scale * rows.q[i] * (abs(now) + abs(kept[i]) + np.abs(A[i]).sum()) * np.abs(A[i])
            )
            if renew:
                kept[i] = now
    # derivatives move with predictions, whose error is bounded by the sizes of their terms
    steep = 40.0 * float(np.abs(x).max() + 1)
    within(out, expected, steep * size, d + n, rows.eps)
    error = steep * (d + 8) * rows.eps * (1 + np.abs(A).sum(axis=1) + np.abs(kept))
    assert (np.abs(derivatives - kept) <= error).all()


@given(data(scales=False), st.data())
@bounded(100)
def test_steps_of_dual_rows_solve_their_equation(drawn, more):
    rows, rng = drawn
    A, (n, d) = rows.A, rows.A.shape
    if n == 0:
        return
    n_blocks = more.draw(st.integers(1, n))
    block, sigma = int(rng.integers(n_blocks)), float(np.exp(rng.uniform(-4, 2))) / n
    own = slice(block * n // n_blocks, (block + 1) * n // n_blocks)
    loss, x = LOSSES[rows.loss], 0.3 * rng.standard_normal(d).astype(rows.dtype) / np.sqrt(d)
    x = x.astype(rows.dtype)
    start = loss.derivative(np.zeros(n), rows.y).astype(rows.dtype)

    def run():
        derivatives, out = start.copy(), np.empty(d, rows.dtype)
        extension.core().data_step(rows.view.native, block, n_blocks, x, sigma, derivatives, out)
        return out, derivatives

    out, derivatives = same_for_every_variant(run)
    others = np.ones(n, bool)
    others[own] = False
    np.testing.assert_array_equal(derivatives[others], start[others])
    # u = prox_{s loss*}(u_0 + s z) means that u is the derivative at z + (u_0 - u) / s
    shift = 0.0 if rows.offset is None else rows.offset.astype(float)
    z, s = A @ x.astype(float) + shift, sigma * n / np.maximum(rows.q, 1e-12)
    u, u0 = derivatives.astype(float), start.astype(float)
    at = z + (u0 - u) / s
    steep = 1 + loss.curvature_bound / s  # how errors of u and z appear in the derivative there
    error = (steep * (1 + np.abs(u) + np.abs(u0)))[own] * (1e-6 if rows.eps < 1e-10 else 2e-3)
    assert (np.abs(loss.derivative(at, rows.y) - u)[own] <= error).all()
    change = rows.q[own] / n * (u - u0)[own]
    size = np.abs(A[own].T) @ (rows.q[own] / n * (np.abs(u) + np.abs(u0))[own])
    within(out, A[own].T @ change, size, n, 2 * rows.eps)


# -------------------------------------------------------------------- penalties


@st.composite
def terms(draw):
    """Draw terms of any kinds, sizes and strengths, zero and huge ones among them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    columns = draw(st.integers(1, 9))
    strength = 10.0 ** draw(st.integers(-12, 12))
    parts = []
    for kind in draw(st.lists(st.sampled_from(sorted(KINDS)), max_size=4)):
        size = draw(st.integers(0, 19))
        sizes = rng.multinomial(size, np.ones(4) / 4).astype(np.int64)
        weights = strength * rng.random(4) * (rng.random(4) < 0.8)
        if kind == Elementwise.kind:
            numbers = size * columns if draw(st.booleans()) else size
            l1, l2 = strength * rng.random((2, numbers)) * (rng.random((2, numbers)) < 0.7)
            lo = np.where(rng.random(numbers) < 0.3, -rng.random(numbers), -np.inf)
            hi = np.where(rng.random(numbers) < 0.3, rng.random(numbers), np.inf)
            parts.append(Elementwise(size, l1, l2, lo, hi))
        elif kind == GroupNorms.kind:
            parts.append(GroupNorms(sizes, weights))
        elif kind == NuclearNorm.kind:
            parts.append(NuclearNorm(size, strength * float(rng.random())))
        elif kind == SparseGroupNorms.kind:
            parts.append(SparseGroupNorms(sizes, weights, strength * rng.random(size)))
        else:
            parts.append(TotalVariation(size, strength * float(rng.random())))
    return parts, columns, rng


@given(terms(), st.sampled_from([np.float64, np.float32]), st.integers(-8, 8))
@bounded(250)
def test_proxes_of_any_terms_equal_numpy(drawn, dtype, power):
    parts, columns, rng = drawn
    rows = sum(part.size for part in parts) if parts else 3
    h = terms_view(parts, rows, columns, np.dtype(dtype))
    step = float(rng.random() + 0.01)
    v = (10.0**power * rng.standard_normal((rows, columns))).astype(dtype)

    def run():
        out = np.full_like(v, np.nan)
        extension.core().prox(h.native, v, step, out)
        return [out]

    (out,) = same_for_every_variant(run)
    expected = np.empty_like(v)
    _numpy.prox(h, v, step, expected)
    # groups of nearly the length of the threshold: what is left is a difference of the two
    unit = 64 * (rows + 1) * float(np.finfo(dtype).eps)
    np.testing.assert_allclose(out, expected, rtol=unit, atol=unit * np.abs(v).max(initial=0.0))
