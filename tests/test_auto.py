"""What the automatic solver chooses, and that its shortcuts change the cost, not the answer."""

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.solvers import sampled_newton


def logistic(n, d, alpha=1e-3, **options):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    y = np.where(X[:, :2].sum(axis=1) + rng.standard_normal(n) > 0, 1.0, -1.0)
    return sa.Problem.linear(
        sa.Logistic(), X, y, structure=sa.Differences(d), on_structure=sa.L1(alpha), **options
    )


def test_a_start_on_few_rows_saves_reads_and_changes_no_answer(monkeypatch):
    fast = sa.minimize(logistic(40_000, 6), stop=sa.Gap(1e-8))
    monkeypatch.setattr(sampled_newton, "_many", lambda f2: False)
    slow = sa.minimize(logistic(40_000, 6), stop=sa.Gap(1e-8))
    assert fast.converged and slow.converged and fast.n_passes < slow.n_passes
    assert abs(fast.objective - slow.objective) <= 2e-8 * slow.objective


def test_a_given_start_is_the_start(monkeypatch):
    problem = logistic(40_000, 6)
    found = sa.minimize(problem, stop=sa.Gap(1e-8))

    def never(f2):
        raise AssertionError("rows were copied for a start that is given")

    monkeypatch.setattr(sampled_newton, "_few", never)
    again = sa.minimize(problem, stop=sa.Gap(1e-8), start=found)
    assert again.converged and again.n_epochs <= 2


def test_a_dear_hessian_is_used_again(monkeypatch):
    drawn = []
    plain = sampled_newton.SampledNewton._sample

    def counted(self, problem, s, at, rng):
        drawn.append(s.kept is None)
        return plain(self, problem, s, at, rng)

    monkeypatch.setattr(sampled_newton.SampledNewton, "_sample", counted)
    problem = logistic(4000, 200, alpha=1e-4)
    result = sa.minimize(problem, stop=sa.Gap(1e-9))
    outside = sa.certify(problem, result.pair, result.dual, strength="corrected")
    assert result.converged and outside.gap <= 1e-8 * outside.objective
    assert 1 <= sum(drawn) < len(drawn)


@pytest.mark.parametrize(
    ("n", "d", "route"), [(300, 20, "newton"), (30, 2100, "sdca-admm")], ids=["tall", "wide"]
)
def test_the_route_follows_the_shape(n, d, route):
    chosen, reason = sa.Auto().choose(logistic(n, d))
    assert chosen == route and str(d) in reason
