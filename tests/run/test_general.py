"""The general two-block problem through ``minimize``: pairs, certificates and verdicts.

The problems and the conic truth are those of ``benchmarks/general.py``, which runs every method on
two hundred of them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import cvxpy as cp
import numpy as np
import pytest
from benchmarks import general
from scipy import sparse

import stochadmm as sa
from stochadmm.forms.smooth_term import SmoothTerm, as_penalty

NUMBERS = range(20)
ELSEWHERE = (
    "coordinate-newton few-columns katyusha low-rank-gram low-rank-newton streamed-newton".split()
)
"""Methods for other forms of problem, which serve none of these."""


@cache
def case(number):
    return general.case(number)


def two_blocks(A1, A2, b=None, *, seed=0, dtype=np.float64, **parts):
    rng = np.random.default_rng(seed)
    d = A2.shape[1]
    X = rng.standard_normal((60, d))
    y = np.where(X @ rng.standard_normal(d) + rng.standard_normal(60) > 0, 1.0, -1.0)
    f2 = sa.FiniteSum(sa.Logistic(), X.astype(dtype), y)
    return sa.Problem(f2, **({"h1": sa.L1(0.05)} | parts), A1=A1, A2=A2, b=b)


# ---------------------------------------------------------------- against a conic solver


@pytest.mark.parametrize("number", NUMBERS)
def test_auto_reaches_the_conic_optimum_and_claims_no_more(number):
    found = general.run(case(number), "auto", max_seconds=None)
    assert not found.wrong
    if number == 11:  # columns of the eliminated constraint cancel up to rounding only: no bound
        return
    assert found.status == "CONVERGED" and found.reached


@pytest.mark.parametrize("number", range(4, 10))
@pytest.mark.parametrize("method", ["acc-sadmm", "svrg-admm", "linearized-admm", "ladm-ne"])
def test_methods_claim_no_more_than_is_true(number, method):
    found = general.run(case(number), method, max_seconds=None)
    assert not found.wrong


@pytest.mark.parametrize("method", sa.solvers.names())
def test_a_method_serves_a_problem_or_refuses_it_in_words(method):
    """One pass each: nothing but ``Unsuitable`` may come out of a run."""
    served = 0
    for number in NUMBERS:
        try:
            result = sa.minimize(case(number).problem, method, stop=1e-12, max_passes=1)
        except sa.solvers.Unsuitable as refusal:
            assert method in str(refusal)
            continue
        served += 1
        assert np.isfinite(result.x2).all()
    assert served or method in ELSEWHERE


@pytest.mark.parametrize("method", ["auto", "acc-sadmm", "svrg-admm", "linearized-admm"])
@pytest.mark.parametrize("passes", [1, 10, 60])
def test_everything_reported_belongs_to_the_returned_pair(method, passes):
    p = case(22).problem
    result = sa.minimize(p, method, max_passes=passes, stop=1e-9)
    norm_b = np.linalg.norm(p.b)
    residual = np.linalg.norm(p.constraint(result.pair)) / (1 + norm_b)
    assert result.feasibility == pytest.approx(residual, abs=1e-13)
    assert result.objective == pytest.approx(p.objective(result.pair), rel=1e-12)
    assert result.gap >= 0 and result.objective - result.gap <= case(22).optimum * (1 + 1e-7)
    assert f"{result.feasibility:.2e}" in result.message
    np.testing.assert_array_equal(result.coef, result.x2)


# ---------------------------------------------------------------- the same problem in other words

ARRANGED = np.random.default_rng(5).standard_normal((6, 4))
SAME = {
    "operator": sa.Identity(6, scale=-1.0),
    "dense": -np.eye(6),
    "sparse": sparse.csr_array(-sparse.eye_array(6)),
    "matrix": sparse.coo_matrix(-np.eye(6)),
    "scaled": -1.0 * sa.Identity(6),
    "stored": sa.Matrix(-np.eye(6)),
}


@pytest.mark.parametrize("how", SAME)
def test_a_multiple_of_the_identity_is_recognized_however_it_is_written(how):
    p = two_blocks(SAME[how], ARRANGED)
    assert isinstance(p.A1, sa.Identity) and p.A1.scale == -1.0
    plain = two_blocks(sa.Identity(6, scale=-1.0), ARRANGED)
    np.testing.assert_array_equal(sa.minimize(p).coef, sa.minimize(plain).coef)


def test_what_only_looks_like_the_identity_is_not_taken_for_it():
    for A1 in (np.diag([1.0, 1.0, 2.0]), np.eye(3) + np.eye(3, k=1), np.zeros((3, 3))):
        p = two_blocks(A1, np.random.default_rng(0).standard_normal((3, 4)))
        assert not isinstance(p.A1, sa.Identity)


@pytest.mark.parametrize("flip", ["rotated", "exchanged", "repeated", "mixed"])
def test_the_model_and_an_equivalent_pair_have_the_same_answer(flip):
    rng = np.random.default_rng(3)
    model = two_blocks(sa.Identity(6, scale=-1.0), ARRANGED, h2=sa.Ridge(0.01))
    turn = np.linalg.qr(rng.standard_normal((6, 6)))[0]
    if flip == "rotated":
        A1, A2 = -turn, turn @ ARRANGED
    elif flip == "exchanged":
        A1, A2 = -np.eye(6)[::-1], ARRANGED[::-1]
    elif flip == "repeated":
        A1, A2 = -np.vstack([np.eye(6), turn]), np.vstack([ARRANGED, turn @ ARRANGED])
    else:
        M = rng.standard_normal((6, 6)) + 3 * np.eye(6)
        A1, A2 = -M, M @ ARRANGED
    pair = two_blocks(A1, A2, h2=sa.Ridge(0.01))
    right, found = sa.minimize(model, stop=1e-10), sa.minimize(pair, stop=1e-10)
    assert found.converged and found.feasibility <= 1e-13
    assert found.objective == pytest.approx(right.objective, rel=1e-9)
    np.testing.assert_allclose(found.coef, right.coef, atol=1e-5)
    np.testing.assert_allclose(found.x1, ARRANGED @ right.coef, atol=1e-5)


def test_a_smooth_function_of_x1_and_the_same_as_a_penalty_have_the_same_answer():
    A1, A2 = np.random.default_rng(1).standard_normal((2, 5, 5))
    smooth = general.Pull(np.zeros(5), 0.3)
    b = np.ones(5)
    written = two_blocks(A1, A2, b, h1=sa.L1(0.05), f1=smooth)
    proxed = two_blocks(A1, A2, b, h1=sa.L1(0.05) + sa.Ridge(0.3))
    left, right = sa.minimize(written, stop=1e-9), sa.minimize(proxed, stop=1e-9)
    assert left.converged and right.converged
    assert left.objective == pytest.approx(right.objective, rel=1e-8)


def test_a_bound_that_holds_a_smooth_function_back_is_reached():
    """The rows do not see what the constraint asks for: multipliers of x1 cancel each other."""
    rng = np.random.default_rng(2)
    A1, A2, M = (rng.standard_normal(shape) for shape in ((1, 3), (1, 4), (3, 3)))
    X = rng.standard_normal((60, 4))
    y = np.sign(X[:, 0] + rng.standard_normal(60))
    X[:, 3] = 0.0
    bend = general.Bend(M, M @ np.full(3, 2.0))
    data = sa.FiniteSum(sa.SquaredHinge(), X, y)
    result = sa.minimize(
        sa.Problem(data, h1=sa.Box(-0.4, 0.6), f1=bend, A1=A1, A2=A2), max_passes=20
    )
    x1, x2 = cp.Variable(3), cp.Variable(4)
    F = cp.sum_squares(cp.pos(1 - cp.multiply(y, X @ x2))) / 120
    F += 0.5 * cp.sum_squares(M @ (x1 - 2))
    limits = [A1 @ x1 + A2 @ x2 == 0, x1 >= -0.4, x1 <= 0.6]
    best = cp.Problem(cp.Minimize(F), limits).solve(cp.CLARABEL)
    assert result.converged and result.objective - best <= result.gap + 1e-7


@pytest.mark.parametrize("unseen", [False, True])
def test_a_constraint_that_leaves_the_data_no_choice_is_solved_for_the_other_block(unseen):
    """x2 is determined, but for a coefficient that neither rows nor constraint see."""
    rng = np.random.default_rng(7)
    A1 = np.vstack([rng.standard_normal((2, 6)), np.zeros((2, 6))])
    A2 = np.vstack([np.zeros((2, 3)), rng.standard_normal((2, 3))])
    A2[:, 2] = 0.0
    b = rng.standard_normal(4)
    p = two_blocks(A1, A2, b, h1=sa.ElasticNet(0.1, 0.6))
    X = p.f2.X * [1.0, 1.0, not unseen]
    p = replace(p, f2=sa.FiniteSum(sa.Logistic(), X, p.f2.y))
    result = sa.minimize(p, max_seconds=30)
    x1, x2 = cp.Variable(6), cp.Variable(3)
    F = cp.sum(cp.logistic(cp.multiply(-p.f2.y, X @ x2))) / 60
    F += 0.06 * cp.norm1(x1) + 0.02 * cp.sum_squares(x1)
    best = cp.Problem(cp.Minimize(F), [A1 @ x1 + A2 @ x2 == b]).solve(cp.CLARABEL)
    assert result.converged and result.objective - best <= result.gap + 1e-7


# ---------------------------------------------------------------- verdicts


@pytest.mark.parametrize("method", ["acc-sadmm", "svrg-admm", "linearized-admm"])
def test_an_infeasible_pair_is_never_called_converged(method):
    """Both domains leave little room, so that most pairs of the methods have a residual."""
    rng = np.random.default_rng(2)
    A1, A2 = rng.standard_normal((4, 3)), rng.standard_normal((4, 5))
    inside1, inside2 = np.full(3, 0.5), np.abs(rng.standard_normal(5))
    b = A1 @ inside1 + A2 @ inside2
    p = two_blocks(A1, A2, b, h1=sa.Box(0.0, 1.0), h2=sa.NonNegative())
    for passes in (3, 30, 300):
        result = sa.minimize(p, method, stop=1e-4, max_passes=passes)
        assert (result.x2 >= 0).all() and (result.x1 >= 0).all() and (result.x1 <= 1).all()
        residual = np.linalg.norm(p.constraint(result.pair)) / (1 + np.linalg.norm(b))
        assert result.feasibility == pytest.approx(residual, abs=1e-13)
        assert not result.converged or residual <= 1e-4


def test_a_constraint_without_a_feasible_pair_is_refused():
    A1, A2 = np.ones((3, 2)), np.ones((3, 4))
    p = two_blocks(A1, A2, np.array([1.0, 2.0, 3.0]))
    for method in ("auto", "acc-sadmm"):
        with pytest.raises(ValueError, match="has no solution"):
            sa.minimize(p, method, max_passes=50)


def test_nan_fails_every_comparison():
    record = sa.Record(1, 1.0, 1.0, 0.0, 0.0, 2.0, 0.0, np.nan, np.nan, np.nan, 3)
    assert not sa.Gap(1.0)(record) and not sa.Gap(1.0, relative=False)(record)
    assert not sa.Residuals(1.0)(record)
    assert not sa.Residuals(1.0)(replace(record, kkt_residual=0.0, feasibility=np.nan))


@pytest.mark.parametrize("loss", [sa.Logistic(), sa.Squared()])
@pytest.mark.parametrize("seed", range(4))
def test_float32_reports_the_array_it_returns(loss, seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((80, 6)) * 10.0 ** rng.integers(-2, 3, 6)
    y = np.sign(X[:, 0] + rng.standard_normal(80))
    p = sa.Problem.linear(
        loss,
        X.astype(np.float32),
        y,
        structure=sa.Differences(6),
        on_structure=sa.L1(0.01),
        on_coefficients=sa.L1(0.01),
        intercept=True,
    )
    exact = sa.Problem.linear(
        loss,
        X.astype(np.float32).astype(float),
        y,
        structure=sa.Differences(6),
        on_structure=sa.L1(0.01),
        on_coefficients=sa.L1(0.01),
        intercept=True,
    )
    best = sa.minimize(exact, stop=1e-13).objective
    for method in ("auto", "acc-sadmm"):
        for tol in (1e-3, 1e-6):
            result = sa.minimize(p, method, stop=tol, max_passes=100)
            x2 = np.append(result.coef, np.float32(result.intercept)).astype(float)
            value = exact.objective(exact.feasible(sa.Pair(exact.zeros().x1, x2)))
            assert result.objective == pytest.approx(value, rel=1e-13)
            assert result.gap >= value - best - 1e-12 * (1 + abs(value))
            assert result.converged == (result.relative_gap <= tol)


def test_a_limit_that_ends_a_run_at_the_answer_is_not_what_is_reported():
    p = two_blocks(sa.Identity(6, scale=-1.0), ARRANGED)
    passes = sa.minimize(p, "acc-sadmm", stop=1e-3).n_passes
    short = sa.minimize(p, "acc-sadmm", stop=1e-3, max_passes=passes)
    assert short.converged
    for limit in range(1, int(passes) + 3):
        found = sa.minimize(p, "acc-sadmm", stop=1e-3, max_passes=limit)
        assert found.converged == (found.relative_gap <= 1e-3)


@pytest.mark.parametrize("structure", [None, np.vstack([np.eye(5), np.eye(5, k=1)[:4]])])
@pytest.mark.parametrize("method", ["auto", "acc-sadmm", "svrg-admm"])
def test_returned_coefficients_are_inside_their_bounds_to_the_last_digit(structure, method):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 5))
    y = X @ np.array([1.0, -1.0, 0.5, -0.2, 0.0]) + 0.1 * rng.standard_normal(50)
    p = sa.Problem.linear(
        sa.Squared(), X, y, structure=structure, on_structure=sa.NonNegative(), intercept=True
    )
    for tol in (1e-2, 1e-5, 1e-9):
        result = sa.minimize(p, method, stop=tol, max_passes=200)
        assert (result.coef >= 0).all() and (result.x1 >= 0).all()


# ---------------------------------------------------------------- smooth functions as penalties


@pytest.mark.parametrize("which", ["pull", "bend", "softplus"])
def test_conjugate_and_prox_of_a_function_known_by_its_gradient(which):
    rng = np.random.default_rng(0)
    f1 = {
        "pull": general.Pull(rng.standard_normal(4), 0.7),
        "bend": general.Bend(rng.standard_normal((3, 4)), rng.standard_normal(3)),
        "softplus": Softplus(),
    }[which]
    term = as_penalty(f1, (4,))
    assert isinstance(term, SmoothTerm)
    for _ in range(10):
        x, v = rng.standard_normal((2, 4))
        g = f1.gradient(x)
        value = float(g @ x) - f1.value(x)  # Fenchel's equality
        assert value - 1e-12 <= term.conjugate(g) <= value + 1e-8
        step = float(np.exp(rng.standard_normal()))
        u = term.prox(v, step)
        np.testing.assert_allclose(step * f1.gradient(u) + u, v, atol=1e-9)


class Softplus:
    lipschitz = 0.25

    def value(self, x):
        return float(np.logaddexp(0, x).sum())

    def gradient(self, x):
        return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize("columns", [4, 30])
@pytest.mark.parametrize("h1", [None, sa.L1(0.1)])
def test_a_function_known_by_its_gradient_is_certified(columns, h1):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, columns))
    y = X[:, 0] + 0.1 * rng.standard_normal(60)
    p = two_blocks_of(Softplus(), X, y, h1)
    result = sa.minimize(p, stop=1e-6)
    x = cp.Variable(columns)
    F = cp.sum_squares(X @ x - y) / 120 + cp.sum(cp.logistic(x))
    best = cp.Problem(cp.Minimize(F if h1 is None else F + 0.1 * cp.norm1(x))).solve(cp.CLARABEL)
    assert result.converged and result.gap <= 1e-6 * result.objective
    assert result.objective - best <= result.gap + 1e-7


class Shallow:
    """The logarithm of a hyperbolic cosine, beside a bowl whose middle is far away."""

    lipschitz, derivative, far = 1.0, 5e-11, 1e8

    def value(self, x):
        bowl = self.derivative * self.far * np.hypot(1, x[1] / self.far - 1)
        return float(np.logaddexp(x[0], -x[0]) + bowl)

    def gradient(self, x):
        t = x[1] / self.far - 1
        return np.array([np.tanh(x[0]), self.derivative * t / np.hypot(1, t)])


def test_no_gap_is_told_where_a_solution_may_be_far_beyond_what_a_gradient_shows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2)) * [1.0, 0.0]
    p = two_blocks_of(Shallow(), X, X[:, 0] + 0.1 * rng.standard_normal(30), None)
    result = sa.minimize(p, stop=1e-6, max_passes=1, max_seconds=2)
    better = p.objective(sa.Pair(*([np.array([result.x1[0], 1e8])] * 2)))
    assert result.gap >= result.objective - better > 1e-3


def two_blocks_of(f1, X, y, h1):
    d = X.shape[1]
    data = sa.FiniteSum(sa.Squared(), X, y)
    return sa.Problem(data, h1=h1, f1=f1, A1=sa.Identity(d, scale=-1.0), A2=sa.Identity(d))


@pytest.mark.parametrize("unit", [1e-9, 1e-11, 1e-15])
@pytest.mark.parametrize("penalty", [None, sa.L1(0.05)])
def test_an_x1_without_a_function_sets_x2_free_whatever_its_units(unit, penalty):
    A1 = np.array([[unit, 0.0], [0.0, 1.0], [2.0 * unit, 1.0]])
    A2 = np.array([[1.0, 0.1, 0.0], [0.0, 1.0, 0.5], [2.0, 1.2, 1.0]])
    problem = two_blocks(A1, A2, np.array([1.0, 0.0, 2.5]), h1=None, h2=penalty)
    same = two_blocks(A1 / np.array([unit, 1.0]), A2, problem.b, h1=None, h2=penalty)
    found, best = (sa.minimize(each, stop=sa.Gap(1e-8)) for each in (problem, same))
    assert best.converged
    assert found.converged
    assert found.objective == pytest.approx(best.objective, rel=1e-7)
    np.testing.assert_allclose(found.x2, best.x2, atol=1e-4)


@pytest.mark.xfail(
    strict=False,
    reason="equal columns of an eliminated constraint are equal up to rounding only: no bound",
)
@pytest.mark.parametrize("unit", [1.0, 1e2, 1e3, 1e4])
def test_directions_of_x2_alone_are_told_apart_whatever_the_units_of_the_constraint(unit):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 5))
    X[:, 0] = X[:, 4]
    data = sa.FiniteSum(sa.Squared(), X, X @ rng.standard_normal(5) + rng.standard_normal(40))
    A1, A2 = unit * np.array([[1.0, 2.0, 2.0, 0.0, -1.0]]), np.array([[1.0, 2.0, -1.0, -1.0, 1.0]])
    problem = sa.Problem(data, h1=sa.ElasticNet(0.01 * unit, 0.3), A1=A1, A2=A2)
    assert sa.minimize(problem).converged
