"""Compiled kernels: equal to NumPy, the same bits on every processor, a border that checks."""

import copy
import dataclasses
import itertools
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from tests.variants import by_variant

import stochadmm as sa
from stochadmm.base.terms import Elementwise, GroupNorms, TotalVariation
from stochadmm.forms.compiled import operator_view, penalty_view, view
from stochadmm.kernels import _numpy, extension, passes
from stochadmm.kernels.columns import beside, squares
from stochadmm.kernels.extension import engine
from stochadmm.kernels.loops import Sample
from stochadmm.kernels.quadratic import Augmented, Splitting, augmented, newton_matrix, splitting
from stochadmm.kernels.tv import fuse_columns
from stochadmm.operators import as_operator
from stochadmm.risk.gradients import Anchored, Table
from stochadmm.risk.sampling import Runs
from stochadmm.solvers.comparison._dual_blocks import data_step

compiled = pytest.mark.compiled
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
    "multinomial": sa.Multinomial(4),
}
SINGLE = [name for name in LOSSES if name != "multinomial"]
SEEDS = st.integers(0, 2**32 - 1)
few = settings(max_examples=12, deadline=None, derandomize=True)


def targets(rng, loss, shape):
    if loss == "multinomial":
        return rng.integers(4, size=shape[0])
    if loss in ("logistic", "hinge"):
        return np.where(rng.random(shape) < 0.5, -1.0, 1.0)
    if loss in ("poisson", "negative_binomial", "tweedie"):
        return rng.poisson(2.0, shape).astype(float)
    return rng.exponential(2.0, shape) if loss == "gamma" else rng.standard_normal(shape)


def finite_sum(rng, loss, storage="dense", dtype=np.float64, outputs=None, rich=None, n=None):
    """Return a finite sum; ``rich`` adds intercept, weights (one of them 0) and offset."""
    n = int(rng.integers(1, 90)) if n is None else n
    d = int(rng.integers(1, 40))
    rich = bool(rng.random() < 0.5) if rich is None else rich
    X = rng.standard_normal((n, d)).astype(dtype)
    if storage != "dense":
        X = sparse.csr_array(np.where(rng.random((n, d)) < 0.4, X, 0).astype(dtype))
        wide = np.int64 if storage == "int64" else np.int32
        X.indices, X.indptr = X.indices.astype(wide), X.indptr.astype(wide)
    outputs = 4 if loss == "multinomial" else outputs
    shape = (n,) if outputs is None else (n, outputs)
    weight = rng.random(n) + np.eye(n)[0]
    weight[-1] = 0.0 if n > 1 else 1.0
    return sa.FiniteSum(
        LOSSES[loss],
        X,
        targets(rng, loss, shape),
        weight if rich else None,
        intercept=rich,
        offset=rng.standard_normal(shape) if rich else None,
    )


def close(a, b, dtype, scale=1.0):
    atol = scale * (1e-11 if dtype == np.float64 else 3e-4)
    np.testing.assert_allclose(a, b, rtol=1e-11 if dtype == np.float64 else 3e-4, atol=atol)


def native(f2):
    from stochadmm.risk.views import data_view

    made = data_view(f2)
    if f2.storage == "csr":
        assert made.indices.dtype == f2.X.indices.dtype
    return made


STORAGE = pytest.mark.parametrize("storage", ["dense", "int32", "int64"])
DTYPE = pytest.mark.parametrize("dtype", [np.float64, np.float32])


# -------------------------------------------------------------------- passes


@compiled
@pytest.mark.parametrize("make", [np.asarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_compensated_sums_have_twice_the_precision(make, dtype):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 5)).astype(dtype)
    v = rng.standard_normal(300)
    v -= X @ np.linalg.lstsq(X.astype(np.float64), v, rcond=None)[0]  # sums that cancel
    exact = [
        sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(column, v, strict=True))
        for column in X.T
    ]
    exact = np.array(exact, dtype=object)

    def sums():
        high, low = np.zeros((2, 5))
        passes.compensated_adjoint(make(X), v, high, low)
        return np.stack([high, low])

    found = by_variant(sums)
    assert all((sums == found[0]).all() for sums in found)
    error = [
        abs(Fraction(h) + Fraction(lo) - e) for h, lo, e in zip(*found[0], exact, strict=True)
    ]
    size = np.abs(X.T.astype(np.float64)) @ np.abs(v)
    assert (np.array(error, dtype=float) <= (600 * np.finfo(float).eps) ** 2 * size).all()


@compiled
@STORAGE
@DTYPE
@pytest.mark.parametrize("loss", SINGLE)
@given(seed=SEEDS)
@few
def test_a_full_pass_equals_numpy(loss, storage, dtype, seed):
    rng = np.random.default_rng(seed)
    f2 = finite_sum(rng, loss, storage, dtype)
    x = 0.5 * rng.standard_normal(f2.shape).astype(dtype)
    z, u = np.empty(f2.n_terms, dtype), np.empty(f2.n_terms, dtype)
    gradient = np.zeros(f2.shape, dtype)
    value = passes.full_pass(native(f2), 0, f2.n_terms, x, z, u, gradient)
    f2.__dict__["compiled"] = False
    slow = f2.evaluate(x)
    close(value / f2.n_terms, slow.value, dtype)
    for fast, by_numpy in ((z, slow.predictions), (u, slow.derivative)):
        close(fast, by_numpy, dtype)
    close(gradient / f2.n_terms, slow.gradient, dtype)


@compiled
@STORAGE
@DTYPE
@given(seed=SEEDS)
@few
def test_passes_for_constants_equal_numpy(storage, dtype, seed):
    rng = np.random.default_rng(seed)
    f2 = finite_sum(rng, "squared", storage, dtype)
    made, d, n = native(f2), f2.n_columns, f2.n_terms
    A = (f2.X.toarray() if f2.storage == "csr" else f2.X).astype(float)
    A = np.column_stack([A, np.ones(n)]) if f2.intercept else A
    q = np.ones(n) if f2.weight is None else f2.weight.astype(float)
    weighted = f2.weight is not None
    v, z, out = rng.standard_normal(d).astype(dtype), np.empty(n, dtype), np.zeros(d, dtype)
    passes.gram_pass(made, 0, n, v, weighted, z, out)
    close(out, A.T @ (q * (A @ v)), dtype, scale=n)
    n_runs = int(rng.integers(1, n + 1))
    mean, largest, scores = np.zeros(d), np.zeros(d), np.empty(n)
    passes.column_energies(made, n_runs, weighted, mean, largest)
    squares, edges = q[:, None] * A**2, np.arange(n_runs + 1) * n // n_runs
    close(mean, squares.mean(axis=0), dtype)
    parts = [squares[a:b].mean(axis=0) for a, b in itertools.pairwise(edges)]
    close(largest, np.max(parts, axis=0), dtype)
    energy = rng.random(d) + 0.1
    passes.row_scores(made, weighted, 1 / energy, scores)
    close(scores, q * (A**2 / energy).sum(axis=1), dtype)


@compiled
@STORAGE
@DTYPE
def test_sparse_copies_and_gram_matrices_equal_numpy(storage, dtype):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((60, 17)) < 0.3, rng.standard_normal((60, 17)), 0).astype(dtype)
    made = passes.sparse_copy(X)
    np.testing.assert_array_equal(made.toarray(), X)
    assert made.has_canonical_format and made.dtype == dtype
    if storage == "int64":
        made.indices, made.indptr = made.indices.astype(np.int64), made.indptr.astype(np.int64)
    numbers, out = rng.random(60), np.zeros((18, 18))
    passes.sparse_gram(made, numbers, 3, 11, out)
    expected = np.zeros((18, 18))
    expected[3:11, :17] = np.tril(X.T @ (numbers[:, None] * X))[3:11]
    close(out, expected, dtype)


STORED = ["f4", "f8", "f2", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?"]


@compiled
@DTYPE
@given(seed=SEEDS)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_columns_beside_each_other_equal_numpy(dtype, seed):
    rng = np.random.default_rng(seed)
    n, d, first, more = (int(rng.integers(most)) for most in (300, 40, 3, 3))
    kinds = rng.choice(STORED, d) if rng.random() < 0.5 else [np.dtype(dtype).str] * d
    wide = [rng.integers(0, 2 if kind == "?" else 100, 2 * n + 1) for kind in kinds]
    columns = [w.astype(kind)[1 : n + 1] for w, kind in zip(wide, kinds, strict=True)]
    expected = np.full((n, first + d + more), -1, dtype)
    for k, column in enumerate(columns, first):
        expected[:, k] = column

    def written(by):
        out = np.full_like(expected, -1)
        by(columns, out, first)
        return out

    for out in (*by_variant(lambda: written(beside)), written(_numpy.beside)):
        np.testing.assert_array_equal(out, expected)


@compiled
@DTYPE
def test_squares_of_columns_equal_numpy(dtype):
    rng = np.random.default_rng(0)
    for n, d in ((1, 1), (7, 3), (1000, 37), (4, 5000)):
        X = rng.standard_normal((n, d)).astype(dtype)
        one, *others = by_variant(lambda X=X: squares(X))
        np.testing.assert_allclose(one, np.square(X, dtype=float).sum(axis=0), rtol=1e-13)
        for other in others:
            np.testing.assert_array_equal(one, other)


@compiled
@pytest.mark.parametrize("loss", ["logistic", "poisson"])
def test_exponentials_are_right_at_every_size_and_keep_nan(loss):
    z = np.concatenate([np.linspace(-800, 800, 4001), np.linspace(-1e-6, 1e-6, 101), [np.nan]])
    y = np.ones_like(z)
    f2 = sa.FiniteSum(LOSSES[loss], np.ones((z.size, 1)), y, offset=np.nan_to_num(z))
    made = dataclasses.replace(native(f2), offset=z)
    out, u = np.empty_like(z), np.empty_like(z)
    total = passes.full_pass(made, 0, z.size, np.zeros(1), out, u, np.zeros(1))
    with np.errstate(over="ignore"):
        expected = f2.loss.derivative(z, y)
    shift = y if loss == "poisson" else 0 * y  # its derivative is exp(z) - y
    np.testing.assert_allclose((u + shift)[:-1], (expected + shift)[:-1], rtol=1e-15, atol=4e-308)
    assert np.isnan(u[-1]) and np.isnan(total)


# -------------------------------------------------------------------- batches and dual rows


@compiled
@STORAGE
@DTYPE
@pytest.mark.parametrize("loss, outputs", [(name, None) for name in LOSSES] + [("huber", 3)])
@given(seed=SEEDS, single=st.booleans())
@few
def test_batch_gradients_equal_numpy(loss, outputs, storage, dtype, seed, single):
    rng = np.random.default_rng(seed)
    f2 = finite_sum(rng, loss, storage, dtype, outputs)
    n, made = f2.n_terms, native(f2)
    size = int(rng.integers(1, 20))
    runs = Runs.single(n, size) if single else Runs.blocks(n, size)
    batch = runs.draw(rng, 1)
    x, at = (0.4 * rng.standard_normal(f2.shape).astype(dtype) for _ in range(2))
    f2.__dict__["compiled"] = False
    anchored, out = Anchored.take(f2, runs, at), np.empty(f2.shape, dtype)
    sample = Sample(batch, runs.n_runs, runs.row_weight)
    old = anchored.at.derivative.copy()
    extension.core().batch_gradient(made.native, sample, x, old, False, out)
    close(out + anchored.full_gradient, anchored.estimate(batch[0], x), dtype, scale=10)
    np.testing.assert_array_equal(old, anchored.at.derivative)
    table = Table(f2, runs, old.copy(), anchored.full_gradient.copy())
    expected = table.estimate(batch[0], x)
    sample = Sample(batch, runs.n_runs, 1 / n)
    extension.core().batch_gradient(made.native, sample, x, old, True, out)
    close(anchored.full_gradient + out, expected, dtype)
    close(old, table.derivatives, dtype)


@compiled
@STORAGE
@DTYPE
@pytest.mark.parametrize("loss, outputs", [(name, None) for name in LOSSES] + [("huber", 3)])
@given(seed=SEEDS)
@few
def test_steps_of_dual_rows_equal_numpy(loss, outputs, storage, dtype, seed):
    rng = np.random.default_rng(seed)
    f2 = finite_sum(rng, loss, storage, dtype, outputs)
    n, made = f2.n_terms, native(f2)
    x = 0.4 * rng.standard_normal(f2.shape).astype(dtype)
    derivatives = f2.loss.derivative(f2.predict(0 * x), f2.y).astype(dtype)
    n_blocks = int(rng.integers(1, n + 1))
    block, sigma = int(rng.integers(n_blocks)), float(np.exp(rng.uniform(-4, 2))) / n
    rows = slice(block * n // n_blocks, (block + 1) * n // n_blocks)
    mine, out = derivatives.copy(), np.empty(f2.shape, dtype)
    expected = data_step(f2, rows, x, derivatives, sigma)
    extension.core().data_step(made.native, block, n_blocks, x, sigma, mine, out)
    tolerance = (
        {"rtol": 1e-7, "atol": 1e-8} if dtype == np.float64 else {"rtol": 2e-3, "atol": 2e-3}
    )
    np.testing.assert_allclose(mine, derivatives, **tolerance)
    np.testing.assert_allclose(out, expected, **tolerance)


# -------------------------------------------------------------------- penalties and operators


@compiled
@DTYPE
@pytest.mark.parametrize("loss, outputs", [(name, None) for name in SINGLE] + [("huber", 3)])
@given(seed=SEEDS)
@few
def test_the_dual_side_of_a_loss_equals_numpy(loss, outputs, dtype, seed):
    rng, name, loss = np.random.default_rng(seed), loss, LOSSES[loss]
    shape = (40,) if outputs is None else (40, outputs)
    y = targets(rng, name, shape)
    lower, upper = (np.broadcast_to(end, shape) for end in loss._dual_bounds(y))
    inside = np.clip(4 * rng.standard_normal(shape), lower, upper)
    eps = np.finfo(dtype).eps
    beyond = 1 + rng.choice([-8, -1, 0, 1, 8], shape) * eps  # around the ends, and on them
    u = rng.choice(
        [
            inside,
            np.where(np.isinf(upper), inside, upper) * beyond,
            np.where(np.isinf(lower), inside, lower) * beyond,
            9 * inside,
        ],
        axis=0,
    )
    u.flat[rng.integers(0, u.size)] = np.nan
    u = u.astype(dtype)
    size = rng.choice([0.0, 1e-15, 0.1], shape).astype(dtype)
    move = rng.standard_normal(shape).astype(dtype) * (rng.random(shape) < 0.8)
    calls = {
        "conjugate": lambda: loss.conjugate(u, y),
        "largest_conjugate": lambda: loss.largest_conjugate(u, size, y),
        "dual_step_limit": lambda: loss.dual_step_limit(u, move, y),
        "dual_margin": lambda: loss.dual_margin(u, size, y),
        "curvature": lambda: loss.curvature(3 * move, y),
    }
    for what, call in calls.items():
        ours, *others = by_variant(call)
        for other in others:
            np.testing.assert_array_equal(ours, other, err_msg=what)
        with engine("reference"):
            readable = call()
        assert ours.dtype == readable.dtype, what
        np.testing.assert_allclose(ours, readable, rtol=1e-13, atol=1e-14, err_msg=what)


@dataclasses.dataclass
class Terms:
    """A penalty that is nothing but its terms."""

    parts: list

    def terms(self, n_rows):
        return self.parts


def random_penalty(rng, columns, variation=True):
    parts = []
    for _ in range(rng.integers(0, 4)):
        kind, size = rng.integers(0, 3 if variation else 2), int(rng.integers(1, 9))
        if kind == 0:
            numbers = size * columns if rng.random() < 0.4 else size
            lo = np.where(rng.random(numbers) < 0.3, -rng.random(numbers), -np.inf)
            hi = np.where(rng.random(numbers) < 0.3, rng.random(numbers), np.inf)
            l1, l2 = rng.random((2, numbers)) * (rng.random((2, numbers)) < 0.7)
            parts.append(Elementwise(size, l1, l2, lo, hi))
        elif kind == 1:
            sizes = rng.integers(1, 5, size=int(rng.integers(1, 4)))
            parts.append(GroupNorms(sizes, 2 * rng.random(sizes.size)))
        else:
            parts.append(TotalVariation(size, float(rng.random())))
    rows = sum(p.size for p in parts) if parts else 5
    return Terms(parts), rows


@compiled
@DTYPE
@pytest.mark.parametrize("columns", [1, 2, 5])
@given(seed=SEEDS)
@settings(few, max_examples=40)
def test_proxes_equal_numpy(columns, dtype, seed):
    rng = np.random.default_rng(seed)
    penalty, rows = random_penalty(rng, columns)
    h = penalty_view(penalty, rows, columns, np.dtype(dtype))
    v = rng.standard_normal((rows, columns)).astype(dtype)
    out, expected, step = np.full_like(v, np.nan), np.empty_like(v), float(rng.random() + 0.01)
    extension.core().prox(h.native, v, step, out)
    _numpy.prox(h, v, step, expected)
    close(out, expected, dtype)


@compiled
@DTYPE
@pytest.mark.parametrize("columns", [1, 3])
@given(seed=SEEDS)
@few
def test_products_equal_numpy(columns, dtype, seed):
    rng = np.random.default_rng(seed)
    rows, d = rng.integers(1, 12, size=2)
    dense = np.where(rng.random((rows, d)) < 0.4, rng.standard_normal((rows, d)), 0)
    for A in (as_operator(sparse.csr_array(dense)), sa.Identity(int(d), scale=-2.0)):
        matrix = A.tosparse().toarray().astype(dtype)
        made = operator_view(A, np.dtype(dtype), int(d))
        for transposed, M in ((False, matrix), (True, matrix.T)):
            x = rng.standard_normal((M.shape[1], columns)).astype(dtype)
            out = np.full((M.shape[0], columns), np.nan, dtype)
            extension.core().multiply(made.native, transposed, x, out)
            close(out, M @ x, dtype)


@compiled
@DTYPE
@given(seed=SEEDS, n=st.integers(0, 60))
@few
def test_total_variation_equals_numpy(dtype, seed, n):
    rng = np.random.default_rng(seed)
    v = np.cumsum(rng.standard_normal((n, 2)), axis=0).astype(dtype)
    out, expected = np.empty_like(v), np.empty_like(v)
    threshold = float(rng.choice([0.0, 0.3, 5.0]))
    fuse_columns(v, threshold, out)
    _numpy.fuse_columns(v, threshold, expected)
    close(out, expected, dtype)


# -------------------------------------------------------------------- the small problem


def small_problem(rng, columns, variation=True):
    penalty, rows = random_penalty(rng, columns, variation)
    d = int(rng.integers(1, 13))
    S = np.where(rng.random((rows, d)) < 0.5, rng.standard_normal((rows, d)), 0)
    double = np.dtype(float)
    h = penalty_view(penalty, rows, columns, double)
    B = rng.standard_normal((d, d))
    return S, operator_view(as_operator(sparse.csr_array(S)), double, d), h, B @ B.T + np.eye(d)


@compiled
@pytest.mark.parametrize("columns", [1, 2, 5])
@given(seed=SEEDS)
@settings(few, max_examples=25)
def test_the_splitting_equals_numpy(columns, seed):
    rng = np.random.default_rng(seed)
    S, S_view, h, H = small_problem(rng, columns)
    rows, d = S.shape
    a, b = rng.standard_normal((d, columns)), rng.standard_normal((rows, columns))
    w, z, dual = np.zeros((d, columns)), rng.standard_normal(b.shape), rng.standard_normal(b.shape)
    penalty, relax = float(np.exp(rng.uniform(-2, 2))), 1.7
    inverse = np.linalg.inv(H + penalty * S.T @ S)
    mine = [x.copy() for x in (w, z, dual)]
    done, primal, stationary = splitting(
        Splitting(S_view, h, inverse, a, b, *mine, penalty, relax, 23, 10, 0.0, 1e-3, 1e-3)
    )
    for _ in range(23):
        w = inverse @ (S.T @ (penalty * (z + b) - dual) + a)
        image = S @ w - b
        exact = dual + penalty * (image - z)
        ahead = relax * image + (1 - relax) * z + dual / penalty
        z = np.empty_like(ahead)
        _numpy.prox(h, ahead, 1 / penalty, z)
        dual = penalty * (ahead - z)
    top = lambda x: np.abs(x).max(initial=0.0)  # noqa: E731
    for x, expected in zip(mine, (w, z, dual), strict=True):
        np.testing.assert_allclose(x, expected, rtol=1e-8, atol=1e-9)
    assert done == 23
    assert primal == pytest.approx(top(image - z) / max(top(z), 1e-3), rel=1e-6, abs=1e-9)
    augmented = max(top(S.T @ dual), 1e-3)
    assert stationary == pytest.approx(top(S.T @ (dual - exact)) / augmented, rel=1e-6, abs=1e-9)


@compiled
@given(seed=SEEDS)
@settings(few, max_examples=40)
def test_newtons_parts_equal_numpy(seed):
    rng = np.random.default_rng(seed)
    S, S_view, h, H = small_problem(rng, 1, variation=False)
    rows, d = S.shape
    b, dual = rng.standard_normal((2, rows, 1))
    w, penalty = rng.standard_normal((d, 1)), float(np.exp(rng.uniform(-1, 1)))
    found = []
    for by_numpy in (False, True):
        shifted, z, new, weight = (np.zeros((rows, 1)) for _ in range(4))
        at = Augmented(S_view, h, b, dual, penalty, w, shifted, z, new, weight)
        out = np.empty((d, d))
        if by_numpy:
            _numpy.augmented(at)
            _numpy.newton_matrix(H, S_view, h, shifted, weight, out)
        else:
            augmented(at)
            newton_matrix(H, S_view, h, shifted, weight, out)
        found.append((shifted, z, new, weight, np.tril(out)))
    for fast, slow in zip(*found, strict=True):
        np.testing.assert_allclose(fast, slow, rtol=1e-10, atol=1e-10)


# -------------------------------------------------------------------- the same bits everywhere


@compiled
@STORAGE
@DTYPE
@pytest.mark.parametrize("loss, outputs", [(name, None) for name in LOSSES] + [("huber", 3)])
def test_variants_give_the_same_bits_on_rows(loss, outputs, storage, dtype):
    rng = np.random.default_rng(5)
    f2 = finite_sum(rng, loss, storage, dtype, outputs, rich=True, n=203)
    runs = Runs.blocks(203, 17)
    made, batch = native(f2), runs.draw(rng, 1)
    x = 0.4 * rng.standard_normal(f2.shape).astype(dtype)

    def run():
        out, derivatives = np.empty(f2.shape, dtype), np.zeros((203, *f2.shape[1:]), dtype)
        sample, core = Sample(batch, runs.n_runs, 0.3), extension.core()
        found = []
        for renew in (False, True):
            core.batch_gradient(made.native, sample, x, derivatives, renew, out)
            found += [out.tobytes(), derivatives.tobytes()]
        core.data_step(made.native, 1, 3, x, 0.01, derivatives, out)
        found += [out.tobytes(), derivatives.tobytes()]
        if outputs is None and loss != "multinomial":
            z, u, g = np.empty(197, dtype), np.empty(197, dtype), np.zeros(f2.shape, dtype)
            value = passes.full_pass(made, 3, 200, x, z, u, g)
            found += [value, z.tobytes(), u.tobytes(), g.tobytes()]
            passes.gram_pass(made, 3, 200, x, True, z, g)
            found += [g.tobytes()]
        return found

    first, *others = by_variant(run)
    assert all(other == first for other in others)


METHODS = {
    "acc-sadmm": {},
    "svrg-admm": {},
    "asvrg-admm": {},
    "sag-admm": {},
    "stoc-admm": {},
    "opg-admm": {},
    "rda-admm": {},
    "opt-sadmm": {},
    "sdca-admm": {},
    "spdhg": {},
    "vr-pddy": {},
}


@compiled
@DTYPE
@pytest.mark.parametrize("name", METHODS)
def test_variants_give_the_same_bits_in_methods(name, dtype):
    rng = np.random.default_rng(2)
    X, d = rng.standard_normal((120, 9)).astype(dtype), 9
    y = np.where(rng.random(120) < 0.5, -1.0, 1.0)
    A = sa.VStack([sa.Differences(d), sa.Identity(d)])

    def run():
        p = sa.Problem.linear(sa.Logistic(), X, y, structure=A, on_structure=sa.L1(0.02))
        r = sa.minimize(p, name, engine="compiled", max_passes=12, stop=sa.Never())
        return r.coef.tobytes(), r.dual.tobytes(), r.objective

    first, *others = by_variant(run)
    assert all(other == first for other in others)


@compiled
@pytest.mark.parametrize("columns", [1, 5])
def test_variants_give_the_same_bits_in_the_small_problem(columns):
    def run():
        rng = np.random.default_rng(11)
        S, S_view, h, H = small_problem(rng, columns)
        a, b = rng.standard_normal((H.shape[0], columns)), rng.standard_normal((len(S), columns))
        w, z, dual = np.zeros_like(a), np.zeros_like(b), np.zeros_like(b)
        inverse = np.linalg.inv(H + S.T @ S)
        numbers = splitting(
            Splitting(S_view, h, inverse, a, b, w, z, dual, 1.0, 1.7, 40, 10, 1e-12, 1.0, 1.0)
        )
        return numbers, w.tobytes(), z.tobytes(), dual.tobytes()

    first, *others = by_variant(run)
    assert all(other == first for other in others)


# -------------------------------------------------------------------- the border


def whole_problem(**kwargs):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((20, 4)), rng.standard_normal(20)
    return sa.Problem.linear(
        sa.Squared(), X, y, structure=sa.Differences(4), on_structure=sa.L1(0.1), **kwargs
    )


@compiled
def test_arrays_that_do_not_fit_are_refused():
    f = view(whole_problem()).f
    good = {"x": np.zeros(4), "z": np.zeros(20), "u": np.zeros(20), "gradient": np.zeros(4)}
    passes.full_pass(f, 0, 20, **good)
    frozen = np.zeros(20)
    frozen.flags.writeable = False
    for name, wrong, error in (
        ("x", np.zeros(5), ValueError),
        ("z", np.zeros(19), ValueError),
        ("u", np.zeros(20, np.float32), TypeError),
        ("gradient", np.zeros(8)[::2], TypeError),
        ("z", frozen, TypeError),
        ("z", [0.0] * 20, TypeError),
    ):
        with pytest.raises(error, match=name):
            passes.full_pass(f, 0, 20, **{**good, name: wrong})
    for lo, hi in ((-1, 20), (0, 21), (5, 4)):
        with pytest.raises(ValueError, match="rows"):
            passes.full_pass(f, lo, hi, **good)


@compiled
def test_columns_that_do_not_fit_are_refused():
    out = np.zeros((3, 2))
    good = np.ones(3)
    for columns, first in (
        ([good, good, good], 0),
        ([good], 2),
        ([good], -1),
        ([np.ones(2)], 0),
        ([np.ones((3, 1))], 0),
        ([np.array(["a", "b", "c"])], 0),
        ([good * 1j], 0),
    ):
        with pytest.raises(ValueError, match=r"columns|rows"):
            beside(columns, out, first)
    with pytest.raises(TypeError, match="out"):
        beside([good], np.zeros((3, 2), dtype=int), 0)
    with pytest.raises(TypeError, match="out"):
        beside([good], np.zeros((2, 3)).T, 0)


@compiled
def test_unknown_codes_and_indices_out_of_bounds_are_refused():
    p = view(whole_problem())
    for loss in ("", "unheard of", "multinomial"):
        with pytest.raises(ValueError, match="loss"):
            dataclasses.replace(p.f, loss=loss)
    with pytest.raises(ValueError, match="unknown penalty term"):
        dataclasses.replace(p.h1, kinds=np.array([99]))
    with pytest.raises(ValueError, match="unknown operator"):
        dataclasses.replace(p.A2, kind=9)
    for name, at, wrong in (
        ("indices", 0, 4),
        ("indices", 0, -1),
        ("indptr", 1, 7),
        ("t_indices", 2, 3),
        ("indptr", 3, 100),
    ):
        broken = getattr(p.A2, name).copy()
        broken[at] = wrong
        with pytest.raises(ValueError, match="operator"):
            dataclasses.replace(p.A2, **{name: broken})
    with pytest.raises(ValueError, match="terms and groups"):
        dataclasses.replace(p.h1, starts=np.array([0, 9]))
    sparse_rows = sa.FiniteSum(sa.Squared(), sparse.csr_array(np.eye(4)), np.zeros(4)).view
    with pytest.raises(ValueError, match="column index"):
        dataclasses.replace(sparse_rows, indices=np.full(4, 4, np.int32))
    labels = sa.FiniteSum(sa.Multinomial(3), np.eye(4), [0, 1, 2, 0]).view
    with pytest.raises(ValueError, match="label"):
        dataclasses.replace(labels, y=np.full((4, 1), 3.0))


@compiled
def test_runs_out_of_bounds_are_refused():
    f, out = view(whole_problem()).f, np.zeros(4)
    for batch in ([[20]], [[-1]]):
        sample = Sample(np.array(batch), 20)
        with pytest.raises(ValueError, match="run"):
            extension.core().batch_gradient(f.native, sample, np.zeros(4), None, False, out)


def test_views_can_be_pickled_and_copied():
    problem = whole_problem()
    sa.minimize(problem, max_passes=5)
    made = view(problem)
    for other in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        np.testing.assert_array_equal(other.f.X, made.f.X)
        assert (other.native is None) == (not extension.available())
    again = pickle.loads(pickle.dumps(problem))
    assert sa.minimize(again, "acc-sadmm", max_passes=5).objective > 0


# -------------------------------------------------------------------- which code runs


@pytest.fixture
def fresh_choice():
    extension.chosen.cache_clear()
    yield
    extension.chosen.cache_clear()
    extension.chosen()


def test_numpy_can_be_asked_for(fresh_choice, monkeypatch):
    monkeypatch.setenv(extension.VARIABLE, "numpy")
    assert not extension.available()
    problem = whole_problem()
    assert sa.minimize(problem, "acc-sadmm", max_passes=5).info["engine"] == "reference"
    with pytest.raises(ValueError, match="STOCHADMM_KERNELS is 'numpy'"):
        sa.minimize(problem, "acc-sadmm", engine="compiled")
    with pytest.raises(extension.MissingKernels):
        extension.core()
    monkeypatch.setenv(extension.VARIABLE, "fortran")
    extension.chosen.cache_clear()
    with pytest.raises(ValueError, match="expected one of auto, avx2, base, numpy"):
        extension.chosen()


@compiled
def test_a_variant_can_be_asked_for(fresh_choice, monkeypatch):
    monkeypatch.setenv(extension.VARIABLE, "base")
    assert extension.chosen().name == "base"


@compiled
def test_an_extension_older_than_its_sources_is_not_used(
    fresh_choice, monkeypatch, tmp_path, caplog
):
    (tmp_path / "new.cpp").write_text("int changed;")
    monkeypatch.setattr(extension, "SOURCES", tmp_path)
    monkeypatch.delenv(extension.VARIABLE, raising=False)
    assert not extension.available()
    assert "older than their sources" in caplog.text and "make ext" in caplog.text


def test_the_fallback_solves_to_a_certificate(fresh_choice, monkeypatch):
    monkeypatch.setenv(extension.VARIABLE, "numpy")
    problem = whole_problem(intercept=True)
    assert sa.minimize(problem).relative_gap <= 1e-4
    fused = sa.Problem(problem.f2, h2=sa.TotalVariation1D(0.05))
    assert np.isfinite(sa.minimize(fused).objective)
