"""The examples run, and their own parts are solved and certified like the library's."""

import runpy
from pathlib import Path

import numpy as np
import pytest

import stochadmm as sa

EXAMPLES = Path(__file__).parents[1] / "examples"


def solved(name):
    return runpy.run_path(str(EXAMPLES / name))["main"]()


def certified(problem, result):
    """The gap of the returned coefficients, by a certificate outside the solver."""
    x2 = result.coef if result.intercept is None else np.append(result.coef, result.intercept)
    found = [
        sa.certify(problem, sa.Pair(np.zeros(problem.shape1), x2), result.dual, strength=s)
        for s in ("scaled", "corrected")
    ]
    return min(c.relative(problem.objective_at_zero) for c in found)


@pytest.mark.parametrize(
    ("name", "tol"), [("own_loss.py", 1e-8), ("own_penalty.py", 1e-6), ("own_operator.py", 1e-8)]
)
def test_own_parts_are_solved_and_certified(name, tol, capsys):
    problem, result = solved(name)
    assert result.status is sa.Status.CONVERGED
    assert result.relative_gap <= tol
    assert certified(problem, result) <= 2 * tol
    assert "CONVERGED" in capsys.readouterr().out


def test_the_own_penalty_agrees_with_a_conic_solver():
    import cvxpy as cp

    problem, result = solved("own_penalty.py")
    x, c = cp.Variable(8), cp.Variable()
    z = problem.f2.X @ x + c
    loss = cp.sum(cp.logistic(-cp.multiply(problem.f2.y, z))) / problem.f2.n_terms
    model = cp.Problem(cp.Minimize(loss + 0.1 * cp.norm_inf(x)))
    model.solve(solver=cp.CLARABEL)
    assert result.objective == pytest.approx(model.value, rel=1e-5)


def test_the_own_operator_agrees_with_the_library_s():
    problem, result = solved("own_operator.py")
    first, second = np.triu_indices(8, k=1)
    same = sa.Problem.linear(
        sa.Squared(),
        problem.f2.X,
        problem.f2.y,
        on_structure=sa.L1(0.1),
        structure=sa.Incidence(np.column_stack([first, second]), 8),
    )
    assert result.objective == pytest.approx(sa.minimize(same, stop=1e-10).objective, rel=1e-7)


def test_the_own_loss_ignores_gross_errors():
    problem, result = solved("own_loss.py")
    plain = sa.Problem.linear(
        sa.Squared(),
        problem.f2.X,
        problem.f2.y,
        structure=sa.Differences(30),
        on_structure=sa.L1(0.05),
        intercept=True,
    )
    planted = sa.datasets.make_chain(400, 30, n_levels=4, noise=0.3, random_state=0).coef
    robust = np.abs(result.coef - planted).max()
    assert robust < 0.5 * np.abs(sa.minimize(plain).coef - planted).max()


def test_the_own_solver_agrees_with_the_default():
    problem, result = solved("own_solver.py")
    assert result.status is sa.Status.CONVERGED and result.relative_gap <= 1e-5
    assert result.objective == pytest.approx(sa.minimize(problem, stop=1e-8).objective, rel=1e-5)


def test_the_own_source_gives_the_answer_of_rows_in_memory():
    result, whole = solved("own_source.py")
    assert result.status is sa.Status.CONVERGED and result.relative_gap <= 1e-8
    assert result.objective == pytest.approx(whole.objective, rel=1e-8)
    np.testing.assert_allclose(result.coef, whole.coef, atol=1e-4)
