"""Sparse rows, many outputs, penalties of single entries: coordinate by coordinate."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.kernels.coordinates import Coordinates, coordinate_sweeps
from stochadmm.kernels.extension import available

cp = pytest.importorskip("cvxpy")
pytestmark = pytest.mark.skipif(not available(), reason="needs the compiled kernels")


def texts(n=160, d=60, classes=5, seed=0):
    """Return sparse rows whose classes depend on a few columns."""
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, d), density=0.07, rng=rng, format="csr")
    W = rng.standard_normal((d, classes)) * (rng.random((d, 1)) < 0.4)
    Z = 4 * (X @ W) + rng.gumbel(size=(n, classes))
    return X, Z.argmax(axis=1)


def solve(X, y, penalty, tol=1e-9, **given):
    problem = sa.Problem.linear(sa.Multinomial(), X, y, on_coefficients=penalty, **given)
    return sa.minimize(problem, "coordinate-newton", stop=sa.Gap(tol), max_passes=1000)


def independent(X, y, l1, weight=None, intercept=False, signs=False):
    """Return the optimal value by CVXPY."""
    n, d = X.shape
    classes = int(y.max()) + 1
    W, v = cp.Variable((d, classes)), cp.Variable(classes)
    Z = X.toarray() @ W + np.ones((n, 1)) @ cp.reshape(v, (1, classes), order="C")
    q = np.ones(n) if weight is None else weight * n / weight.sum()
    own = cp.sum(cp.multiply(np.eye(classes)[y], Z), axis=1)
    loss = cp.sum(cp.multiply(q, cp.log_sum_exp(Z, axis=1) - own)) / n
    held = [] if intercept else [v == 0]
    held += [W >= 0] if signs else []
    problem = cp.Problem(cp.Minimize(loss + cp.sum(cp.multiply(l1, cp.abs(W)))), held)
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_optimum_is_that_of_an_interior_point_method(intercept, weighted):
    X, y = texts()
    weight = np.random.default_rng(1).uniform(0.2, 2.0, len(y)) if weighted else None
    given = {"intercept": intercept} | ({"sample_weight": weight} if weighted else {})
    result = solve(X, y, sa.L1(0.01), **given)
    assert result.status.name == "CONVERGED"
    expected = independent(X, y, 0.01, weight, intercept)
    assert result.objective == pytest.approx(expected, rel=1e-6)
    assert result.objective - result.gap <= expected * (1 + 1e-7)


def test_every_entry_may_have_a_strength_of_its_own():
    X, y = texts()
    strength = np.random.default_rng(2).uniform(0.005, 0.03, (X.shape[1], 5))
    result = solve(X, y, sa.L1(1.0, weights=strength))
    assert result.status.name == "CONVERGED"
    assert result.objective == pytest.approx(independent(X, y, strength), rel=1e-6)


def test_signs_are_kept():
    X, y = texts()
    result = solve(X, y, sa.L1(0.01) + sa.NonNegative())
    assert result.status.name == "CONVERGED" and (result.x2 >= 0).all()
    assert result.objective == pytest.approx(independent(X, y, 0.01, signs=True), rel=1e-6)


def test_a_row_of_weight_two_is_a_row_twice():
    X, y = texts()
    weight = np.ones(len(y))
    weight[:40] = 2.0
    twice = sparse.csr_array(sparse.vstack([X, X[:40]]))
    once = solve(X, y, sa.L1(0.01), sample_weight=weight)
    again = solve(twice, np.concatenate([y, y[:40]]), sa.L1(0.01))
    assert once.objective == pytest.approx(again.objective, rel=1e-8)
    np.testing.assert_allclose(once.x2, again.x2, atol=1e-4)


def test_columns_and_classes_may_come_in_any_order():
    X, y = texts()
    rng = np.random.default_rng(3)
    columns, classes = rng.permutation(X.shape[1]), rng.permutation(5)
    one = solve(X, y, sa.L1(0.01), intercept=True)
    other = solve(X[:, columns], np.argsort(classes)[y], sa.L1(0.01), intercept=True)
    assert one.objective == pytest.approx(other.objective, rel=1e-8)
    np.testing.assert_allclose(one.coef[columns][:, classes], other.coef, atol=1e-4)


def test_entries_at_zero_are_exactly_zero_and_the_call_is_repeatable():
    X, y = texts()
    first, second = (solve(X, y, sa.L1(0.01)) for _ in range(2))
    assert 0 < np.count_nonzero(first.x2) < 0.7 * first.x2.size
    np.testing.assert_array_equal(first.x2, second.x2)
    np.testing.assert_array_equal(first.x2 == 0, solve(X, y, sa.L1(0.01), 1e-12).x2 == 0)


def test_huber_losses_of_several_targets_are_served_too():
    X, _ = texts()
    rng = np.random.default_rng(4)
    Y = X @ rng.standard_normal((X.shape[1], 3)) + rng.standard_t(2, (X.shape[0], 3))
    problem = sa.Problem.linear(sa.Huber(0.5), X, Y, on_coefficients=sa.L1(0.01), intercept=True)
    own = sa.minimize(problem, "coordinate-newton", stop=sa.Gap(1e-9), max_passes=1000)
    other = sa.minimize(problem, "working-set", stop=sa.Gap(1e-9), max_passes=1000)
    assert own.status.name == other.status.name == "CONVERGED"
    assert own.objective == pytest.approx(other.objective, rel=1e-8)


def test_auto_takes_it_for_many_outputs_held_one_by_one_and_says_so():
    X, y = texts(400, 300, 8)
    problem = sa.Problem.linear(sa.Multinomial(), X, y, on_coefficients=sa.L1(0.003))
    result = sa.minimize(problem, stop=sa.Gap(1e-6))
    assert result.info["route"] == "coordinate-newton" and "one by one" in result.info["reason"]
    assert result.status.name == "CONVERGED" and result.relative_gap <= 1e-6


def test_a_run_that_was_cut_short_says_so_and_bounds_what_is_left():
    X, y = texts()
    problem = sa.Problem.linear(sa.Multinomial(), X, y, on_coefficients=sa.L1(1e-3))
    cut = sa.minimize(problem, "coordinate-newton", stop=sa.Gap(1e-9), max_passes=3)
    done = sa.minimize(problem, "coordinate-newton", stop=sa.Gap(1e-9), max_passes=1000)
    assert done.status.name == "CONVERGED"
    assert cut.status.name != "CONVERGED" and cut.relative_gap > 1e-9
    assert cut.objective - cut.gap <= done.objective * (1 + 1e-9)


def test_a_start_is_gone_on_from():
    X, y = texts()
    problem = sa.Problem.linear(sa.Multinomial(), X, y, on_coefficients=sa.L1(0.01))
    cold = sa.minimize(problem, "coordinate-newton", stop=sa.Gap(1e-9))
    warm = sa.minimize(problem, "coordinate-newton", stop=sa.Gap(1e-9), start=cold.x2)
    assert warm.status.name == "CONVERGED" and warm.n_passes < cold.n_passes


@pytest.mark.parametrize(
    "given",
    [
        {"on_coefficients": sa.RowsL21(0.01)},
        {"on_coefficients": sa.L1(0.01), "structure": "differences"},
        {"on_coefficients": sa.L1(0.01, weights=np.arange(300.0).reshape(60, 5) % 7)},
    ],
    ids=["rows", "tied", "single entries free"],
)
def test_other_forms_are_refused_in_one_line(given):
    X, y = texts()
    if given.pop("structure", None):
        given |= {"structure": sa.Differences(60), "on_structure": sa.L1(0.01)}
    problem = sa.Problem.linear(sa.Multinomial(), X, y, **given)
    with pytest.raises(ValueError, match="coordinate-newton cannot serve") as error:
        sa.minimize(problem, "coordinate-newton")
    assert "\n" not in str(error.value)


def small_model(**changed):
    """Return a model of two columns and one output."""
    ones = np.ones(2)
    fields = {
        "indptr": np.array([0, 1, 2]),
        "indices": np.array([0, 1], dtype=np.int32),
        "data": ones.copy(),
        "c": np.ones((1, 2)),
        "s": None,
        "starts": np.array([0, 2]),
        "columns": np.array([0, 1]),
        "gradient": np.array([-3.0, 0.5]),
        "bend": ones,
        "l1": ones,
        "l2": np.zeros(2),
        "lo": -np.inf * ones,
        "hi": np.inf * ones,
        "w": np.zeros(2),
        "tol": 1e-12,
        "most": 10,
        "inner": 3,
    }
    return Coordinates(**(fields | changed))


def test_separate_columns_are_soft_thresholded_by_one_sweep():
    model = small_model()
    swept = coordinate_sweeps(model)
    np.testing.assert_array_equal(model.w, [2.0, 0.0])
    assert swept.worst == 0 and swept.sweeps <= 3 and swept.square == 4.0


def test_nearly_dependent_columns_need_fewer_sweeps_where_these_are_extrapolated():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 1)) + 0.3 * rng.standard_normal((60, 20))
    g, none, sweeps = X.T @ rng.standard_normal(60), np.zeros(20), []
    for outputs in (1, 2):  # a second one without coefficients: sweeps alone
        model = small_model(
            indptr=60 * np.arange(21),
            indices=np.tile(np.arange(60, dtype=np.int32), 20),
            data=X.T.ravel(),
            c=np.ones((outputs, 60)),
            starts=np.array([0, 20, 20][: outputs + 1]),
            columns=np.arange(20),
            gradient=g,
            bend=(X**2).sum(axis=0),
            l1=none,
            l2=none,
            lo=none - np.inf,
            hi=none + np.inf,
            w=none.copy(),
            tol=1e-8,
            most=10_000,
            inner=10,
        )
        swept = coordinate_sweeps(model)
        np.testing.assert_allclose(X.T @ (X @ model.w), -g, atol=1e-7)
        np.testing.assert_allclose(swept.square, np.sum((X @ model.w) ** 2), rtol=1e-9)
        sweeps.append(swept.sweeps)
    assert 3 * sweeps[0] < sweeps[1]


@pytest.mark.parametrize(
    "changed",
    [
        {"columns": np.array([0, 2])},
        {"indices": np.array([0, 2], dtype=np.int32)},
        {"starts": np.array([0, 3])},
        {"bend": np.ones(3)},
        {"c": np.ones((2, 2))},
    ],
)
def test_arrays_that_do_not_fit_are_refused(changed):
    with pytest.raises(ValueError, match=r"range|outside|shape"):
        coordinate_sweeps(small_model(**changed))
