"""Methods with their knobs, and the search for settings."""

import dataclasses
import json
import time

import numpy as np
import pytest
from reproduction.tests.tiny import TINY, rows_of

import stochadmm_reproduction as experiments
from stochadmm_reproduction import config, methods, problems, search, starts, trials, tuning
from stochadmm_reproduction.methods import METHODS, Setting

pytest.importorskip("yaml")


def begun(name, problem, setting, passes=20.0):
    return starts.start(name, problem, 50, setting, passes, np.random.default_rng(0))


@pytest.mark.parametrize("name", [n for n, m in METHODS.items() if "factor" in m.knobs])
def test_a_factor_scales_the_curvature_of_theory(problem, name):
    if name == "katyusha":
        problem = dataclasses.replace(problem, h1=None, A1=None, A2=None, b=None)
    (_, theory), (_, longer) = (begun(name, problem, Setting(factor=f)) for f in (1.0, 0.25))
    if name == "vr-pddy":
        assert longer.step == pytest.approx(4 * theory.step)
        assert longer.step * longer.beta == pytest.approx(theory.step * theory.beta)
        return
    assert longer.curvature == pytest.approx(0.25 * theory.curvature)
    assert theory.n_inner == methods.n_inner(400, 50)


def test_the_growth_of_a_penalty_follows_from_the_length_of_the_run(problem):
    setting = Setting(first=0.1, rise=100.0)
    for passes in (10.0, 100.0):
        solver, state = begun("stoc-admm", problem, setting, passes)
        rng, first = np.random.default_rng(0), state.beta
        while state.n_gradients < passes:
            solver.epoch(problem, state, rng)
        assert state.beta == pytest.approx(100 * first)
    constant, _ = begun("svrg-admm", problem, Setting(rise=1.0))
    assert constant.beta.rho == 1.0


def test_the_warm_start_is_charged_and_has_steps_of_its_own(problem):
    _, plain = begun("svrg-admm", problem, Setting())
    _, longer = begun("svrg-admm", problem, Setting(warm=1 / 16))
    assert plain.n_gradients == longer.n_gradients == pytest.approx(3.0, rel=0.01)
    assert np.linalg.norm(longer.x.x2) > 1.5 * np.linalg.norm(plain.x.x2)


def test_waiting_for_other_work_is_in_no_curve(tiny, tmp_path, monkeypatch, no_figures):
    method, out = METHODS["acc-sadmm"], tmp_path / "out"

    def late(task):
        time.sleep(0.5)
        return method.make(task)

    stages = ["optima", "references", "tuning"]
    experiments.reproduce([str(tiny)], out, quick=True, methods=["acc-sadmm"], stages=stages)
    monkeypatch.setitem(METHODS, "acc-sadmm", dataclasses.replace(method, make=late))
    experiments.reproduce([str(tiny)], out, quick=True, methods=["acc-sadmm"])
    seconds = [float(row["seconds"]) for row in rows_of(out)]
    assert 0 < max(seconds) < 0.5


def test_resets_differ_in_the_penalty_alone(problem):
    states = {}
    for name in ("acc-sadmm", "acc-sadmm-reset", "acc-sadmm-momentum"):
        solver, state = begun(name, problem, Setting())
        rng, pulls = np.random.default_rng(0), []
        for _ in range(8):
            solver.epoch(problem, state, rng)
            theta1, _ = solver.schedule(problem).theta(state.s - 1, state.n_inner)
            pulls.append(state.beta / theta1)
        states[name] = np.array(pulls) / pulls[0]
    np.testing.assert_allclose(states["acc-sadmm"], np.arange(1, 9))
    np.testing.assert_allclose(states["acc-sadmm-reset"], [1, 2, 3, 4, 5, 1, 2, 3])
    np.testing.assert_allclose(states["acc-sadmm-momentum"][:6], np.arange(1, 7))
    assert (np.diff(states["acc-sadmm-momentum"]) > 0).all()


PLAN = search.Plan(9, (0.25, 0.5, 1.0), (4, 2), (1, 2, 3), 200)


def bowl(center, noise=0.0):
    """Return a measure whose best candidate is known; short runs mislead by a step."""

    def measure(candidate, share, seed):
        distance = sum(abs(k - c) for k, c in zip(candidate, center, strict=True))
        return 0.3 * distance + noise * np.sin(97.0 * seed + sum(candidate)) - 4 * share

    return measure


@pytest.mark.parametrize("center", [(0, 2), (-30, 2), (-3, 25), (17, 0)])
def test_a_search_leaves_its_box_until_the_best_is_inside(center):
    knobs = (methods.KNOBS["first"], methods.KNOBS["rise"])
    found = search.Search(knobs, bowl(center, 0.001), PLAN).run()
    assert found.candidate == center
    wanted = [search.INNER, search.BOUND if center[1] == 0 else search.INNER]
    assert [side.status for side in found.sides] == wanted
    assert all(side.below is None or side.below > found.score for side in found.sides)


def test_a_search_that_is_cut_short_says_that_it_stands_at_an_edge():
    knobs = (methods.KNOBS["first"], methods.KNOBS["rise"])
    few = dataclasses.replace(PLAN, most=3)
    found = search.Search(knobs, bowl((-30, 2)), few).run()
    assert search.EDGE in [side.status for side in found.sides]


def test_every_method_gets_the_same_number_of_candidates_whatever_its_knobs():
    plan = dataclasses.replace(PLAN, most=60)
    counts = []
    for names in (("factor", "first"), ("factor", "first", "rise", "noise")):
        knobs = tuple(methods.KNOBS[name] for name in names)
        center = (-3, 1, 2, -2)[: len(knobs)]
        searching = search.Search(knobs, bowl(center, 0.001), plan)
        found = searching.run()
        assert found.candidate == center
        counts.append(searching.n_whole)
    assert all(60 <= count < 100 for count in counts)


def test_a_walk_that_ends_in_a_hollow_is_not_the_last():
    def two_hollows(candidate, share, seed):  # short runs show the shallow one only
        shallow, deep = abs(candidate[0] + 5), abs(candidate[0] - 3)
        return 0.2 * min(shallow, 3) - 1.0 if share < 1.0 else min(0.2 * shallow, 0.3 * deep - 1)

    found = search.Search((methods.KNOBS["first"],), two_hollows, PLAN).run()
    assert found.candidate == (3,)


def test_what_seeds_cannot_tell_apart_is_flat():
    found = search.Search((methods.KNOBS["first"],), lambda c, share, seed: 0.0, PLAN).run()
    assert [side.status for side in found.sides] == [search.FLAT]


def test_diverged_candidates_are_never_chosen():
    def measure(candidate, share, seed):
        return np.inf if candidate[0] < 1 else -float(min(candidate[0], 3)) + abs(candidate[0] - 3)

    found = search.Search((methods.KNOBS["factor"],), measure, PLAN).run()
    assert found.candidate == (3,)
    assert found.sides[0].status == search.INNER


def test_knobs_are_tuned_together():
    def valley(candidate, share, seed):  # neither coordinate alone leads there
        a, b = candidate
        return 0.2 * abs(a + b) + 0.05 * abs(a - b - 6)

    knobs = (methods.KNOBS["factor"], methods.KNOBS["first"])
    found = search.Search(knobs, valley, PLAN).run()
    assert valley(found.candidate, 1.0, 1) <= 0.1


def test_a_search_goes_on_where_it_was_stopped(problem, tmp_path):
    plan = config.Tuning(3, [2, 1], seeds=[101, 102], most=3)
    best = problems.optimum(problem, 10)

    def tuned(path):
        log = trials.TrialLog(path, "x")
        return tuning.tune("svrg-admm", problem, 50, plan, 10.0, best, log)

    whole = tuned(tmp_path / "whole.csv")
    lines = (tmp_path / "whole.csv").read_text().splitlines(keepends=True)
    assert len(lines) == whole.n_trials + 1
    # half of the trials, and half a line of one that was being written
    cut = len(lines) // 2
    (tmp_path / "cut.csv").write_text("".join(lines[:cut]) + lines[cut][: len(lines[cut]) // 2])
    again = tuned(tmp_path / "cut.csv")
    rows = (tmp_path / "cut.csv").read_text().splitlines(keepends=True)
    assert rows[:cut] == lines[:cut]
    kept = ("setting", "score", "sides", "n_trials", "passes")
    assert [getattr(again, k) for k in kept] == [getattr(whole, k) for k in kept]
    assert tuning.Tuned.from_plain(json.loads(json.dumps(whole.plain()))) == whole


def test_more_candidates_take_over_the_trials_that_there_are(tiny, tmp_path, no_figures):
    def tune(text):
        tiny.write_text(text)
        stages = ["optima", "references", "tuning"]
        experiments.reproduce([str(tiny)], tmp_path / "out", stages=stages, methods=["acc-sadmm"])
        (path,) = (tmp_path / "out" / "full" / "trials").rglob("*.csv")
        return path.read_text().splitlines()

    few = tune(TINY)
    more = tune(TINY.replace("most: 2", "most: 30"))
    assert more[: len(few)] == few
    assert len(more) > len(few)
    # two problems: the sample of the rows, and all of them, on which the choice is checked
    assert len({line.split(",")[0] for line in more[1:]}) == 2


def test_trials_of_another_problem_are_not_taken(tmp_path):
    path = tmp_path / "trials.csv"
    trials.TrialLog(path, "a").once((0, 1), 1.0, 3, lambda: (0.5, 10.0, 0.1))
    other = trials.TrialLog(path, "b").once((0, 1), 1.0, 3, lambda: (0.7, 10.0, 0.1))
    again = trials.TrialLog(path, "a").once((0, 1), 1.0, 3, lambda: (0.9, 10.0, 0.1))
    assert (other.objective, again.objective) == (0.7, 0.5)


def test_a_diverging_trial_is_never_chosen(problem):
    value, *_ = tuning.trial("svrg-admm", problem, 50, Setting(factor=1e-9, first=1e-9), 10, 0)
    assert tuning.score(value, problems.Optimum(0.1, 0.0, 0.0, True)) == np.inf
