"""The one loop: records, rules, statuses, interrupts, resuming, starts, engines."""

import itertools
import pickle
import re
import time
from dataclasses import dataclass, replace

import numpy as np
import pytest

import stochadmm as sa
from stochadmm._newton import clusters
from stochadmm.base.clock import NEVER, Deadline
from stochadmm.certificates import certify
from stochadmm.certificates.bound import feasible_multiplier
from stochadmm.forms.one_block import one_block
from stochadmm.forms.structure import StructureSolver
from stochadmm.problem import at_strength
from stochadmm.quadratic import QuadraticModel
from stochadmm.run import monitor
from stochadmm.run.path import alpha_max
from stochadmm.run.stopping import Gap
from stochadmm.solvers import State

N, D = 60, 6


def problem(loss="logistic", dtype=np.float64, alpha=0.02, **options):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    z = X @ np.repeat([1.0, -0.5], 3)
    if loss == "logistic":
        part, y = sa.Logistic(), np.where(z + rng.standard_normal(N) > 0, 1.0, -1.0)
    else:
        part, y = sa.Squared(), z + rng.standard_normal(N)
    return sa.Problem.linear(
        part,
        X.astype(dtype),
        y,
        structure=sa.VStack([sa.Differences(D), sa.Identity(D)]),
        on_structure=sa.L1(alpha),
        **options,
    )


class OwnLoss:
    """Squared error with nothing but the required members."""

    curvature_bound = 1.0

    def value(self, z, y, weight=None):
        return float(np.average((z - y) ** 2, weights=weight)) / 2

    def derivative(self, z, y):
        return z - y


# ---------------------------------------------------------------- records and rules


def test_there_is_one_record_per_epoch_with_growing_counts():
    result = sa.minimize(problem(), "acc-sadmm", stop=sa.Never(), max_passes=20)
    assert [r.epoch for r in result.history] == list(range(1, result.n_epochs + 1))
    for name in ("passes", "gradients", "seconds", "seconds_measuring"):
        values = [getattr(r, name) for r in result.history]
        assert all(a < b for a, b in itertools.pairwise([0.0, *values]))
    last = result.history[-1]
    assert last.passes == result.n_passes and last.gradients == result.n_gradients
    assert all(isinstance(r.nonzeros, int) and 0 <= r.nonzeros <= D for r in result.history)
    for r in result.history:
        assert r.gap >= 0 and r.relative_gap == pytest.approx(r.gap / r.objective)
    assert result.info["seconds_solving"] + result.info["seconds_measuring"] <= result.seconds


def test_objectives_of_the_records_are_at_least_the_optimum():
    p = problem()
    best = sa.minimize(p, stop=1e-12).objective
    result = sa.minimize(p, "acc-sadmm", stop=sa.Never(), max_passes=60)
    assert min(r.objective for r in result.history) >= best - 1e-12
    assert result.objective <= min(r.objective for r in result.history) + 1e-15


@pytest.mark.parametrize("solver", ["auto", "acc-sadmm", "admm"])
def test_gap_is_relative_or_absolute(solver):
    p = problem()
    relative = sa.minimize(p, solver, stop=sa.Gap(1e-4), max_passes=500)
    assert relative.converged and relative.relative_gap <= 1e-4
    assert relative.gap <= 1e-4 * relative.objective
    absolute = sa.minimize(p, solver, stop=sa.Gap(1e-5, relative=False), max_passes=500)
    assert absolute.converged and absolute.gap <= 1e-5
    assert "relative duality gap" in relative.message and "1.00e-04" in relative.message
    assert "relative" not in absolute.message and "1.00e-05" in absolute.message


def test_relative_gap_has_a_floor_for_optima_at_zero():
    X = np.random.default_rng(0).standard_normal((30, 3))
    y = X @ np.array([1.0, -2.0, 0.5])
    p = sa.Problem.linear(sa.Squared(), X, y, on_structure=sa.Zero())
    result = sa.minimize(p, "acc-sadmm", stop=sa.Gap(1e-6), max_passes=2000)
    assert result.converged
    assert result.objective < 1e-6 * p.objective_at_zero
    assert result.relative_gap == pytest.approx(result.gap / (1e-3 * p.objective_at_zero))


@pytest.mark.parametrize("solver", ["acc-sadmm", "svrg-admm", "linearized-admm"])
def test_a_looser_tolerance_stops_earlier(solver):
    passes = [
        sa.minimize(problem(), solver, stop=tol, max_passes=2000).n_passes
        for tol in (1e-1, 1e-3, 1e-5)
    ]
    assert passes[0] < passes[1] < passes[2]


def test_a_number_is_a_relative_gap_and_the_default_is_1e_6():
    p = problem()
    assert "1.00e-03" in sa.minimize(p, stop=1e-3).message
    assert "1.00e-06" in sa.minimize(p).message


def test_residuals_stop_a_problem_without_certificate():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, D))
    f2 = sa.FiniteSum(OwnLoss(), X, X[:, 0] + rng.standard_normal(N))
    p = sa.Problem(f2, h1=sa.L1(0.05), A1=sa.Identity(D, scale=-1.0), A2=sa.Identity(D))
    result = sa.minimize(p, "acc-sadmm", stop=sa.Residuals(1e-5), max_passes=1000)
    assert result.converged and result.gap is None and result.relative_gap is None
    assert result.kkt_residual <= 1e-5 and result.feasibility <= 1e-5
    assert "feasibility" in result.message and "1.00e-05" in result.message
    by_gap = sa.minimize(p, "acc-sadmm", stop=sa.Gap(1e-4), max_passes=1000)
    assert by_gap.converged and "KKT residual" in by_gap.message
    certified = sa.Problem.linear(sa.Squared(), X, f2.y, on_structure=sa.L1(0.05))
    best = sa.minimize(certified, stop=1e-10)
    assert result.objective == pytest.approx(best.objective, rel=1e-6)


def test_rules_combine():
    p = problem()
    loose, tight, never = sa.Gap(1e-2), sa.Gap(1e-5), sa.Never()

    def passes(rule):
        return sa.minimize(p, "acc-sadmm", stop=rule, max_passes=400).n_passes

    assert passes(sa.AnyOf(loose, never)) == passes(loose)
    assert passes(sa.AllOf(loose, tight)) >= passes(sa.AnyOf(loose, tight))
    both = sa.minimize(p, "acc-sadmm", stop=sa.AllOf(loose, sa.Gap(1e-3)), max_passes=400)
    assert both.converged and " and " in both.message
    stopped = sa.minimize(p, "acc-sadmm", stop=sa.AllOf(loose, never), max_passes=10)
    assert stopped.status is sa.Status.MAX_PASSES
    assert " or " in sa.AnyOf(loose, tight).describe(stopped.history[-1])


def test_rules_are_plain_functions_of_a_record():
    record = sa.Record(1, 1.0, 1.0, 0.0, 0.0, 2.0, 1e-8, 1e-3, 5e-4, 1e-7, 3)
    assert Gap(1e-3)(record) and not Gap(1e-4)(record)
    assert Gap(1e-3, relative=False)(record) and not Gap(9e-4, relative=False)(record)
    assert sa.Residuals(1e-6)(record) and not sa.Residuals(1e-7 / 2)(record)
    unknown = replace(record, gap=None, relative_gap=None, kkt_residual=None)
    assert not Gap(1.0)(unknown) and not sa.Residuals(1.0)(unknown)
    assert "not available" in Gap(1.0).describe(unknown)
    assert "no stopping rule" in sa.Never().describe(record)


# ---------------------------------------------------------------- statuses


def test_budget_in_passes():
    result = sa.minimize(problem(), "acc-sadmm", stop=sa.Never(), max_passes=7)
    assert result.status is sa.Status.MAX_PASSES and not result.converged
    assert result.history[-2].passes < 7 <= result.n_passes if len(result.history) > 1 else True


def test_budget_in_seconds():
    began = time.perf_counter()
    result = sa.minimize(
        problem(), "acc-sadmm", stop=sa.Never(), max_passes=np.inf, max_seconds=0.3
    )
    assert result.status is sa.Status.MAX_TIME
    assert 0.3 <= result.seconds <= time.perf_counter() - began < 20


def test_a_certificate_that_would_outlast_the_budget_is_not_begun(monkeypatch):
    built = []
    monkeypatch.setattr(StructureSolver, "build", lambda *given: built.append(given))
    rng = np.random.default_rng(0)
    d = 2500
    X, y = rng.standard_normal((20, d)), np.where(rng.random(20) < 0.5, 1.0, -1.0)
    wide = sa.Problem.linear(
        sa.Logistic(), X, y, structure=sa.Differences(d), on_structure=sa.L1(0.01)
    )
    result = sa.minimize(wide, "sdca-admm", max_passes=np.inf, max_seconds=0.5, engine="reference")
    assert result.status is sa.Status.MAX_TIME and not built
    assert result.gap == np.inf and result.n_epochs >= 1
    assert result.objective <= wide.objective_at_zero


def test_certificates_that_took_too_long_are_not_tried_again(monkeypatch):
    strengths = []

    def slow(*given, strength="scaled", **named):
        strengths.append(strength)
        time.sleep(0.4)
        return certify(*given, strength=strength, **named)

    monkeypatch.setattr(monitor, "certify", slow)
    result = sa.minimize(
        problem(),
        "acc-sadmm",
        stop=Gap(1e-13),
        max_passes=np.inf,
        max_seconds=1.0,
        engine="reference",
    )
    assert 1 <= len(strengths) <= 2 and set(strengths) == {"scaled"}
    assert result.status is sa.Status.MAX_TIME and 0 < result.gap < np.inf


def test_loops_of_certificates_end_with_the_budget(monkeypatch):
    form = one_block(problem())
    rounds = []
    monkeypatch.setattr(form, "project", lambda mu: rounds.append(1) or 0.9 * mu)
    monkeypatch.setattr(form, "scale", lambda mu: 0.5)
    gradient, mu = np.ones(D), np.zeros(form.S.shape[0])
    feasible_multiplier(form, gradient, mu, 0.0)
    whole = len(rounds)
    feasible_multiplier(form, gradient, mu, 0.0, deadline=Deadline.after(0.0))
    assert len(rounds) - whole == 2 < whole


def test_a_deadline_counts_down_and_never_has_none():
    assert NEVER.seconds_left() == np.inf and not NEVER.passed()
    assert 0 < Deadline.after(60.0).seconds_left() <= 60
    assert Deadline.after(0.0).passed()


@pytest.mark.parametrize("name", ["gram", "sampled-newton", "tied-newton"])
def test_models_of_steps_end_with_the_budget_of_the_run(name, monkeypatch):
    """Every model is told the moment at which the run should end, and none of one without."""
    told = []
    whole = QuadraticModel.minimize

    def minimize(self, *given, deadline=NEVER, **named):
        told.append(deadline)
        return whole(self, *given, deadline=deadline, **named)

    monkeypatch.setattr(QuadraticModel, "minimize", minimize)
    # few clusters need no model of a step: here they are as many as it takes
    monkeypatch.setattr(clusters, "minimize_in_columns", lambda *given: None)
    p = problem("squared" if name == "gram" else "logistic", alpha=0.1)
    sa.minimize(p, name, stop=Gap(1e-6), max_seconds=1000.0)
    assert told and all(0 < end.seconds_left() <= 1000 for end in told)
    told.clear()
    sa.minimize(p, name, stop=Gap(1e-6))
    assert told and set(told) == {NEVER}


def test_a_limit_of_time_that_is_not_hit_changes_no_number():
    free, limited = (sa.minimize(problem(), stop=Gap(1e-9), max_seconds=s) for s in (None, 1e6))
    np.testing.assert_array_equal(free.coef, limited.coef)
    assert (free.gap, free.n_passes, free.n_epochs) == (
        limited.gap,
        limited.n_passes,
        limited.n_epochs,
    )


@pytest.mark.parametrize("intercept", [False, True])
def test_a_start_that_the_penalties_only_just_hold_at_zero_needs_no_epoch(intercept):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 30))
    y = np.argmax(X[:, :5] + rng.standard_normal((500, 5)), axis=1)
    unit = sa.Problem.linear(
        sa.Multinomial(5),
        X,
        y,
        structure=sa.VStack([sa.Identity(30), sa.Identity(30)]),
        on_structure=sa.Stacked([(sa.Nuclear(0.5), 30), (sa.L1(0.5), 30)]),
        intercept=intercept,
    )
    largest = alpha_max(unit)
    result = sa.minimize(at_strength(unit, largest), stop=Gap(1e-12))
    assert result.converged and result.n_epochs == 0 and not result.coef.any()
    assert [r.epoch for r in result.history] == [0] and result.relative_gap <= 1e-12
    again = certify(at_strength(unit, largest), result.pair, result.dual)
    assert again.gap <= 1e-12 * again.objective
    if intercept:
        shares = np.exp(result.intercept) / np.exp(result.intercept).sum()
        np.testing.assert_allclose(shares, np.bincount(y) / 500, atol=1e-8)
    assert sa.minimize(at_strength(unit, 0.9 * largest)).coef.any()


def test_callback_gets_record_and_state_and_may_stop():
    seen = []

    def callback(record, state):
        seen.append((record, state.n_epochs, state.output.x2.copy()))
        return len(seen) == 3

    result = sa.minimize(problem(), "acc-sadmm", stop=sa.Never(), callback=callback)
    assert result.status is sa.Status.STOPPED and result.n_epochs == 3
    assert [record for record, _, _ in seen] == result.history
    assert [n for _, n, _ in seen] == [1, 2, 3]
    assert not np.array_equal(seen[0][2], seen[1][2])


@pytest.mark.parametrize("method", ["auto", "acc-sadmm", "sampled-newton"])
def test_a_callback_that_changes_the_state_is_told(method):
    def callback(record, state):
        state.output.x2[:] = 3.0

    with pytest.raises(ValueError, match="the callback changed the state"):
        sa.minimize(problem(), method, stop=sa.Never(), max_passes=5, callback=callback)


def test_an_error_in_a_callback_is_not_swallowed():
    def callback(record, state):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        sa.minimize(problem(), "acc-sadmm", callback=callback)


@dataclass(frozen=True)
class Diverging:
    """Gradient steps that are far too long, then not even finite."""

    def start(self, problem, x=None, dual=None, workspace=None):
        zero = problem.zeros()
        return State(x=zero, output=zero, dual=problem.zeros_dual(), beta=1.0)

    def epoch(self, problem, state, rng):
        x2 = state.x.x2 - 1e80 * (problem.f2.gradient(state.x.x2) + 1.0)
        state.x = state.output = problem.feasible(sa.Pair(state.x.x1, x2))
        state.n_epochs += 1
        state.n_passes += 1


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_divergence_is_named_and_the_best_point_returned():
    p = problem("squared")
    result = sa.minimize(p, Diverging(), max_passes=100)
    assert result.status is sa.Status.DIVERGED
    assert np.isfinite(result.coef).all()
    assert result.objective == pytest.approx(p.objective_at_zero)
    assert result.gap is None or np.isfinite(result.gap)


class NotANumberFirst(Diverging):
    """Begins where nothing can be evaluated, then goes to zero."""

    def start(self, problem, x=None, dual=None, workspace=None):
        zero = problem.zeros()
        bad = sa.Pair(zero.x1, zero.x2 * np.nan)
        return State(x=bad, output=bad, dual=problem.zeros_dual(), beta=1.0)

    def epoch(self, problem, state, rng):
        state.x = state.output = problem.zeros()
        state.n_epochs += 1
        state.n_passes += 1


class OwnNan(sa.Squared):
    """A loss that is no number away from zero."""

    kernel = None

    def value(self, z, y, weight=None):
        return np.nan if np.any(z) else super().value(z, y, weight)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_what_is_not_a_number_is_never_the_best_and_never_a_gap():
    p = problem("squared")
    first = sa.minimize(p, NotANumberFirst(), max_passes=3)
    assert first.objective == pytest.approx(p.objective_at_zero) and not first.coef.any()
    own = replace(p, f2=sa.FiniteSum(OwnNan(), p.f2.X, p.f2.y))
    for solver in ("acc-sadmm", "admm", "auto"):
        result = sa.minimize(own, solver, max_passes=10)
        assert not result.converged and "nan" not in result.message
        for record in result.history:
            assert record.gap is None or record.gap >= 0
            assert record.relative_gap is None or record.relative_gap >= 0
        assert result.gap is None or result.gap >= 0


# ---------------------------------------------------------------- interrupts


class InterruptedAt:
    """A method that is interrupted half-way through some epoch, with its state half changed."""

    def __init__(self, method, when):
        self.method, self.when = method, when
        self.has_kernel = getattr(method, "has_kernel", False)

    def __fingerprint__(self):  # what it leaves behind is the method's
        return self.method

    def start(self, problem, x=None, dual=None, workspace=None):
        return self.method.start(problem, x, dual)

    def epoch(self, problem, state, rng):
        if state.n_epochs == self.when:
            rng.random(17)
            state.output = sa.Pair(np.nan * state.output.x1, np.nan * state.output.x2)
            state.n_passes += 100
            raise KeyboardInterrupt
        self.method.epoch(problem, state, rng)


def same(a, b):
    for name in ("coef", "x1", "x2", "dual"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert (a.objective, a.gap, a.n_epochs) == (b.objective, b.gap, b.n_epochs)
    assert (a.n_passes, a.n_gradients) == (b.n_passes, b.n_gradients)


def through(p, solver, epochs, **options):
    """Run exactly so many epochs."""
    return sa.minimize(
        p,
        solver,
        stop=sa.Never(),
        max_passes=1e9,
        callback=lambda record, state: record.epoch >= epochs,
        **options,
    )


METHODS = {
    "acc-sadmm": sa.AccSADMM(batch_size=5),
    "acc-sadmm, restarted": sa.AccSADMM(batch_size=5, restart=2),
    "svrg-admm": sa.SVRGADMM(batch_size=5),
    "sag-admm": sa.solvers.SAGADMM(batch_size=5),
    "stoc-admm": sa.solvers.StocADMM(batch_size=5),
    "sdca-admm": sa.solvers.SDCAADMM(),
    "admm": sa.solvers.ADMM(),
    "auto": sa.Auto(),
}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("when", [0, 1, 4])
def test_an_interrupt_inside_an_epoch_returns_the_last_consistent_point(name, when):
    p, method = problem(), METHODS[name]
    result = sa.minimize(p, InterruptedAt(method, when), stop=sa.Never(), max_passes=1e9)
    assert result.status is sa.Status.INTERRUPTED
    assert result.n_epochs == when == len(result.history)
    assert np.isfinite(result.coef).all() and np.isfinite(result.objective)
    if when:
        same(result, through(p, method, when))
    same(
        sa.minimize(
            p,
            method,
            stop=sa.Never(),
            resume=result,
            max_passes=1e9,
            callback=lambda r, s: r.epoch >= 6,
        ),
        through(p, method, 6),
    )


@pytest.mark.parametrize("nth", [1, 2, 4])
def test_an_interrupt_while_measuring_returns_the_last_measured_point(nth, monkeypatch):

    p, method, calls = problem(), METHODS["acc-sadmm"], itertools.count(1)
    measure = monitor.Monitor.measure

    def interrupted(self, state):
        if next(calls) == nth:
            raise KeyboardInterrupt
        return measure(self, state)

    monkeypatch.setattr(monitor.Monitor, "measure", interrupted)
    result = sa.minimize(p, method, stop=sa.Never(), max_passes=1e9)
    monkeypatch.undo()
    assert result.status is sa.Status.INTERRUPTED
    assert result.n_epochs == len(result.history) == max(nth - 2, 0)
    assert np.isfinite(result.objective)
    again = sa.minimize(
        p,
        method,
        stop=sa.Never(),
        resume=result,
        max_passes=1e9,
        callback=lambda r, s: r.epoch >= 5,
    )
    same(again, through(p, method, 5))


def test_an_interrupt_inside_the_callback_returns_a_consistent_point():
    p, method = problem(), METHODS["acc-sadmm"]

    def callback(record, state):
        if record.epoch == 3:
            raise KeyboardInterrupt

    result = sa.minimize(p, method, stop=sa.Never(), callback=callback)
    assert result.status is sa.Status.INTERRUPTED and np.isfinite(result.objective)
    again = sa.minimize(
        p,
        method,
        stop=sa.Never(),
        resume=result,
        max_passes=1e9,
        callback=lambda r, s: r.epoch >= 5,
    )
    same(again, through(p, method, 5))
    assert [r.epoch for r in again.history] == [1, 2, 3, 4, 5]


# ---------------------------------------------------------------- resuming


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("engine", ["auto", "reference"])
def test_resuming_equals_going_straight_through_bit_by_bit(name, engine):
    p, method = problem(), METHODS[name]
    first = through(p, method, 3, engine=engine)
    kept = first.coef.copy(), len(first.history)
    second = sa.minimize(
        p,
        method,
        stop=sa.Never(),
        resume=first,
        max_passes=1e9,
        callback=lambda r, s: r.epoch >= 7,
    )
    straight = through(p, method, 7, engine=engine)
    same(second, straight)
    assert [r.epoch for r in second.history] == [r.epoch for r in straight.history]
    assert [r.objective for r in second.history] == [r.objective for r in straight.history]
    assert second.seconds > first.seconds
    np.testing.assert_array_equal(first.coef, kept[0])
    assert len(first.history) == kept[1]


def test_a_converged_run_resumes_to_a_tighter_tolerance():
    p = problem()
    loose = sa.minimize(p, "acc-sadmm", stop=1e-2, max_passes=1000)
    tight = sa.minimize(p, "acc-sadmm", stop=1e-6, max_passes=1000, resume=loose)
    assert loose.relative_gap > 1e-6 >= tight.relative_gap
    assert tight.n_passes > loose.n_passes and tight.converged


def test_a_loaded_result_says_that_it_cannot_be_resumed(tmp_path):
    p = problem()
    loaded = sa.Result.load(sa.minimize(p, "acc-sadmm", max_passes=5).save(tmp_path / "a"))
    with pytest.raises(ValueError, match="start=result"):
        sa.minimize(p, "acc-sadmm", resume=loaded)


@pytest.mark.parametrize("name", METHODS)
def test_same_seed_same_bits_other_seed_other_rows(name):
    p, method = problem(), METHODS[name]
    a, b = through(p, method, 3, random_state=5), through(p, method, 3, random_state=5)
    same(a, b)
    c = through(p, method, 3, random_state=np.random.default_rng(5))
    same(a, c)
    if name not in ("auto", "admm"):
        assert not np.array_equal(a.x2, through(p, method, 3, random_state=6).x2)


# ---------------------------------------------------------------- iterate, starts, engines


def test_iterate_yields_the_state_after_every_epoch():
    p, method = problem(), METHODS["acc-sadmm"]
    states = [(s.n_epochs, s.output.x2.copy()) for s in itertools.islice(sa.iterate(p, method), 4)]
    assert [n for n, _ in states] == [1, 2, 3, 4]
    run = through(p, method, 4)
    np.testing.assert_array_equal(run.state.state.output.x2, states[-1][1])
    other = next(sa.iterate(p, method, random_state=3))
    assert not np.array_equal(other.output.x2, states[0][1])


@pytest.mark.parametrize("engine", ["auto", "reference"])
@pytest.mark.parametrize("name", ["acc-sadmm", "svrg-admm", "sag-admm", "stoc-admm", "admm"])
def test_iterate_goes_on_from_a_state_as_if_there_had_been_no_end(name, engine):
    p, method = problem(), METHODS[name]
    whole = next(itertools.islice(sa.iterate(p, method, 2, engine=engine), 4, None))
    rng = np.random.default_rng(2)
    # the readable loops have constants of their own rounding, which `start` does not know
    state = method.start(p, workspace=sa.solvers.Workspace()) if engine == "auto" else None
    for n in (2, 3):
        steps = sa.iterate(p, method, rng, start=state, engine=engine)
        state = next(itertools.islice(steps, n - 1, None))
        state, rng = pickle.loads(pickle.dumps((state, rng)))
        p = replace(p)  # another process has its own
    assert (state.n_epochs, state.n_passes) == (5, whole.n_passes)
    assert state.engine == whole.engine
    np.testing.assert_array_equal(state.output.x2, whole.output.x2)


def test_a_state_of_another_problem_is_refused():
    state = next(sa.iterate(problem(), "acc-sadmm"))
    other = sa.Problem.linear(sa.Squared(), np.eye(4), np.ones(4), on_coefficients=sa.L1(0.1))
    with pytest.raises(ValueError, match=r"x1, x2 and dual of the shapes .* expected"):
        next(sa.iterate(other, "acc-sadmm", start=state))


@pytest.mark.parametrize("solver", ["auto", "acc-sadmm", "admm", "svrg-admm"])
def test_every_kind_of_start_begins_there(solver):
    p = problem()
    best = sa.minimize(p, stop=1e-10)
    point = p.feasible(sa.Pair(np.zeros(p.shape1), best.coef))
    for start in (best.coef, best.coef.tolist(), point):
        result = sa.minimize(p, solver, start=start, stop=1e-6, max_passes=5)
        assert result.objective <= best.objective * (1 + 1e-9)
    for start in ((point, best.dual), best):  # the multiplier too: nothing is left to do
        result = sa.minimize(p, solver, start=start, stop=1e-6, max_passes=5)
        assert result.converged and result.n_epochs == 1


def test_a_start_at_the_optimum_is_not_made_worse():
    p = problem()
    best = sa.minimize(p, stop=1e-12)
    result = sa.minimize(p, "stoc-admm", start=best, stop=sa.Never(), max_passes=5)
    assert result.objective <= best.objective * (1 + 1e-12)


@pytest.mark.compiled
def test_compiled_engine_is_refused_with_a_reason():
    X = np.random.default_rng(0).standard_normal((N, D))
    own = sa.Problem.linear(OwnLoss(), X, X[:, 0], on_structure=sa.L1(0.1))
    with pytest.raises(ValueError, match=r"loss OwnLoss has no compiled form; use engine='auto'"):
        sa.minimize(own, "acc-sadmm", engine="compiled")
    result = sa.minimize(own, "acc-sadmm", max_passes=50)
    assert result.info["engine"] == "reference" and np.isfinite(result.coef).all()
    low_rank = sa.Problem.linear(sa.Squared(), X, X[:, :2], on_structure=sa.Nuclear(0.1))
    with pytest.raises(ValueError, match="Nuclear"):
        sa.minimize(low_rank, "acc-sadmm", engine="compiled")
    with pytest.raises(ValueError, match="compiled"):
        sa.minimize(problem(), "admm", engine="compiled")
    assert sa.minimize(problem(), "acc-sadmm", max_passes=5).info["engine"] == "compiled"
    reference = sa.minimize(problem(), "acc-sadmm", max_passes=5, engine="reference")
    assert reference.info["engine"] == "reference"


@pytest.mark.parametrize("solver", ["auto", "acc-sadmm", "svrg-admm", "admm"])
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_float32_stays_float32_and_numbers_are_float64(solver, loss):
    p = problem(loss, dtype=np.float32, intercept=True)
    result = sa.minimize(p, solver, stop=1e-4, max_passes=500)
    for name in ("coef", "x1", "x2", "dual"):
        assert getattr(result, name).dtype == np.float32, name
    assert isinstance(result.intercept, float) and isinstance(result.objective, float)
    assert result.converged
    exact = sa.minimize(problem(loss, intercept=True), stop=1e-9)
    assert result.objective == pytest.approx(exact.objective, rel=2e-4)


def test_info_names_what_was_chosen():
    result = sa.minimize(problem(), "acc-sadmm", max_passes=5)
    for name in ("engine", "beta", "batch_size", "n_inner", "solver", "seconds_solving"):
        assert name in result.info
    assert result.info["solver"] == "acc-sadmm"
    auto = sa.minimize(problem())
    assert auto.info["solver"] == "auto" and auto.info["route"] and auto.info["reason"]


def test_verbose_shows_a_bar_and_silence_is_the_default(capfd):
    sa.minimize(problem(), "acc-sadmm", max_passes=10)
    quiet = capfd.readouterr()
    assert quiet.out == quiet.err == ""
    sa.minimize(problem(), "acc-sadmm", max_passes=10, verbose=True)
    shown = capfd.readouterr()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.out + shown.err)
    assert "acc-sadmm" in text and "passes" in text


def test_a_bar_of_streamed_rows_tells_speed_gap_and_time_left(capfd):
    X, y = problem().f2.X, problem().f2.y
    source = sa.data.ArraySource(np.tile(X, (40, 1)), np.tile(y, 40))
    p = sa.Problem.linear(sa.Logistic(), source, on_coefficients=sa.L1(0.01))
    sa.minimize(p, verbose=True, memory="4MiB")
    shown = capfd.readouterr()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", shown.out + shown.err)
    assert all(word in text for word in ("passes", "MB/s", "duality gap"))
    assert re.search(r"about \d+:\d\d left", text)


def record(seconds, gap, objective=1.0):
    return sa.Record(1, 1.0, 1.0, seconds, 0.0, objective, 0.0, gap, gap, None, 1)


def test_the_time_left_follows_the_gap():
    from stochadmm.run.progress import Forecast

    forecast = Forecast(sa.Gap(1e-6))
    assert forecast.seconds_left(record(1.0, 1e-2)) is None  # nobody can tell yet
    assert forecast.seconds_left(record(2.0, 1e-3)) == pytest.approx(3.0)
    assert forecast.seconds_left(record(4.0, 1e-5)) == pytest.approx(1.0)
    assert forecast.seconds_left(record(5.0, 1e-7)) == 0.0
    assert Forecast(sa.Never()).seconds_left(record(1.0, 1e-2)) is None
    without = Forecast(sa.Gap(1e-6))  # what epochs gain stands for a gap that is not known
    for seconds, value in ((0.0, 1.11), (1.0, 1.01), (2.0, 1.0)):
        found = without.seconds_left(record(seconds, np.inf, value))
    assert found == pytest.approx(4.0, rel=0.05)


def test_dear_certificates_are_asked_for_at_growing_intervals():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 4100)), rng.standard_normal(40)
    p = sa.Problem.linear(
        sa.Squared(), X, y, structure=sa.Differences(4100), on_structure=sa.L1(0.1)
    )
    result = sa.minimize(p, "acc-sadmm", stop=sa.Gap(1e-12), max_passes=120)
    epochs = [record.epoch for record in result.history]
    assert epochs[:10] == list(range(1, 11)) and epochs[-1] == result.n_epochs
    steps = np.diff(epochs)
    assert steps.max() > 1 and (steps[:-1] <= np.ceil(0.1 * np.array(epochs[:-2])) + 1).all()
    seen = []
    sa.minimize(
        p,
        "acc-sadmm",
        stop=sa.Gap(1e-12),
        max_passes=60,
        callback=lambda record, _: seen.append(record.epoch),
    )
    assert seen == list(range(1, len(seen) + 1))


def test_long_runs_of_short_epochs_are_measured_at_growing_intervals():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 4)), rng.standard_normal(40)
    p = sa.Problem.linear(sa.Squared(), X, y, on_coefficients=sa.L1(0.1))
    quiet = sa.minimize(p, "stoc-admm", stop=1e-13, max_passes=1500)
    epochs = [record.epoch for record in quiet.history]
    assert epochs[:200] == list(range(epochs[0], epochs[0] + 200))
    assert len(epochs) < 0.8 * quiet.n_epochs and epochs[-1] == quiet.n_epochs
    assert max(b / a for a, b in itertools.pairwise(epochs[200:])) <= 1.02
    watched = sa.minimize(
        p, "stoc-admm", stop=1e-13, max_passes=1500, callback=lambda record, state: False
    )
    assert len(watched.history) >= watched.n_epochs
    assert watched.objective <= quiet.objective


@pytest.mark.parametrize("method", ["acc-sadmm", "admm", "svrg-admm"])
def test_a_run_that_a_limit_ends_knows_how_far_its_last_point_is(method):
    """Steps may be too long for the tight certificate while a run goes on, not at its end."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 6))
    y = np.where(X[:, 0] - X[:, 1] + rng.standard_normal(80) > 0, 1.0, -1.0)
    problem = sa.Problem.linear(
        sa.Logistic(),
        X,
        y,
        structure=sa.Differences(6),
        on_structure=sa.L1(0.02),
        on_coefficients=sa.Box(-0.5, 0.6),
        intercept=True,
    )
    best = sa.minimize(problem, stop=1e-11)
    found = sa.minimize(problem, method, max_passes=10)
    distance = found.objective - best.objective
    assert best.converged and not found.converged
    assert distance <= found.gap <= 2 * distance
