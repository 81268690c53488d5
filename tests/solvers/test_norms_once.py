"""A run works out norms, sparse forms and what it asks of all rows once, however long it is."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.base.validation import Unsuitable
from stochadmm.base.workspace import Workspace
from stochadmm.operators import Identity, Incidence, VStack, squared_norm
from stochadmm.risk import finite_sum
from stochadmm.solvers import defaults


class Counted(VStack):
    """Counts what is asked of it."""

    asked: ClassVar[Counter[str]] = Counter()

    @property
    def norm2(self):
        self.asked["norm2"] += 1
        return super().norm2

    def tosparse(self):
        self.asked["tosparse"] += 1
        return super().tosparse()


def asked_in(solver, max_passes):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 8))
    y = np.where(X[:, 0] + rng.standard_normal(60) > 0, 1.0, -1.0)
    A = Counted([Incidence([(0, 1), (1, 2), (3, 4)], 8), Identity(8)])
    problem = sa.Problem.linear(sa.Logistic(), X, y, structure=A, on_structure=sa.L1(0.05))
    Counted.asked.clear()
    result = sa.minimize(problem, solver, stop=sa.Never(), max_passes=max_passes)
    return result.n_epochs, dict(Counted.asked)


@pytest.mark.parametrize("solver", sa.solvers.names())
def test_no_method_asks_for_a_norm_or_a_sparse_form_in_every_epoch(solver):
    try:
        n_epochs, asked = asked_in(solver, 90)
    except Unsuitable:
        pytest.skip("the method cannot serve the problem")
    assert asked.get("norm2", 0) <= 1
    # the sparse form is needed in several places, certificates included, in each of them once
    assert asked["tosparse"] <= 7
    if solver in ("acc-sadmm", "linearized-admm"):
        assert asked["norm2"] == 1
        assert n_epochs >= 15


@pytest.mark.parametrize("solver", sa.solvers.names())
def test_runs_on_the_same_rows_share_what_methods_ask_of_them_first(solver, monkeypatch):
    asked = Counter()

    def counting(name):
        genuine = getattr(finite_sum, name)

        def counted(*parts):
            asked[name] += 1
            return genuine(*parts)

        monkeypatch.setattr(finite_sum, name, counted)

    counting("mean_constant")
    counting("run_constant")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 8))
    y = np.where(X[:, 0] + rng.standard_normal(300) > 0, 1.0, -1.0)
    penalty = {"on_coefficients": sa.L1(0.05)}
    if solver != "katyusha":
        penalty = {"structure": Incidence([(0, 1), (3, 4)], 8), "on_structure": sa.L1(0.05)}
    problem = sa.Problem.linear(sa.Logistic(), X, y, **penalty)
    workspace, method = Workspace(), sa.solvers.get(solver)()
    if not method.serves(problem):
        pytest.skip("the method cannot serve the problem")
    method.start(problem, workspace=workspace)
    before = problem.f2.rows.reads
    method.start(problem, workspace=workspace.same_rows())
    again = problem.f2.rows.reads - before
    assert all(count == 1 for count in asked.values())
    # the pass at the start, its derivatives; of a graph the levels are fitted too
    assert again <= (2 if solver != "tied-newton" else 5)


def test_a_run_within_a_budget_of_memory_keeps_no_gradient_of_its_start():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((50, 8)), rng.standard_normal((50, 20))
    problem, workspace = sa.Problem(sa.FiniteSum(sa.Squared(), X, Y)), Workspace()
    kept = [defaults.gradient_at_zero(problem, workspace) for _ in range(2)]
    assert kept[0] is kept[1]
    light = sa.Problem(problem.f2.with_memory(1000))
    again = [defaults.gradient_at_zero(light, workspace) for _ in range(2)]
    assert again[0] is not again[1]
    np.testing.assert_array_equal(again[0], kept[0])


def test_stating_a_problem_computes_no_norm():
    A = Counted([Identity(3)])
    Counted.asked.clear()
    sa.Problem.linear(sa.Squared(), np.eye(3), np.ones(3), structure=A, on_structure=sa.L1(0.1))
    assert Counted.asked["norm2"] == 0


def test_runs_that_share_a_workspace_share_the_norm():
    A, shared = Counted([Identity(3)]), Workspace()
    Counted.asked.clear()
    assert squared_norm(A, shared.run()) == squared_norm(A, shared.run()) == pytest.approx(1.0)
    assert Counted.asked["norm2"] == 1
    assert squared_norm(None, shared) == 0.0
