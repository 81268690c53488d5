"""Rules of the Newton loop by themselves: line search, damping, radius, samples, verdicts."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import stochadmm as sa
from stochadmm._newton import Composite, Run, Verdict, solve, start, step
from stochadmm._newton.dense import DenseSplitting, SampledRows
from stochadmm._newton.duals import Corrected
from stochadmm._newton.interfaces import Candidate, Plan
from stochadmm._newton.line_search import armijo
from stochadmm._newton.trust import Trust
from stochadmm.base.workspace import Workspace
from stochadmm.problem import Pair
from stochadmm.risk.lines import LENGTHS

# ---------------------------------------------------------------- line search


@dataclass
class Parabola:
    """f(t) = (t - best)^2 on the line from 0 to 1; no penalty."""

    best: float
    lengths: tuple[float, ...] = LENGTHS
    takes_first: bool = False

    def point(self, t):
        return np.array([t])

    def value(self, t):
        return (t - self.best) ** 2


def searched(best, predicted, objective=None):
    line = Parabola(best)
    start = best**2 if objective is None else objective
    return armijo(line, lambda w: (Pair(None, w), 0.0), start, predicted)


def test_a_full_step_that_lowers_the_objective_is_taken():
    assert searched(0.6, 0.1)[0] == 1.0  # F falls from 0.36 to 0.16


def test_a_step_too_long_is_shortened_to_the_best_length_of_the_grid():
    t, x, value = searched(0.32, 0.1)  # F(1) = 0.46 is above F(0) = 0.10
    assert t == 0.3 and x.x2 == 0.3
    assert value == pytest.approx(0.0004)


def test_a_thousandth_of_the_predicted_decrease_is_asked_for():
    # F(1) = F(0) - 0.2; with a prediction of 300 the full step is not enough, 0.7 and less neither
    assert searched(0.6, 199.0)[0] == 1.0
    assert searched(0.6, 201.0)[0] == 0.7  # 0.36 - 0.01 >= 0.141
    assert searched(0.6, 5000.0)[0] == 0.0


def test_the_first_length_that_is_enough_is_taken_where_a_line_says_so():
    halvings = Parabola(0.3, lengths=(1.0, 0.5, 0.25), takes_first=True)
    assert armijo(halvings, lambda w: (Pair(None, w), 0.0), 0.09, 0.0)[0] == 0.5
    to_the_best = replace(halvings, takes_first=False)
    assert armijo(to_the_best, lambda w: (Pair(None, w), 0.0), 0.09, 0.0)[0] == 0.25


def test_where_no_length_descends_the_point_stays():
    t, x, value = searched(-1.0, 1.0)
    assert (t, x.x2, value) == (0.0, 0.0, 1.0)


def test_a_rise_within_rounding_of_the_objective_counts_as_none():
    flat = armijo(Flat(1.0 + 1e-14), lambda w: (Pair(None, w), 0.0), 1.0, 0.0)
    assert flat[0] == 1.0
    assert armijo(Flat(1.0 + 1e-13), lambda w: (Pair(None, w), 0.0), 1.0, 0.0)[0] == 0.0


@dataclass
class Flat:
    level: float
    lengths: tuple[float, ...] = LENGTHS
    takes_first: bool = False

    def point(self, t):
        return np.array([t])

    def value(self, t):
        return self.level


def test_lengths_shrink_from_a_whole_step():
    assert LENGTHS[0] == 1.0 and (np.diff(LENGTHS) < 0).all() and LENGTHS[-1] == 1e-4


# ---------------------------------------------------------------- damping, radius, sample size

BEFORE = Trust(damping=1e-3, sample_size=100, radius=2.0, gap=1.0)


def after(trust=BEFORE, t=1.0, decrease=1.0, predicted=1.0, n_rows=1000, gap=np.inf, move=1.0):
    return trust.after(t, decrease, predicted, n_rows, gap, move)


@pytest.mark.parametrize(
    ("t", "decrease", "damping"),
    [
        (1.0, 0.8, 0.0),  # a true model
        (1.0, 1.25, 0.0),
        (1.0, 0.79, 1e-4),
        (1.0, 1.26, 1e-4),
        (0.7, 1.0, 1e-2),  # at least a hundredth of the bound
        (0.0, 0.0, 1e-2),
    ],
)
def test_damping_falls_after_full_steps_and_grows_after_shortened_ones(t, decrease, damping):
    assert after(t=t, decrease=decrease).damping == pytest.approx(damping)
    small = after(t=t, decrease=1e-3 * decrease, predicted=1e-3)
    assert small.damping == pytest.approx(damping)


def test_damping_grows_tenfold_up_to_the_whole_bound_and_ends_below_a_millionth():
    assert after(Trust(damping=0.03), t=0.5).damping == pytest.approx(0.3)
    assert after(Trust(damping=0.3), t=0.5).damping == 1.0
    assert after(Trust(damping=1e-6), decrease=0.1).damping == 0.0
    assert after(Trust(damping=1.1e-6), decrease=0.1).damping == pytest.approx(1.1e-7)


@pytest.mark.parametrize(("decrease", "size"), [(0.25, 100), (0.24, 200)])
def test_twice_the_rows_are_sampled_where_a_quarter_of_the_decrease_is_missed(decrease, size):
    assert after(decrease=decrease).sample_size == size
    assert after(decrease=0.1, n_rows=150).sample_size == 150


@pytest.mark.parametrize(
    ("t", "decrease", "move", "radius"),
    [
        (1.0, 1.0, 1.0, 2.0),  # the radius held nothing back
        (1.0, 1.0, 2.0, 8.0),
        (1.0, 0.5, 2.0, 2.0),  # no good step
        (1.0, 0.1, 2.0, 2.0),
        (1.0, 0.09, 2.0, 1.0),  # half of the move
        (0.3, 1.0, 1.0, 0.3),
        (0.7, 1.0, 1.0, 0.5),
        (0.0, 0.0, 4.0, 2e-4),
    ],
)
def test_the_radius_follows_the_decrease(t, decrease, move, radius):
    assert after(t=t, decrease=decrease, move=move).radius == pytest.approx(radius)


def test_steps_that_change_nothing_are_counted():
    stuck = after(t=0.0, decrease=0.0)
    assert stuck.n_rejected == 1 and after(stuck, t=0.0, decrease=0.0).n_rejected == 2
    assert after(stuck, decrease=1e-9).n_rejected == 0
    # a bound that is better by a fifth is progress as well
    assert after(BEFORE, decrease=0.0, gap=0.79).n_rejected == 0
    assert after(BEFORE, decrease=0.0, gap=0.81).n_rejected == 1


def test_steps_that_leave_a_known_gap_are_idle():
    assert after(decrease=1e-4, gap=0.9).n_idle == 1
    assert after(decrease=1e-4, gap=0.7).n_idle == 0  # the gap has fallen
    assert after(decrease=1e-2, gap=0.9).n_idle == 0  # F has
    assert after(decrease=0.0, gap=np.inf).n_idle == 0  # no bound is known
    kept = after(gap=0.9)
    assert kept.gap == 0.9 and kept.gap_ratio == 0.9 and after(kept, gap=5.0).gap == 0.9


# ---------------------------------------------------------------- verdicts


@dataclass(frozen=True)
class Stays(DenseSplitting):
    """A subproblem whose candidate is the iterate, or uphill of it."""

    uphill: float = 0.0

    def minimize(self, p, s, H, run):
        return Candidate(s.at.x + self.uphill, s.mu, 1.0 if self.uphill else 0.0)


@dataclass(frozen=True)
class NoBound(Corrected):
    def of_model(self, p, s, H, c, run):
        return c, None


def logistic(n=60, d=4):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.sign(X[:, 0] + 0.5 * rng.standard_normal(n))
    return sa.Problem.linear(
        sa.Logistic(), X, y, structure=sa.Differences(d), on_structure=sa.L1(0.05)
    )


def begun(plan, x=None):
    p = Composite(logistic(), Workspace())
    run = Run(np.random.default_rng(0), 1e-6)
    pair = None if x is None else p.problem.feasible(Pair(p.problem.zeros().x1, x))
    return p, start(p, plan, run, pair), run


def test_the_loop_gives_up_after_four_steps_that_help_nothing():
    at_the_optimum = sa.minimize(logistic(), stop=1e-9).x2
    plan = Plan(SampledRows(), Stays(uphill=1.0), NoBound())
    p, s, run = begun(plan, at_the_optimum)
    before = s.objective
    verdicts = [step(p, s, plan, run) for _ in range(4)]
    assert verdicts == [Verdict.CONTINUE] * 3 + [Verdict.GIVE_UP]
    assert s.objective == before and s.n_steps == 4
    p, s, run = begun(plan, at_the_optimum)
    assert solve(p, s, plan, run, 20).n_steps == 4


def test_rounding_is_told_only_beside_a_bound():
    plan = Plan(SampledRows(), Stays(), NoBound())
    p, s, run = begun(plan, sa.minimize(logistic(), stop=1e-9).x2)
    assert step(p, s, plan, run) is Verdict.CONTINUE  # nothing is predicted, and no bound is near
    good = Plan(SampledRows(), DenseSplitting(), Corrected())
    p, s, run = begun(good, s.at.x)
    while s.dual is None or s.objective - s.lower_bound > 1e-12:
        step(p, s, good, run)
    assert step(p, s, plan, run) is Verdict.AT_ROUNDING


def test_the_recursive_call_ends_at_what_its_rows_can_tell():
    plan = Plan(SampledRows(), DenseSplitting(), NoBound())
    p, s, run = begun(plan)
    rough = solve(p, s, plan, replace(run, target=None), 20, resolution=0.5)
    assert rough.n_steps == 1 and rough.predicted <= 0.5 * abs(rough.objective)
    p, s, run = begun(plan)
    assert solve(p, s, plan, replace(run, target=None), 3).n_steps == 3


def test_a_dual_point_is_looked_for_where_the_target_is_in_reach():
    p, s, run = begun(Plan(SampledRows(), DenseSplitting(), Corrected()))
    H = SampledRows().model(p, s, run)
    c = DenseSplitting().minimize(p, s, H, run)
    scale = p.gap_scale(s.objective, s.lower_bound)
    assert H.fraction == 1 and c.predicted > 1e-2 * scale
    for target, is_in_reach in ((1e-9, False), (1.0, True)):
        # with all rows up to target^(2/3), or three times the target
        told = replace(c, predicted=max(target ** (2 / 3), 3 * target) * scale)
        near, far = replace(told, predicted=0.99 * told.predicted), told
        far = replace(told, predicted=1.01 * told.predicted)
        run = replace(run, target=target)
        assert Corrected().of_model(p, s, H, near, run)[1] is not None
        assert Corrected().of_model(p, s, H, far, run)[1] is None
        assert (Corrected().of_model(p, s, H, c, run)[1] is not None) is is_in_reach


# ---------------------------------------------------------------- what a step moves, and reads


@dataclass(frozen=True)
class TooFar(DenseSplitting):
    """A subproblem whose candidate is in the right direction, ten times too far."""

    def minimize(self, p, s, H, run):
        c = super().minimize(p, s, H, run)
        return replace(c, w=s.at.x + 10 * (c.w - s.at.x), mu=s.mu + 10 * (c.mu - s.mu))


def test_a_shortened_step_moves_the_multiplier_as_far_as_the_point():
    plan = Plan(SampledRows(), TooFar(), NoBound())
    p, s, run = begun(plan)
    s.mu = np.linspace(-0.02, 0.03, s.mu.size)
    w, mu = s.at.x, s.mu
    c = TooFar().minimize(p, s, SampledRows().model(p, s, run), run)
    step(p, s, plan, run)
    t = float((s.at.x - w) @ (c.w - w) / ((c.w - w) @ (c.w - w)))
    assert 0 < t < 1
    np.testing.assert_allclose(s.mu, mu + t * (c.mu - mu), rtol=1e-6, atol=1e-12)


def test_a_step_of_all_rows_reads_them_once():
    plan = Plan(SampledRows(), DenseSplitting(), NoBound())
    p, s, run = begun(plan)
    assert s.n_passes == s.n_gradients == 1.0
    step(p, s, plan, run)
    assert s.n_passes == 2.0 and s.n_gradients == 2.0


def test_the_rows_of_a_sample_count_and_what_drawing_them_takes_counts_once():
    from stochadmm.risk.metrics import sampler_reads

    plan = Plan(SampledRows(), DenseSplitting(), NoBound())
    p, s, run = begun(plan)
    s.trust = replace(s.trust, sample_size=15)
    once = sampler_reads(p.rows, p.workspace)
    assert once > 0
    SampledRows().model(p, s, run)
    assert s.n_passes == 1.0 + once + 0.25
    s.model = None
    SampledRows().model(p, s, run)
    assert s.n_passes == 1.0 + once + 0.5


def test_a_rise_that_was_predicted_is_no_decrease():
    # without the floor at zero a predicted rise would let F rise
    assert searched(-0.1, -1000.0)[0] == 0.0


def test_every_step_has_a_model_of_its_own_point():
    plan = Plan(SampledRows(), DenseSplitting(), NoBound())
    p, s, run = begun(plan)
    models = []
    for _ in range(3):
        at = s.at
        step(p, s, plan, run)
        models.append(s.model)
        np.testing.assert_array_equal(models[-1].sampled.sample.z, at.predictions)
    assert len({id(model) for model in models}) == 3
