"""Columns in any units: the same answer, certified, in the units of the user."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.forms import equilibrate
from stochadmm.forms.equilibrate import equilibrated


def lasso(scales, *, storage="dense", dtype=np.float64, loss=None, seed=0, **options):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((100, 3))
    z = X @ np.array([1.0, 0.5, -1.0])
    noise = 0.1 * rng.standard_normal(100)
    loss = sa.Squared() if loss is None else loss
    y = np.where(z + noise > 0, 1.0, -1.0) if isinstance(loss, sa.Logistic) else z + noise
    X = (X * scales).astype(dtype)
    X = sparse.csr_array(X) if storage == "csr" else X
    return sa.Problem.linear(
        loss, X, y, on_coefficients=sa.L1(0.1, weights=np.asarray(scales)), **options
    )


@pytest.mark.parametrize("solver", ["auto", "sampled-newton", "gram", "acc-sadmm", "admm"])
@pytest.mark.parametrize("spread", [1e6, 1e13, 1e16])
def test_units_of_columns_change_neither_answer_nor_certificate(solver, spread):
    scales = np.array([spread**0.5, 1.0, spread**-0.5])
    scales = 2.0 ** np.round(np.log2(scales))
    plain = sa.minimize(lasso(np.ones(3)), solver, stop=1e-6)
    other = sa.minimize(lasso(scales), solver, stop=1e-6)
    assert plain.status.name == other.status.name == "CONVERGED"
    exact = sa.minimize(lasso(np.ones(3)), stop=1e-12).objective
    assert other.gap >= other.objective - exact - 1e-13
    np.testing.assert_allclose(other.coef * scales, plain.coef, atol=2e-3)


@pytest.mark.parametrize("spread", [1.0, 1e6, 1e13, 1e16])
@pytest.mark.parametrize("strength", ["scaled", "corrected"])
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_no_certificate_is_above_the_optimum_in_any_units(spread, strength, storage):
    scales = np.array([spread**0.5, 1.0, spread**-0.5])
    problem = lasso(scales, storage=storage)
    optimum = sa.minimize(lasso(np.ones(3)), stop=1e-13).objective
    rng = np.random.default_rng(1)
    for size in (0.0, 1e-6, 1e-2, 1.0):
        x = np.array([0.9, 0.4, -0.9]) + size * rng.standard_normal(3)
        found = sa.certify(problem, sa.Pair(np.zeros(0), x / scales), strength=strength)
        assert found.bound <= optimum + 1e-13
        assert np.isfinite(found.bound)
        np.testing.assert_allclose(
            problem.objective(problem.feasible(found.point)), found.objective, rtol=1e-12
        )


def seconds(deviation, *, loss, storage="dense", dtype=np.float64, n=300):
    """Unix time beside standard normal columns, and the same with the time standardized."""
    rng = np.random.default_rng(0)
    standard, Z = rng.standard_normal(n), rng.standard_normal((n, 4))
    time = np.round(1.6e9 + deviation * standard)
    standard = (time - 1.6e9) / deviation
    eta = Z @ np.array([1.0, -1.0, 0.5, 0.0]) + standard
    if isinstance(loss, sa.Logistic):
        y = np.where(eta + rng.logistic(size=n) > 0, 1.0, -1.0)
    elif isinstance(loss, sa.Poisson):
        y = rng.poisson(np.exp(np.clip(0.4 * eta, -3.0, 2.0))).astype(float)
    else:
        y = eta + 0.3 * rng.standard_normal(n)
    problems = []
    for column, strength in ((time, 0.01 * deviation), (standard, 0.01)):
        X = np.column_stack([column, Z]).astype(dtype)
        h2 = sa.L1(1.0, weights=[strength, 0.01, 0.01, 0.01, 0.01])
        data = sparse.csr_array(X) if storage == "csr" else X
        problems.append(sa.Problem.linear(loss, data, y, on_coefficients=h2, intercept=True))
    return problems


@pytest.mark.parametrize("loss", [sa.Squared(), sa.Logistic(), sa.Poisson(3.5)], ids=str)
@pytest.mark.parametrize("deviation", [1e7, 1e3])
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_unix_seconds_beside_standard_normal_columns(loss, deviation, storage):
    raw, standard = seconds(deviation, loss=loss, storage=storage)
    result, reference = (sa.minimize(p, stop=1e-8) for p in (raw, standard))
    assert result.status.name == reference.status.name == "CONVERGED"
    assert result.objective == pytest.approx(reference.objective, rel=1e-8)
    coef = result.coef * np.array([deviation, 1.0, 1.0, 1.0, 1.0])
    np.testing.assert_allclose(coef, reference.coef, atol=1e-3)
    z = raw.f2.X @ result.coef + result.intercept
    z0 = standard.f2.X @ reference.coef + reference.intercept
    np.testing.assert_allclose(z, z0, atol=2e-3)
    assert "shifted" in result.info["units"]


def test_first_order_methods_see_the_same_units():
    raw, standard = seconds(1e5, loss=sa.Logistic())
    result, reference = (sa.minimize(p, "acc-sadmm", stop=1e-6) for p in (raw, standard))
    assert result.status.name == reference.status.name == "CONVERGED"


def test_well_scaled_data_are_left_alone(monkeypatch):
    assert equilibrated(lasso(np.array([30.0, 1.0, 0.01]))) is None
    assert "units" not in sa.minimize(lasso(np.ones(3))).info
    monkeypatch.setattr(equilibrate, "SPREAD", 10.0)
    assert equilibrated(lasso(np.array([30.0, 1.0, 0.01])))


def test_sparse_data_stay_sparse():
    rng = np.random.default_rng(0)
    X = sparse.random_array((200, 30), density=0.1, rng=rng, format="csr")
    X.data[X.indices == 3] *= 1e9
    problem = sa.Problem.linear(
        sa.Squared(), X, rng.standard_normal(200), on_coefficients=sa.L1(0.01), intercept=True
    )
    units = equilibrated(problem)
    assert units.problem.f2.storage == "csr" and units.problem.f2.X.nnz == X.nnz
    assert sa.minimize(problem).status.name == "CONVERGED"


PENALTIES = {
    "ridge": lambda d: dict(on_coefficients=sa.Ridge(0.1)),
    "bounds": lambda d: dict(on_coefficients=sa.Box(-0.5, 0.5)),
    "groups": lambda d: dict(on_coefficients=sa.GroupL2(0.1, [2, d - 2])),
    "ball": lambda d: dict(on_coefficients=sa.L2Ball(0.7)),
    "fused": lambda d: dict(structure=sa.Differences(d), on_structure=sa.L1(0.05)),
    "both": lambda d: dict(
        structure=sa.Differences(d), on_structure=sa.L1(0.05), on_coefficients=sa.RowsL21(0.01)
    ),
}


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("intercept", [False, True])
def test_penalties_see_the_coefficients_of_the_user(name, intercept):
    """Against a conic solver that is given the data as they are, in moderately bad units."""
    pytest.importorskip("cvxpy")
    from benchmarks.covering import conic_optimum

    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 5)) * np.array([1e4, 1.0, 1.0, 0.01, 1.0])
    y = X @ np.array([3e-4, 1.0, 0.5, 10.0, 0.0]) + 0.1 * rng.standard_normal(80)
    problem = sa.Problem.linear(sa.Squared(), X, y, intercept=intercept, **PENALTIES[name](5))
    assert equilibrated(problem) is not None
    result = sa.minimize(problem, stop=1e-9)
    assert result.status.name == "CONVERGED"
    assert result.objective == pytest.approx(conic_optimum(problem), rel=1e-6)
    assert result.x1.shape == problem.shape1 and result.dual.shape == problem.shape_dual
    x2 = np.append(result.coef, result.intercept) if intercept else result.coef
    point = problem.feasible(sa.Pair(np.zeros(problem.shape1), x2))
    assert problem.objective(point) == pytest.approx(result.objective, rel=1e-10)


def test_a_start_and_a_resumed_run_are_in_the_units_of_the_user():
    raw, _ = seconds(1e6, loss=sa.Logistic())
    first = sa.minimize(raw, "acc-sadmm", stop=1e-7, max_passes=10)
    whole = sa.minimize(raw, "acc-sadmm", stop=1e-7, max_passes=40)
    resumed = sa.minimize(raw, "acc-sadmm", stop=1e-7, max_passes=40, resume=first)
    np.testing.assert_array_equal(resumed.coef, whole.coef)
    again = sa.minimize(raw, sa.Auto("newton"), stop=1e-7, start=whole)
    assert again.status.name == "CONVERGED" and again.n_passes <= 5


def test_single_precision_has_the_gap_of_the_rounded_answer():
    raw, _ = seconds(1e7, loss=sa.Squared(), dtype=np.float32)
    result = sa.minimize(raw, stop=1e-6)
    x = np.append(result.coef, np.float32(result.intercept)).astype(np.longdouble)
    X = np.column_stack([raw.f2.X, np.ones(raw.f2.n_terms)]).astype(np.longdouble)
    value = float(0.5 * np.square(X @ x - raw.f2.y).mean()) + raw.h2.value(x.astype(float))
    assert result.objective == pytest.approx(value, rel=1e-9)
    assert (result.status.name == "CONVERGED") == (result.relative_gap <= 1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_reach_bounds_every_point_of_a_level_set(seed):
    rng = np.random.default_rng(seed)
    for h in (
        sa.L1(0.3, weights=rng.random(6) + 0.1),
        sa.ElasticNet(0.4, 0.5),
        sa.Ridge(0.2),
        sa.GroupL2(0.3, [2, 4]),
        sa.RowsL21(0.5),
        sa.Box(-1.0, 2.0),
        sa.L2Ball(1.5),
        sa.Separable(l1=0.1, l2=0.2, lower=0.0),
        sa.Stacked([(sa.L1(0.1), 3), (sa.Ridge(1.0), 3)]),
    ):
        size = rng.random(6)
        for x in rng.standard_normal((50, 6)) * 10.0 ** rng.integers(-2, 3, (50, 1)):
            x = h.project(x)
            assert size @ np.abs(x) <= h.reach(size, h.value(x)) * (1 + 1e-12)
    nuclear, X = sa.Nuclear(0.3), rng.standard_normal((4, 3))
    size = rng.random((4, 3))
    assert np.vdot(size, np.abs(X)) <= nuclear.reach(size, nuclear.value(X))


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", ["auto", "acc-sadmm"])
def test_columns_that_are_all_tiny_or_all_huge_have_the_answer_of_their_units(
    method, dtype, intercept
):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 5)).astype(dtype)
    y = np.where(X @ np.ones(5) + rng.standard_normal(80) > 0, 1.0, -1.0)

    def fitted(power):
        unit = 2.0**power
        problem = sa.Problem.linear(
            sa.Logistic(),
            X * dtype(unit),
            y,
            on_coefficients=sa.L1(0.01 * unit),
            intercept=intercept,
        )
        return sa.minimize(problem, method, stop=1e-4)

    plain = fitted(0)
    for power in (-100, -60, 60) if dtype is np.float32 else (-400, -100, 100, 400):
        found = fitted(power)
        assert found.converged
        assert abs(found.objective - plain.objective) <= found.gap + plain.gap
        assert np.isfinite(found.coef).all()


@pytest.mark.parametrize("intercept", [False, True])
def test_coefficients_beyond_the_numbers_are_not_called_an_answer(intercept):
    rng = np.random.default_rng(0)
    X = (1e-38 * rng.standard_normal((80, 5))).astype(np.float32)
    y = np.where(X.astype(float) @ np.ones(5) + 0.5e-38 * rng.standard_normal(80) > 0, 1.0, -1.0)
    problem = sa.Problem.linear(sa.Logistic(), X, y, on_coefficients=None, intercept=intercept)
    found = sa.minimize(problem)
    assert np.isfinite(found.coef).all()
    w = found.coef.astype(np.longdouble)
    z = X.astype(np.longdouble) @ w + (found.intercept if intercept else 0.0)
    assert abs(np.logaddexp(0, -y * z).mean() - found.objective) <= 1e-9
    assert not found.converged  # the best coefficients are above 3.4e38


@pytest.mark.parametrize("size", [1e-6, 1e-12, 2.2e-16, 1e-200])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(
    "estimator", [sa.FusedLassoRegressor, sa.TrendFilterRegressor, sa.OverlappingGroupRegressor]
)
def test_a_column_of_next_to_nothing_does_not_drown_the_ties_of_others(size, intercept, estimator):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6))
    y = X[:, 0] + 0.3 * rng.standard_normal(40)
    X[:, 3] = size
    model = estimator(0.05, fit_intercept=intercept, max_seconds=20).fit(X, y)
    X[:, 3] = 0.0
    zero = estimator(0.05, fit_intercept=intercept, max_seconds=20).fit(X, y)
    assert model.dual_gap_ < 1e-6
    assert model.result_.objective == pytest.approx(zero.result_.objective, rel=1e-5)
    np.testing.assert_allclose(model.predict(X), zero.predict(X), atol=1e-3)


def test_one_tiny_entry_among_the_rows_that_are_looked_at_is_no_matter_of_units():
    rng = np.random.default_rng(0)
    n, every = 8000, 8000 // equilibrate.SAMPLE
    X = sparse.random_array((n, 30), density=0.05, format="lil", rng=rng)
    X[::every, 0] = 0.0
    X[every, 0] = 1e-9  # all that a look at some of the rows finds of this column
    X = sparse.csr_array(X)
    y = np.asarray(X[:, [1]].toarray()).ravel() + 0.1 * rng.standard_normal(n)
    problem = sa.Problem.linear(sa.Squared(), X, y, on_coefficients=sa.L1(1e-4))
    units = equilibrated(problem)
    assert units is None or equilibrated(units.problem) is None
    assert sa.minimize(problem, stop=sa.Gap(1e-8)).converged


def test_sizes_of_rows_add_up_entries_that_are_given_twice_and_leave_the_matrix_alone():
    from stochadmm.operators import as_operator, row_sizes

    twice = sparse.csr_array(([2.0, -5.0, 1.0], [0, 0, 1], [0, 2, 2, 3]), shape=(3, 2))
    data = twice.data.copy()
    np.testing.assert_array_equal(row_sizes(as_operator(twice)), [3.0, 0.0, 1.0])
    np.testing.assert_array_equal(twice.data, data)
