"""Ctrl-C at any moment: the best measured point comes back, and all that is said of it is true."""

import itertools
from functools import cache

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.base.workspace import Workspace
from stochadmm.run import loop
from stochadmm.run.loop import Request
from stochadmm.run.minimize import solve

N, D = 40, 4


class Interrupting(sa.Logistic):
    """A loss that is interrupted whenever it is called for the n-th time, for n in ``when``."""

    kernel = None  # compiled loops would not call it

    def __init__(self, when=()):
        object.__setattr__(self, "when", frozenset(when))
        object.__setattr__(self, "calls", itertools.count(1))

    def __fingerprint__(self):
        return "interrupting"

    def _called(self):
        if next(self.calls) in self.when:
            raise KeyboardInterrupt

    def value(self, z, y, weight=None):
        self._called()
        return super().value(z, y, weight)

    def derivative(self, z, y):
        self._called()
        return super().derivative(z, y)


def problem(loss=None, **options):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    y = np.where(X[:, 0] + rng.standard_normal(N) > 0, 1.0, -1.0)
    return sa.Problem.linear(
        sa.Logistic() if loss is None else loss,
        X,
        y,
        structure=sa.Differences(D),
        on_structure=sa.L1(0.03),
        **options,
    )


def run(when, solver, stop=None, **options):
    """Run and return the result with the number of times that the loss was called."""
    loss = Interrupting(when)
    stop = sa.Never() if stop is None else stop
    asked = Request(stop, max_passes=6, **options)
    result = solve(problem(loss), solver, asked, Workspace())
    return result, next(loss.calls) - 1


@cache
def lowest():
    return sa.minimize(problem(), stop=1e-10).objective


def check(result, interrupted=True):
    exact = problem()
    assert (result.status is sa.Status.INTERRUPTED) == interrupted
    point = exact.feasible(sa.Pair(exact.zeros().x1, result.coef))
    assert result.objective == pytest.approx(exact.objective(point), rel=1e-12)
    assert result.gap is None or result.gap >= result.objective - lowest() - 1e-12
    assert [r.epoch for r in result.history] == list(range(1, result.n_epochs + 1))
    assert result.objective <= min((r.objective for r in result.history), default=np.inf) + 1e-12


SOLVERS = ["auto", "acc-sadmm", "svrg-admm", "admm"]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("stop", [None, 1e-6], ids=["all passes", "to a gap"])
def test_an_interrupt_at_any_call_of_the_loss_returns_a_true_result(solver, stop):
    whole, calls = run((), solver, stop)
    check(whole, interrupted=False)
    assert calls > 10
    for n in sorted({*range(1, 12), *range(12, calls + 1, 1 + calls // 25), calls - 1, calls}):
        result, _ = run([n], solver, stop)
        check(result)
        assert result.objective >= whole.objective - 1e-12
        assert result.n_epochs <= whole.n_epochs


@pytest.mark.parametrize("solver", SOLVERS)
def test_states_that_are_too_large_to_copy_lose_no_measured_point(solver, monkeypatch):
    monkeypatch.setattr(loop, "LARGEST_COPY", 0)
    whole, calls = run((), solver)
    records = [r.objective for r in whole.history]
    seen = set()
    for n in range(1, calls + 1, 1 + calls // 25):
        result, _ = run([n], solver)
        check(result)
        assert [r.objective for r in result.history] == records[: result.n_epochs]
        if result.state is None and result.n_epochs < whole.n_epochs:
            seen.add(result.n_epochs)
            with pytest.raises(ValueError, match=r"cannot be resumed \(it was interr.*start=res"):
                sa.minimize(problem(Interrupting()), solver, resume=result)
            start = sa.minimize(problem(), solver, start=result, max_passes=1, stop=sa.Never())
            assert start.objective <= result.objective + 1e-12
    assert len(seen) >= min(whole.n_epochs, 2)


def test_a_method_that_works_in_its_own_arrays_keeps_its_best_point(monkeypatch):
    class InPlace:
        """Goes down, then up, in one array."""

        def start(self, p, x=None, dual=None, workspace=None, deadline=None):
            zero = p.zeros()
            return sa.solvers.State(x=zero, output=zero, dual=p.zeros_dual(), beta=1.0)

        def epoch(self, p, state, rng):
            if state.n_epochs == 5:
                state.x.x2[:] = np.nan
                raise KeyboardInterrupt
            sign = 1.0 if state.n_epochs < 3 else -5.0
            state.x.x2[:] -= sign * p.f2.gradient(state.x.x2)
            state.x.x1[:] = p.feasible(state.x).x1
            state.n_epochs += 1
            state.n_passes += 1

    for limit in (0, 1 << 28):
        monkeypatch.setattr(loop, "LARGEST_COPY", limit)
        result = solve(problem(), InPlace(), Request(sa.Never()), Workspace())
        check(result)
        assert result.n_epochs == 5
        assert result.objective == min(r.objective for r in result.history)


@pytest.mark.parametrize("solver", SOLVERS)
def test_an_interrupt_before_the_first_measurement_returns_the_start(solver):
    there = np.array([0.3, 0.3, 0.0, 0.0])
    for start, expected in ((None, np.zeros(D)), (there, there)):
        result, _ = run([1], solver, start=start)
        check(result)
        assert result.n_epochs == 0 and not result.history and result.n_passes == 0
        np.testing.assert_array_equal(result.x2, expected)


def test_an_interrupt_inside_start_returns_the_start_and_cannot_be_resumed():
    class Slow(sa.AccSADMM):
        def start(self, p, x=None, dual=None, workspace=None, deadline=None):
            raise KeyboardInterrupt

    before = sa.minimize(problem(), "acc-sadmm", max_passes=3)
    for start in (None, before):
        result = sa.minimize(problem(), Slow(), start=start)
        check(result)
        np.testing.assert_array_equal(result.x2, 0.0 if start is None else before.x2)
        with pytest.raises(ValueError, match=r"before its first epoch.*start=result"):
            sa.minimize(problem(), Slow(), resume=result)


@pytest.mark.parametrize("solver", SOLVERS)
def test_a_second_interrupt_while_the_answer_is_made_returns_it_as_it_is(solver):
    _, calls = run((), solver, 1e-9)
    for n in range(3, calls, 1 + calls // 10):
        result, after = run([n], solver, 1e-9)
        check(result)
        if not result.history:
            continue
        for again in range(n + 1, min(after, n + 4) + 1):
            result, _ = run([n, again], solver, 1e-9)
            check(result)


def test_a_second_interrupt_before_any_point_was_measured_is_passed_on():
    with pytest.raises(KeyboardInterrupt):
        run([1, 2], "acc-sadmm")


def test_an_interrupt_of_a_callback_or_the_bar_returns_a_result(monkeypatch):
    def callback(record, state):
        if record.epoch == 2:
            raise KeyboardInterrupt

    check(sa.minimize(problem(), "acc-sadmm", stop=sa.Never(), callback=callback))
    from stochadmm.run import progress

    def broken(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(progress, "bar", broken)
    check(sa.minimize(problem(), "acc-sadmm", verbose=True))


def test_an_interrupt_while_the_problem_is_compared_leaves_the_old_result(monkeypatch):
    p = problem()
    result = sa.minimize(p, "acc-sadmm", max_passes=3)

    def interrupted(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(loop, "fingerprint", interrupted)
        with pytest.raises(KeyboardInterrupt):
            sa.minimize(p, "acc-sadmm", resume=result)
    again = sa.minimize(p, "acc-sadmm", resume=result, max_passes=6)
    assert again.n_passes > result.n_passes


def test_mistakes_are_told_before_anything_is_run():
    with pytest.raises(ValueError, match="shape"):
        sa.minimize(problem(), "acc-sadmm", start=np.zeros(D + 1))
    with pytest.raises(ValueError, match="katyusha"):
        sa.minimize(problem(), "katyusha")
