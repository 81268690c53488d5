"""The data term against plain NumPy, its constants against eigenvalues, its batches against it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import stochadmm as sa
from stochadmm.risk.finite_sum import FiniteSum
from stochadmm.risk.sampling import LONGEST_RUN, Runs

N, D, C = 37, 5, 3
LOSSES = {
    "squared": sa.Squared(),
    "unhalved": sa.Squared(half=False),
    "huber": sa.Huber(0.7),
    "quantile": sa.Quantile(0.3, 0.2),
    "logistic": sa.Logistic(),
    "hinge": sa.SquaredHinge(),
    "poisson": sa.Poisson(3.0),
    "multinomial": sa.Multinomial(C),
}


def data(
    loss="squared",
    *,
    n=N,
    d=D,
    storage="dense",
    outputs=None,
    weights=None,
    intercept=False,
    offset=False,
    dtype=np.float64,
    seed=0,
):
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n, d)) < 0.7, rng.standard_normal((n, d)), 0.0)
    X[3] = 0.0  # a row without entries
    shape = (n,) if outputs is None else (n, outputs)
    if loss in ("logistic", "hinge"):
        y = np.where(rng.random(shape) < 0.5, -1.0, 1.0)
    elif loss == "poisson":
        y = rng.poisson(1.0, shape).astype(float)
    elif loss == "multinomial":
        y, shape = rng.integers(C, size=n), (n, C)
    else:
        y = rng.standard_normal(shape)
    weight = None
    if weights is not None:
        weight = rng.uniform(0.0, 2.0, (n,) if weights == "rows" else shape)
        weight[::5] = 0.0
    X = X.astype(dtype)
    rows = sparse.csr_array(X) if storage == "csr" else X
    shift = rng.standard_normal(shape) if offset else None
    f2 = FiniteSum(LOSSES[loss], rows, y, weight, intercept=intercept, offset=shift)
    return f2, X.astype(np.float64), y, weight, shift


def plain(f2, X, y, weight, shift, x):
    """Value and gradient by the definition, term by term."""
    n = len(X)
    Z = np.column_stack([X, np.ones(n)]) if f2.intercept else X
    z = Z @ x if shift is None else Z @ x + shift
    loss = f2.loss
    derivative = loss.derivative(z, y)
    if weight is None:
        weight = np.ones(n)
    rows = weight if weight.ndim == 1 else weight.max(axis=1)
    q = weight * (n / rows.sum())
    if q.ndim == 2:
        terms = np.array([[loss.value(z[[i], c], y[[i], c]) for c in range(C)] for i in range(n)])
        return float((q * terms).sum()) / n, Z.T @ (q * derivative) / n
    terms = np.array([loss.value(z[[i]], y[[i]]) for i in range(n)])
    derivative = derivative * (q[:, None] if derivative.ndim == 2 else q)
    return float(q @ terms) / n, Z.T @ derivative / n


CASES = [
    (loss, None if loss != "multinomial" else C, weights)
    for loss in LOSSES
    for weights in (None, "rows")
] + [
    (loss, C, weights) for loss in ("squared", "logistic") for weights in (None, "rows", "entries")
]


@pytest.mark.parametrize(("loss", "outputs", "weights"), CASES)
@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize(("intercept", "offset"), [(False, False), (True, False), (True, True)])
def test_value_gradient_and_snapshot_equal_plain_numpy(
    loss, outputs, weights, storage, intercept, offset
):
    f2, *raw = data(
        loss, storage=storage, outputs=outputs, weights=weights, intercept=intercept, offset=offset
    )
    x = np.random.default_rng(1).standard_normal(f2.shape)
    value, gradient = plain(f2, *raw, x)
    assert f2.value(x) == pytest.approx(value, rel=1e-12)
    np.testing.assert_allclose(f2.gradient(x), gradient, rtol=1e-11, atol=1e-13)
    shot = f2.evaluate(x)
    assert shot.value == pytest.approx(value, rel=1e-12)
    np.testing.assert_array_equal(shot.x, x)
    np.testing.assert_allclose(shot.gradient, gradient, rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(shot.predictions, f2.predict(x), atol=1e-13)
    Z = np.column_stack([raw[0], np.ones(N)]) if intercept else raw[0]
    np.testing.assert_allclose(
        Z.T @ f2.weighted(shot.derivative) / N, gradient, rtol=1e-11, atol=1e-13
    )


def test_entry_weights_count_like_the_definition():
    """One weight per entry: a column of zeros leaves its output out."""
    f2, X, y, _, _ = data("squared", outputs=C)
    weight = np.ones((N, C))
    weight[:, 1] = 0.0
    part = FiniteSum(sa.Squared(), X, y, weight)
    x = np.random.default_rng(1).standard_normal(f2.shape)
    both = [FiniteSum(sa.Squared(), X, y[:, c]).value(x[:, c]) for c in (0, 2)]
    assert part.value(x) == pytest.approx(sum(both))
    assert (part.gradient(x)[:, 1] == 0).all()


@pytest.mark.parametrize("weights", [None, "rows"])
def test_doubling_a_weight_equals_repeating_the_row(weights):
    f2, X, y, weight, _ = data("logistic", weights=weights, intercept=True)
    twice = np.ones(N) if weight is None else weight.copy()
    twice[7] *= 2
    heavy = FiniteSum(f2.loss, X, y, twice, intercept=True)
    again = FiniteSum(
        f2.loss,
        np.vstack([X, X[[7]]]),
        np.append(y, y[7]),
        None if weight is None else np.append(weight, weight[7]),
        intercept=True,
    )
    x = np.random.default_rng(2).standard_normal(f2.shape)
    assert heavy.value(x) == pytest.approx(again.value(x), rel=1e-12)
    np.testing.assert_allclose(heavy.gradient(x), again.gradient(x), rtol=1e-11, atol=1e-14)


@pytest.mark.compiled
@pytest.mark.parametrize("loss", [name for name in LOSSES if name != "multinomial"])
@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize(("weights", "intercept"), [(None, False), ("rows", True)])
def test_the_compiled_pass_equals_the_numpy_pass(loss, storage, weights, intercept):
    f2, *_ = data(
        loss, n=9001, d=24, storage=storage, weights=weights, intercept=intercept, offset=intercept
    )
    assert f2.compiled
    x = 0.3 * np.random.default_rng(1).standard_normal(f2.shape)
    fast = f2.evaluate(x)
    f2.__dict__["compiled"] = False
    slow = f2.evaluate(x)
    assert fast.value == pytest.approx(slow.value, rel=1e-12)
    np.testing.assert_allclose(fast.predictions, slow.predictions, rtol=0, atol=1e-12)
    np.testing.assert_allclose(fast.derivative, slow.derivative, rtol=0, atol=1e-12)
    np.testing.assert_allclose(fast.gradient, slow.gradient, rtol=0, atol=1e-12)


def test_passes_over_several_outputs_are_not_compiled():
    assert not data("multinomial", n=9001, d=24)[0].compiled


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_float32_sums_are_accurate(storage):
    narrow, *raw = data("logistic", n=5000, storage=storage, dtype=np.float32, intercept=True)
    x = np.random.default_rng(1).standard_normal(narrow.shape).astype(np.float32)
    value, gradient = plain(narrow, *raw, x.astype(np.float64))
    shot = narrow.evaluate(x)
    assert shot.gradient.dtype == shot.predictions.dtype == np.float32
    assert shot.value == pytest.approx(value, rel=1e-6)
    np.testing.assert_allclose(shot.gradient, gradient, rtol=0, atol=5e-7)


@pytest.mark.parametrize(
    ("loss", "outputs", "weights"),
    [("logistic", None, "rows"), ("multinomial", None, "rows"), ("squared", C, "entries")],
)
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_exact_evaluations_of_float32_rows_are_those_of_the_same_rows_in_float64(
    loss, outputs, weights, storage
):
    kind = {"outputs": outputs, "weights": weights, "intercept": True, "n": 3000}
    narrow = data(loss, storage=storage, dtype=np.float32, **kind)[0]
    y = narrow.y.astype(np.float64) if narrow.y.dtype == np.float32 else narrow.y
    wide = FiniteSum(
        narrow.loss,
        narrow.X.astype(np.float64),
        y,
        narrow.weight.astype(np.float64),
        intercept=True,
    )
    x = np.random.default_rng(1).standard_normal(narrow.shape)
    at, expected = narrow.evaluate_exactly(x), wide.evaluate(x)
    # weights of entries stay as they were rounded; those of rows have mean one again
    unit = 1.0 if weights == "rows" else narrow.row_weight.mean(dtype=np.float64)
    for found, wanted in (
        (at.gradient, unit * expected.gradient),
        (at.predictions, expected.predictions),
        (at.derivative, expected.derivative),
    ):
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-13)
    assert at.value == pytest.approx(unit * expected.value, rel=1e-13)
    assert narrow.value_at(at.predictions) == pytest.approx(at.value, rel=1e-14)


def test_exact_predictions_of_an_intercept_alone_keep_its_digits():
    f2 = data(dtype=np.float32, intercept=True)[0]
    x = np.zeros(f2.shape)
    x[-1] = 1.0 / 3.0
    assert (f2.evaluate_exactly(x).predictions == 1.0 / 3.0).all()
    assert (f2.predict(x) == 1.0 / 3.0).all()


def test_an_exact_evaluation_that_is_known_costs_no_read():
    f2 = data("logistic")[0]
    x = np.random.default_rng(1).standard_normal(f2.shape)
    known = f2.evaluate(x)
    before = f2.rows.reads
    again = f2.evaluate_exactly(x, known)
    assert again.gradient is known.gradient and again.n_passes == 0 and f2.rows.reads == before
    for other in (f2.evaluate(2 * x), f2.evaluate(x, rows=False), None):
        before = f2.rows.reads
        at = f2.evaluate_exactly(x, other)
        assert at.n_passes == 1 and f2.rows.reads == before + 1
        np.testing.assert_array_equal(at.predictions, known.predictions)


def test_numbers_in_float32_are_never_taken_for_exact_ones():
    f2 = data("logistic", dtype=np.float32)[0]
    x = np.random.default_rng(1).standard_normal(f2.shape).astype(np.float32)
    assert f2.evaluate_exactly(x, f2.evaluate(x)).derivative.dtype == np.float64


# ---------------------------------------------------------------- constants


def hessian_bound(f2, X, weight):
    """The largest eigenvalue of the mean of c q_i a_i a_i', and of each term."""
    Z = np.column_stack([X, np.ones(len(X))]) if f2.intercept else X
    q = np.ones(len(X)) if f2.weight is None else f2.row_weight
    H = (Z * q[:, None]).T @ Z / len(X)
    bound = f2.loss.curvature_bound
    return bound * np.linalg.eigvalsh(H)[-1], bound * (q * (Z**2).sum(axis=1)).max()


@pytest.mark.parametrize("loss", ["squared", "unhalved", "logistic", "multinomial"])
@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize(("weights", "intercept"), [(None, False), ("rows", True)])
@pytest.mark.parametrize("d", [D, 150])
def test_lipschitz_constants_are_bounds_and_not_loose(loss, storage, weights, intercept, d):
    f2, X, _, weight, _ = data(loss, d=d, storage=storage, weights=weights, intercept=intercept)
    mean, largest = hessian_bound(f2, X, weight)
    assert mean <= f2.lipschitz_mean * (1 + 1e-12)
    assert f2.lipschitz_mean <= 1.02 * mean
    assert largest == pytest.approx(f2.lipschitz_max, rel=1e-9)
    assert f2.lipschitz_mean <= f2.lipschitz_max * (1 + 1e-9)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize(("weights", "intercept"), [(None, False), (None, True), ("rows", True)])
@pytest.mark.parametrize("n_runs", [1, 3, 7, 12, N])
def test_run_lipschitz_bounds_the_mean_over_every_run(storage, weights, intercept, n_runs):
    f2, X, _, _, _ = data("logistic", storage=storage, weights=weights, intercept=intercept)
    runs = Runs(N, n_runs, 1)
    bound = f2.run_lipschitz(runs)
    Z = np.column_stack([X, np.ones(N)]) if intercept else X
    q = np.ones(N) if f2.weight is None else f2.row_weight
    worst = 0.0
    for j in range(n_runs):
        rows = runs.rows(np.array([j]))
        H = (Z[rows] * q[rows, None]).T @ Z[rows] / len(rows)
        worst = max(worst, 0.25 * np.linalg.eigvalsh(H)[-1])
    assert worst <= bound * (1 + 1e-9)
    assert bound <= f2.lipschitz_max * (1 + 1e-12)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize(("weights", "intercept"), [(None, False), ("rows", True)])
@pytest.mark.parametrize("some", [False, True])
def test_gram_with_curvature_and_rows(storage, weights, intercept, some):
    f2, X, *_ = data("squared", storage=storage, weights=weights, intercept=intercept)
    Z = np.column_stack([X, np.ones(N)]) if intercept else X
    rows = np.array([1, 3, 8, 20, 36]) if some else None
    chosen = np.arange(N) if rows is None else rows
    curvature = np.random.default_rng(1).uniform(0.1, 1.0, len(chosen))
    q = np.ones(N) if f2.weight is None else f2.weight
    for c in (None, curvature):
        scale = (1.0 if c is None else c) * q[chosen]
        expected = (Z[chosen] * scale[:, None]).T @ Z[chosen] / len(chosen)
        np.testing.assert_allclose(f2.gram(c, rows), expected, rtol=1e-11, atol=1e-13)


def test_row_ranges_of_csr_data_share_memory_and_may_end_beyond_the_last_row():
    f2, X, *_ = data(storage="csr")
    block = f2.rows.take(slice(2, 9)).X
    np.testing.assert_array_equal(block.toarray(), X[2:9])
    assert np.shares_memory(block.data, f2.X.data)
    x = np.ones(D)
    np.testing.assert_allclose(f2.predict(x, slice(30, 1000)), X[30:] @ x)


# ---------------------------------------------------------------- batches


@pytest.mark.parametrize("n", [1, 7, 37, 101])
@pytest.mark.parametrize("batch_size", [1, 4, 9, 50])
@pytest.mark.parametrize("kind", ["single", "blocks"])
@pytest.mark.parametrize("weights", [None, "rows"])
def test_the_mean_over_all_runs_is_the_full_gradient(n, batch_size, kind, weights):
    f2, *_ = data("logistic", n=max(n, 5), weights=weights, intercept=True)
    n = f2.n_terms
    runs = getattr(Runs, kind)(n, min(batch_size, n))
    rng = np.random.default_rng(1)
    x, anchor = rng.standard_normal(f2.shape), f2.evaluate(rng.standard_normal(f2.shape))
    fresh, change = np.zeros(f2.shape), np.zeros(f2.shape)
    for j in range(runs.n_runs):
        rows = runs.rows(np.array([j]))
        weight = runs.row_weight * runs.per_batch * len(rows) / runs.n_runs
        fresh += weight * f2.gradient_rows(rows, x)
        change += weight * f2.gradient_change(rows, x, anchor)
    np.testing.assert_allclose(fresh, f2.gradient(x), rtol=1e-11, atol=1e-13)
    np.testing.assert_allclose(anchor.gradient + change, f2.gradient(x), rtol=1e-11, atol=1e-13)


@given(n=st.integers(1, 3000), batch=st.integers(1, 3000))
@settings(max_examples=200, deadline=None)
def test_runs_partition_the_rows_evenly(n, batch):
    batch = min(batch, n)
    for runs in (Runs.single(n, batch), Runs.blocks(n, batch)):
        every = [runs.rows(np.array([j])) for j in range(runs.n_runs)]
        np.testing.assert_array_equal(np.concatenate(every), np.arange(n))
        sizes = np.array([len(rows) for rows in every])
        assert sizes.max() - sizes.min() <= 1 and sizes.max() == runs.length
        assert runs.length <= 2 * LONGEST_RUN
        assert runs.per_batch >= 1 and runs.row_weight * runs.batch_size == pytest.approx(1.0)
        assert runs.batch_size <= 2 * batch + LONGEST_RUN and runs.batch_size >= batch / 2


@given(n=st.integers(1, 500), batch=st.integers(1, 500), seed=st.integers(0, 9))
@settings(max_examples=100, deadline=None)
def test_draws_are_runs_and_rows_follow_in_order(n, batch, seed):
    runs = Runs.blocks(n, min(batch, n))
    batches = runs.draw(np.random.default_rng(seed), 4)
    assert batches.shape == (4, runs.per_batch)
    assert batches.min() >= 0 and batches.max() < runs.n_runs
    for one in batches:
        rows = runs.rows(one)
        parts = [runs.rows(np.array([j])) for j in one]
        np.testing.assert_array_equal(rows, np.concatenate(parts))
        assert rows.max() < n


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_mostly_zero_dense_rows_are_worked_on_as_sparse_ones(dtype):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((4000, 120)) < 0.05, rng.standard_normal((4000, 120)), 0.0)
    X = X.astype(dtype)
    kept, y, x = X.copy(), rng.standard_normal(4000), rng.standard_normal(120).astype(dtype)
    made = FiniteSum(sa.Squared(), X, y)
    same = FiniteSum(sa.Squared(), sparse.csr_array(X), y)
    assert made.storage == "csr" and made.dtype == dtype
    assert made.X.has_canonical_format and (made.X != same.X).nnz == 0
    assert "95 % of X are zeros" in made.notes[0]
    np.testing.assert_array_equal(made.gradient(x), same.gradient(x))
    np.testing.assert_array_equal(X, kept)
    full = FiniteSum(sa.Squared(), X + 1, y)
    assert full.storage == "dense" and full.X is not None and not full.notes


def test_nan_in_mostly_zero_rows_is_found():
    X = np.zeros((4000, 120))
    X[:, 0], X[17, 5] = 1.0, np.nan
    with pytest.raises(ValueError, match="row 17"):
        FiniteSum(sa.Squared(), X, np.zeros(4000))


def test_indices_are_checked_once_and_not_at_every_pass():
    f2 = data("logistic", storage="csr")[0]
    assert f2.view is f2.view or not f2.compiled
    x = np.zeros(f2.shape)
    before = f2.evaluate(x)
    np.testing.assert_array_equal(f2.evaluate(x).gradient, before.gradient)


def test_indices_that_were_changed_in_place_are_found_before_the_run():
    rng = np.random.default_rng(0)
    X = sparse.random_array((40, 6), density=0.5, rng=rng, format="csr")
    y = np.where(rng.random(40) < 0.5, -1.0, 1.0)
    problem = sa.Problem.linear(sa.Logistic(), X, y, on_coefficients=sa.L1(0.01))
    problem.f2.X.indices[3] = 1_000_000
    with pytest.raises(ValueError, match="1000000, expected 0 to 5"):
        sa.minimize(problem)
