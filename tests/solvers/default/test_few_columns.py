"""Many columns in one compiled call, against other ways to the same answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import ElasticNet, Lasso, LogisticRegression
from tests.targets import with_targets
from tests.variants import by_variant

import stochadmm as sa
from stochadmm.base.clock import Deadline
from stochadmm.base.workspace import Workspace
from stochadmm.forms.few_columns import ColumnLimits, column_form
from stochadmm.kernels.extension import available
from stochadmm.solvers import FewColumns

pytestmark = pytest.mark.skipif(not available(), reason="few-columns needs compiled kernels")

LOSSES = ("squared", "logistic", "huber", "squared_hinge", "poisson", "quantile")


def data(loss: str, seed: int = 0, n: int = 60, d: int = 300, together: float = 0.5):
    """Return a loss, rows with columns that go together, and targets."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    for j in range(1, d):
        X[:, j] = together * X[:, j - 1] + np.sqrt(1 - together**2) * X[:, j]
    score = X[:, :60:10] @ np.array([1.0, -1.0, 0.5, 2.0, -0.5, 1.0])
    score += 0.5 * rng.standard_normal(n)
    signs, counts = np.sign(score), rng.poisson(np.exp(np.clip(0.5 * score, -2, 2))).astype(float)
    return with_targets(loss, X, score, signs, counts)


def agrees(problem: sa.Problem, stop: float = 1e-9, solver=None) -> sa.Result:
    """Solve, and compare with another method."""
    found = sa.minimize(problem, solver or "few-columns", stop=sa.Gap(stop))
    other = sa.minimize(problem, "working-set", stop=sa.Gap(1e-10), max_passes=20_000)
    assert found.converged and found.n_epochs == 1
    assert found.objective - found.gap <= other.objective + 1e-12 * (1 + abs(other.objective))
    assert found.objective <= other.objective + stop * (1 + abs(other.objective))
    return found


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_is_minimized(loss, intercept):
    f, X, y = data(loss)
    for strength in (0.1,) if loss == "quantile" else (0.1, 0.02):
        problem = sa.Problem.linear(f, X, y, intercept=intercept, on_coefficients=sa.L1(strength))
        found = sa.minimize(problem, stop=sa.Gap(1e-7))
        assert found.converged
        other = sa.minimize(problem, "working-set", stop=sa.Gap(1e-7), max_passes=20_000)
        assert abs(found.objective - other.objective) <= 2e-7 * (1 + abs(other.objective))


def test_it_is_scikit_learns_lasso():
    f, X, y = data("squared")
    found = sa.minimize(
        sa.Problem.linear(f, X, y, on_coefficients=sa.L1(0.05)), stop=sa.Gap(1e-12)
    )
    known = Lasso(0.05, fit_intercept=False, tol=1e-14, max_iter=100_000).fit(X, y)
    assert found.info["route"] == "few-columns"
    np.testing.assert_allclose(found.coef, known.coef_, atol=1e-9)
    assert set(np.flatnonzero(found.coef)) == set(np.flatnonzero(known.coef_))


def test_it_is_scikit_learns_elastic_net_with_bounds():
    f, X, y = data("squared")
    h = sa.Separable(0.03, 0.02, 0.0)
    found = sa.minimize(
        sa.Problem.linear(f, X, y, on_coefficients=h), "few-columns", stop=sa.Gap(1e-10)
    )
    known = ElasticNet(
        0.05, l1_ratio=0.6, fit_intercept=False, positive=True, tol=1e-14, max_iter=100_000
    ).fit(X, y)
    assert found.converged and (found.coef >= 0).all()
    np.testing.assert_allclose(found.coef, known.coef_, atol=1e-8)


def test_it_is_scikit_learns_logistic_regression():
    _, X, y = data("logistic", n=100, together=0.9)
    alpha, n = 0.02, len(y)
    found = sa.SparseLogisticClassifier(alpha=alpha, tol=1e-7).fit(X, y)
    assert found.result_.converged
    known = LogisticRegression(
        l1_ratio=1.0, C=1 / (alpha * n), solver="saga", tol=1e-10, max_iter=100_000
    ).fit(X, y)

    def objective(model):
        z = model.decision_function(X)
        return np.logaddexp(0, -y * z).mean() + alpha * np.abs(model.coef_).sum()

    assert abs(objective(found) - found.result_.objective) <= 1e-12
    assert abs(objective(found) - objective(known)) <= 1e-8
    np.testing.assert_allclose(found.coef_.ravel(), known.coef_.ravel(), atol=1e-4)


def test_a_weight_of_two_is_a_row_twice_and_units_do_not_matter():
    _, X, y = data("logistic", n=80)
    weight = np.random.default_rng(3).integers(0, 3, 80)
    weighted = sa.SparseLogisticClassifier(alpha=0.02, tol=1e-10).fit(X, y, sample_weight=weight)
    again = np.repeat(np.arange(80), weight)
    repeated = sa.SparseLogisticClassifier(alpha=0.02, tol=1e-10).fit(X[again], y[again])
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-9)
    units = np.geomspace(1e-4, 1e4, 300)
    plain = sa.minimize(sa.Problem.linear(sa.Logistic(), X, y, on_coefficients=sa.L1(0.02)))
    scaled = sa.minimize(
        sa.Problem.linear(sa.Logistic(), X * units, y, on_coefficients=sa.Separable(0.02 * units))
    )
    assert plain.converged and scaled.converged
    assert abs(plain.objective - scaled.objective) <= 2e-4 * plain.objective


@pytest.mark.parametrize("intercept", [False, True])
def test_weights_offset_and_columns_without_a_penalty(intercept):
    f, X, y = data("logistic", n=80, together=0.9)
    rng = np.random.default_rng(1)
    weight, offset = rng.uniform(0, 2, 80), 0.3 * rng.standard_normal(80)
    weight[:5] = 0
    l1 = np.full(300, 0.03)
    l1[[3, 170]] = 0
    f2 = sa.FiniteSum(f, X, y, sample_weight=weight, offset=offset, intercept=intercept)
    h2 = sa.Separable(np.append(l1, 0.0) if intercept else l1)
    found = agrees(sa.Problem(f2, h2=h2))
    kept = weight > 0
    fewer = sa.FiniteSum(
        f, X[kept], y[kept], sample_weight=weight[kept], offset=offset[kept], intercept=intercept
    )
    # rows without weight count in neither, so that both means are weighted ones
    other = sa.minimize(sa.Problem(fewer, h2=h2), "few-columns", stop=sa.Gap(1e-9))
    assert abs(found.objective - other.objective) <= 1e-7


def test_an_identity_before_the_penalty_is_the_same_problem():
    f, X, y = data("squared")
    plain = sa.minimize(sa.Problem.linear(f, X, y, on_coefficients=sa.L1(0.05)), "few-columns")
    split = sa.Problem.linear(f, X, y, structure=sa.Identity(300), on_structure=sa.L1(0.05))
    found = sa.minimize(split, "few-columns", stop=sa.Gap(1e-9))
    assert found.converged and found.feasibility == 0
    np.testing.assert_array_equal(found.coef, plain.coef)
    assert np.abs(found.dual).max() <= 0.05 * (1 + 1e-9)


def test_sparse_rows_and_single_precision():
    f, X, y = data("squared")
    X[np.abs(X) < 1] = 0
    dense = agrees(sa.Problem.linear(f, X, y, on_coefficients=sa.L1(0.05)))
    rows = sa.Problem.linear(f, sparse.csr_array(X), y, on_coefficients=sa.L1(0.05))
    np.testing.assert_allclose(agrees(rows).coef, dense.coef, atol=1e-12)
    single = sa.Problem.linear(
        f, X.astype(np.float32), y.astype(np.float32), on_coefficients=sa.L1(0.05)
    )
    found = sa.minimize(single, "few-columns", stop=sa.Gap(1e-5))
    assert found.converged and found.coef.dtype == np.float32
    np.testing.assert_allclose(found.coef, dense.coef, atol=1e-5)


def test_equal_columns_columns_of_zeros_and_no_column_at_all():
    f, X, y = data("squared")
    X[:, 50:100] = X[:, :50]
    X[:, 200:220] = 0
    found = agrees(sa.Problem.linear(f, X, y, on_coefficients=sa.L1(0.01)))
    assert not found.coef[200:220].any()
    nothing = sa.minimize(sa.Problem.linear(f, X, y, on_coefficients=sa.L1(1e3)), "few-columns")
    assert nothing.converged and not nothing.coef.any()


def test_a_start_is_used():
    f, X, y = data("logistic", n=100)
    problem = sa.Problem.linear(f, X, y, on_coefficients=sa.L1(0.02))
    first = sa.minimize(problem, "few-columns", stop=sa.Gap(1e-9))
    again = sa.minimize(problem, "few-columns", start=first, stop=sa.Gap(1e-9))
    assert again.n_passes < first.n_passes
    np.testing.assert_allclose(again.coef, first.coef, atol=1e-9)


def test_where_the_set_is_too_small_other_columns_leave_it_or_another_method_goes_on():
    f, X, y = data("squared", together=0.95)
    problem = sa.Problem.linear(f, X, y, on_coefficients=sa.L1(0.05))
    wide = sa.minimize(problem, "few-columns", stop=sa.Gap(1e-9))
    support = np.count_nonzero(wide.coef)
    tight = agrees(problem, solver=FewColumns(ColumnLimits(first=8, most=support + 10)))
    np.testing.assert_allclose(tight.coef, wide.coef, atol=1e-8)
    stuck = FewColumns(ColumnLimits(most=support // 2))
    assert not sa.minimize(problem, stuck, stop=sa.Gap(1e-9), max_passes=200).converged
    after = sa.minimize(problem, replace_route(stuck), stop=sa.Gap(1e-9))
    assert after.converged and after.info["route"] == "working-set"


def replace_route(stuck: FewColumns):
    """Return ``auto`` whose compiled call is a small one."""

    class Narrow(sa.Auto):
        def epoch(self, problem, state, rng):
            if state.n_epochs == 0:
                stuck.epoch(problem, state, rng)
            else:
                super().epoch(problem, state, rng)

    return Narrow()


def test_a_call_that_is_left_goes_on_to_the_same_answer():
    f, X, y = data("logistic", n=100, together=0.9)
    problem = sa.Problem.linear(f, X, y, on_coefficients=sa.L1(0.005))
    whole = sa.minimize(problem, "few-columns", stop=sa.Gap(1e-8))
    parts = sa.minimize(problem, FewColumns(ColumnLimits(work=1e5)), stop=sa.Gap(1e-8))
    assert whole.n_epochs == 1 and parts.n_epochs > 2 and parts.converged
    np.testing.assert_allclose(parts.coef, whole.coef, atol=1e-7)


def test_no_step_begins_after_a_deadline():
    f, X, y = data("squared")
    problem = sa.Problem.linear(f, X, y, on_coefficients=sa.L1(0.01))
    form = column_form(problem, Workspace())
    at, found = form.solve(np.zeros(300), ColumnLimits(), Deadline.after(0.0))
    assert found.late and found.n_steps == 0 and not at.w.any()


@pytest.mark.parametrize("most", [8, 2048])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("as_sparse", [False, True])
def test_rows_of_every_kind_are_read_as_they_are(as_sparse, dtype, intercept, most):
    rng = np.random.default_rng(0)
    n, d = 131, 67  # neither a whole number of blocks nor of vectors
    X = np.where(rng.random((n, d)) < 0.3, rng.standard_normal((n, d)), 0.0).astype(dtype)
    y, weight, offset = rng.standard_normal(n), rng.integers(0, 3, n), rng.standard_normal(n)
    rows = sparse.csr_array(X) if as_sparse else X
    problem = sa.Problem.linear(
        sa.Squared(),
        rows,
        y.astype(dtype),
        intercept=intercept,
        offset=offset.astype(dtype),
        sample_weight=weight.astype(dtype),
        on_coefficients=sa.L1(0.01),
    )
    form = column_form(problem, Workspace())
    start = rng.standard_normal(problem.shape2)  # more columns than a small set may have

    def once():
        at, found = form.solve(start, ColumnLimits(first=4, most=most))
        return (*(a.tobytes() for a in (at.w, at.z, at.u, at.gradient)), found)

    answers = by_variant(once)
    assert all(answer == answers[0] for answer in answers)
    at, found = form.solve(start, ColumnLimits(first=4, most=most))
    table = np.column_stack([X, np.ones(n)]) if intercept else X
    table, q = table.astype(float), weight / weight.mean()
    z = table @ at.w + offset.astype(dtype)
    u = z - y.astype(dtype)
    np.testing.assert_allclose(at.z, z, atol=1e-12)
    np.testing.assert_allclose(at.gradient, table.T @ (q * u) / n, atol=1e-12)
    np.testing.assert_allclose(found.value, 0.5 * np.mean(q * u**2), rtol=1e-12)
    assert found.rests == (most == 2048)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    loss=st.sampled_from(LOSSES),
    intercept=st.booleans(),
    strength=st.floats(-3, 0),
    shrink=st.floats(0, 0.1),
)
def test_bounds_are_sound_and_bits_do_not_depend_on_the_processor(
    seed, loss, intercept, strength, shrink
):
    f, X, y = data(loss, seed, n=25, d=61)
    problem = sa.Problem.linear(
        f, X, y, intercept=intercept, on_coefficients=sa.Separable(10**strength, shrink)
    )
    form = column_form(problem, Workspace())
    start = np.zeros(problem.shape2)

    def once():
        at, found = form.solve(start, ColumnLimits(first=8))
        return (*(a.tobytes() for a in (at.w, at.z, at.u, at.gradient)), found)

    answers = by_variant(once)
    assert all(answer == answers[0] for answer in answers)
    found = form.solve(start, ColumnLimits(first=8))[1]
    tight = sa.minimize(problem, stop=sa.Gap(1e-10), max_passes=5000)
    assert found.bound <= tight.objective + 1e-12 * (1 + abs(tight.objective))
    assert found.value + found.penalty >= tight.objective - tight.gap - 1e-12
    if shrink == 0 and not intercept:
        assert np.isfinite(found.bound)


def test_what_it_cannot_serve():
    f, X, y = data("squared")
    for problem, word in (
        (sa.Problem.linear(f, X, y, on_coefficients=sa.GroupL2(0.1, [3] * 100)), "one by one"),
        (
            sa.Problem.linear(f, X, y, structure=sa.Differences(300), on_structure=sa.L1(0.1)),
            "one by one",
        ),
        (sa.Problem.linear(f, X, y, on_coefficients=sa.Ridge(0.1)), "one by one"),
    ):
        reason = FewColumns().why_not(problem)
        assert reason is not None and word in reason
    problem = sa.Problem.linear(f, X, y, on_coefficients=sa.L1(0.1))
    reason = replace(FewColumns(), limits=ColumnLimits(numbers=1000)).why_not(problem)
    assert reason is not None and "too long" in reason
    rows = sa.Problem.linear(f, sparse.csr_array(X), y, on_coefficients=sa.L1(0.1))
    fewer = replace(FewColumns(), limits=ColumnLimits(sparse_numbers=1000))
    assert fewer.why_not(problem) is None
    reason = fewer.why_not(rows)
    assert reason is not None and "too long" in reason


@pytest.mark.parametrize("tol", [1e-4, 1e-10])
def test_an_estimator_needs_the_one_call(tol):
    _, X, y = data("logistic", n=100, together=0.9)
    result = sa.SparseLogisticClassifier(alpha=0.02, tol=tol).fit(X, y).result_
    assert result.info["route"] == "few-columns"
    assert result.n_epochs == 1
    assert result.relative_gap <= 1e-11
