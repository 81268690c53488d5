"""Every status, every cause of it by a real run, and the page that lists them."""

from __future__ import annotations

import re
import signal
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.base.workspace import Workspace
from stochadmm.run.monitor import why_no_bound
from stochadmm.solvers import State

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "stop-and-resume.md"


def problem(n=60, d=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.sign(X[:, 0] + rng.standard_normal(n))
    return sa.Problem.linear(
        sa.Logistic(), X, y, structure=sa.Differences(d), on_structure=sa.L1(0.02)
    )


def counts(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((10, 5))
    return X, rng.poisson(np.exp(0.5 * X @ rng.standard_normal(5))).astype(float)


def converged():
    return sa.minimize(problem())


def finer_than_rounding():
    X, y = counts(0)
    return sa.minimize(sa.Problem.linear(sa.Poisson.for_targets(y), X, y), stop=1e-15)


def nearly_equal_columns():
    rng = np.random.default_rng(0)
    x, r = rng.standard_normal((2, 50))
    X = np.c_[x, 2.54 * x]  # rounded products: dependent but for the last digit
    only_sum = {"structure": np.array([[1.0, 2.54]]), "on_structure": sa.L1(0.1)}
    return sa.Problem.linear(sa.Squared(), X, x + r, **only_sum)


@dataclass(frozen=True)
class Resting:
    """A method that stands where its steps no longer help, and has found no bound."""

    def start(self, problem, x=None, dual=None, workspace=None):
        zero = problem.zeros()
        return State(x=zero, output=zero, dual=problem.zeros_dual(), beta=1.0, settled=True)

    def epoch(self, problem, state, rng):
        state.n_epochs, state.n_passes = state.n_epochs + 1, state.n_passes + 1


def resting():
    return sa.minimize(nearly_equal_columns(), Resting())


def beyond_the_range():
    y = np.random.default_rng(0).gamma(0.5, size=60)
    return sa.minimize(sa.Problem.linear(sa.Gamma(1.5), np.ones((60, 1)), y))


def out_of_passes():
    return sa.minimize(problem(), "acc-sadmm", max_passes=3)


def out_of_time():
    return sa.minimize(problem(), "acc-sadmm", max_seconds=1e-9)


def out_of_epochs():
    return sa.minimize(problem(), "acc-sadmm", max_epochs=2)


def stopped():
    return sa.minimize(problem(), "acc-sadmm", callback=lambda record, state: True)


def interrupted():
    def press(record, state):
        signal.raise_signal(signal.SIGINT)

    return sa.minimize(problem(), "acc-sadmm", stop=sa.Never(), callback=press)


@dataclass(frozen=True)
class Diverging:
    """Gradient steps that are far too long."""

    def start(self, problem, x=None, dual=None, workspace=None):
        zero = problem.zeros()
        return State(x=zero, output=zero, dual=problem.zeros_dual(), beta=1.0)

    def epoch(self, problem, state, rng):
        x2 = (state.x.x2 + 1.0) * 1e200
        state.x = state.output = sa.Pair(state.x.x1, x2)
        state.n_epochs, state.n_passes = state.n_epochs + 1, state.n_passes + 1


def diverging():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)
        return sa.minimize(problem(), Diverging())


CAUSES = [
    ("CONVERGED", "what is returned meets the stopping rule", converged),
    ("STALLED", "rounding allows no smaller gap to be certified", finer_than_rounding),
    (
        "STALLED",
        "no step improves the point, and no better lower bound on the optimum was found",
        resting,
    ),
    (
        "STALLED",
        "predictions lie beyond the range where a Poisson or Gamma loss is exact",
        beyond_the_range,
    ),
    ("MAX_PASSES", "the limit `max_passes` was reached", out_of_passes),
    ("MAX_TIME", "the limit `max_seconds` was reached", out_of_time),
    ("MAX_EPOCHS", "the limit `max_epochs` was reached", out_of_epochs),
    ("STOPPED", "a callback returned true", stopped),
    ("INTERRUPTED", "Ctrl-C", interrupted),
    ("DIVERGED", "coefficients are no longer finite", diverging),
]


def test_the_page_lists_every_status_with_exactly_these_causes():
    table = PAGE.read_text().split("| status | cause |")[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", table, flags=re.MULTILINE)
    assert rows == [(status, cause) for status, cause, _ in CAUSES]
    assert {status for status, _ in rows} == {status.name for status in sa.Status}


@pytest.mark.parametrize(
    ("status", "run"),
    [(status, run) for status, _, run in CAUSES],
    ids=lambda v: getattr(v, "__name__", v),
)
def test_each_cause_ends_a_run_with_its_status(status, run):
    assert run().status.name == status


def test_a_tolerance_below_rounding_ends_the_run_at_once_and_keeps_the_criteria():
    for seed in range(3):
        X, y = counts(seed)
        with pytest.warns(UserWarning, match="rounding allows no smaller gap"):
            fine = sa.LassoRegressor(loss="poisson", alpha=0.0, tol=1e-13).fit(X, y)
        plain = sa.LassoRegressor(loss="poisson", alpha=0.0).fit(X, y)
        assert fine.status_ is sa.Status.STALLED and fine.n_passes_ <= 100  # of 1000
        assert fine.aic_ == pytest.approx(plain.aic_, rel=1e-12)
        assert fine.bic_ == pytest.approx(plain.bic_, rel=1e-12)


def test_nearly_equal_columns_that_no_penalty_holds_apart_are_named():
    assert "column 0 and column 1" in why_no_bound(nearly_equal_columns(), Workspace())
    assert "column" not in why_no_bound(problem(), Workspace())


@pytest.mark.parametrize("loss", [sa.Gamma(1.5), sa.Poisson(0.1)], ids=["gamma", "poisson"])
@pytest.mark.parametrize("solver", ["auto", "acc-sadmm"])
def test_predictions_beyond_the_range_of_a_loss_are_told_with_the_call_that_helps(loss, solver):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 3))
    y = rng.gamma(0.5, size=60) if isinstance(loss, sa.Gamma) else (X[:, 0] > 0) * 1.0
    first = loss
    for _ in range(6):
        problem = sa.Problem.linear(loss, X, y, on_coefficients=sa.L1(0.01), intercept=True)
        result = sa.minimize(problem, solver, max_passes=2000)
        beyond = loss.beyond(X @ result.coef + result.intercept, y).max()
        if result.converged:
            break
        assert result.status is sa.Status.STALLED and beyond > 0
        assert f"predictions lie {beyond:.3g} beyond the range" in result.message
        loss = eval("sa." + result.message.rsplit("loss ", 1)[1])
    assert result.converged and loss != first and beyond <= 1e-6


def test_a_stalled_run_stays_stalled_when_it_is_resumed_and_converges_when_less_is_asked():
    X, y = counts(1)
    p = sa.Problem.linear(sa.Poisson.for_targets(y), X, y)
    first = sa.minimize(p, stop=1e-15)
    again = sa.minimize(p, stop=1e-15, resume=first)
    assert again.status is sa.Status.STALLED and again.n_passes == first.n_passes
    assert sa.minimize(p, stop=1e-6, resume=first).converged
