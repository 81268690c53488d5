"""``step="adaptive"`` of ACC- and SVRG-ADMM: safe, the same in both engines, right at the end."""

from itertools import islice

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa

METHODS = (sa.AccSADMM, sa.SVRGADMM)


def fused(loss, n=400, d=12, seed=0, alpha=0.005, sparse_rows=False, **parts):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.7 * rng.standard_normal((n, 1))
    X *= np.exp(0.5 * rng.standard_normal((n, 1)))  # rows of different lengths
    if sparse_rows:
        X = sparse.csr_array(np.where(rng.random((n, d)) < 0.3, X, 0.0))
    z = X @ np.repeat(rng.standard_normal(d // 4), 4)
    y = {
        "logistic": lambda: np.where(z + rng.logistic(size=n) > 0, 1.0, -1.0),
        "squared": lambda: z + rng.standard_normal(n),
        "huber": lambda: z + rng.standard_t(2, n),
    }[loss]()
    made = {"logistic": sa.Logistic(), "squared": sa.Squared(), "huber": sa.Huber(0.5)}[loss]
    A = sa.VStack([sa.Differences(d), sa.Identity(d)])
    return sa.Problem.linear(made, X, y, structure=A, on_structure=sa.L1(alpha), **parts)


PROBLEMS = {
    "logistic": lambda: fused("logistic"),
    "squared, weights": lambda: fused("squared", sample_weight=np.linspace(0.1, 2.0, 400)),
    "huber, intercept": lambda: fused("huber", intercept=True),
    "sparse rows": lambda: fused("logistic", sparse_rows=True, intercept=True),
    "lasso": lambda: sa.Problem.linear(
        sa.Squared(), fused("squared").f2.X, fused("squared").f2.y, on_coefficients=sa.L1(0.05)
    ),
}


def states(problem, solver, epochs, seed=0, engine="auto"):
    return islice(sa.iterate(problem, solver, np.random.default_rng(seed), engine=engine), epochs)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_objective_at_snapshots_of_all_rows_never_rises(name, method):
    p = PROBLEMS[name]()
    for seed in range(2):
        values = []
        for state in states(p, method(step="adaptive"), 25, seed):
            if state.local.n_rows == p.f2.n_terms:
                snapshot, _ = state.local.last
                values.append(p.objective(p.feasible(snapshot)))
        assert len(values) > 15
        assert (np.diff(values) <= 1e-12 * np.abs(values[0])).all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_output_reaches_the_certified_optimum(name, method):
    p = PROBLEMS[name]()
    optimum = sa.minimize(p, stop=sa.Gap(1e-10))
    *_, state = states(p, method(step="adaptive"), 150)
    found = p.objective(p.feasible(state.output))
    assert found - (optimum.objective - optimum.gap) <= 1e-6 * abs(optimum.objective)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_readable_and_compiled_loops_have_equal_iterates(name, method):
    p = PROBLEMS[name]()
    both = [states(p, method(step="adaptive"), 8, engine=e) for e in ("reference", "auto")]
    for slow, fast in zip(*both, strict=True):
        np.testing.assert_allclose(slow.output.x2, fast.output.x2, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("method", "noise"), [(sa.AccSADMM, 2.0), (sa.SVRGADMM, 8.0)])
def test_weight_never_exceeds_the_proven_one(method, noise):
    p = fused("logistic")
    for state in states(p, method(step="adaptive"), 20):
        proven = p.f2.lipschitz_mean + noise * p.f2.lipschitz_max / state.notes["batch_size"]
        assert 0 < state.notes["curvature"] <= proven * (1 + 1e-12)


class Flatterer(sa.Squared):
    """The squared loss, with a second derivative that is far too small."""

    def curvature(self, z, y):
        return 1e-4 * super().curvature(z, y)


@pytest.mark.parametrize("method", METHODS)
def test_proven_weight_is_taken_for_good_after_three_rises(method):
    honest = fused("squared")
    p = sa.Problem.linear(
        Flatterer(), honest.f2.X, honest.f2.y, structure=honest.A2, on_structure=honest.h1
    )
    first, proven = np.inf, []
    for state in states(p, method(step="adaptive"), 200):
        first = min(first, p.objective(p.feasible(state.output)))
        proven.append(state.notes["proven"])
    assert proven[-1] and not proven[0]
    assert proven == sorted(proven)  # for good
    assert state.notes["curvature"] > p.f2.lipschitz_mean
    optimum = sa.minimize(honest, stop=sa.Gap(1e-8)).objective
    assert p.objective(p.feasible(state.output)) - optimum <= 1e-4 * optimum


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("factor", [0.01, 100.0])
def test_a_first_beta_far_off_is_balanced(method, factor):
    p = fused("logistic", n=2000)
    optimum = sa.minimize(p, stop=sa.Gap(1e-10)).objective
    (first,) = states(p, method(step="adaptive"), 1)
    off = method(step="adaptive", beta=factor * first.notes["beta"])
    *_, state = states(p, off, 25)
    assert p.objective(p.feasible(state.output)) - optimum <= 1e-5


@pytest.mark.parametrize("method", METHODS)
def test_where_it_cannot_adapt_it_is_the_expected_step(method):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 6)), rng.integers(3, size=60)
    p = sa.Problem.linear(sa.Multinomial(3), X, y, on_structure=sa.Nuclear(0.02))
    both = [states(p, method(step=step), 3) for step in ("adaptive", "expected")]
    for adaptive, expected in zip(*both, strict=True):
        np.testing.assert_array_equal(adaptive.output.x2, expected.output.x2)
        assert "one output" in adaptive.notes["not_adaptive"]


@pytest.mark.parametrize("method", METHODS)
def test_constraints_on_the_structure_are_met_with_the_proven_step(method):
    honest = fused("squared")
    p = sa.Problem.linear(
        sa.Squared(),
        honest.f2.X,
        honest.f2.y,
        structure=sa.Differences(12),
        on_structure=sa.NonNegative(),
    )
    result = sa.minimize(p, method(step="adaptive"), stop=sa.Gap(1e-4), max_passes=2000)
    assert result.status.name == "CONVERGED"


@pytest.mark.parametrize("method", METHODS)
def test_a_resumed_run_has_the_same_bits(method):
    p = fused("logistic")
    solver, never = method(step="adaptive"), sa.Never()
    whole = sa.minimize(p, solver, stop=never, max_epochs=9, random_state=0)
    half = sa.minimize(p, solver, stop=never, max_epochs=4, random_state=0)
    rest = sa.minimize(p, solver, stop=never, max_epochs=9, resume=half)
    np.testing.assert_array_equal(whole.output.x2, rest.output.x2)
    assert whole.n_passes == rest.n_passes


@pytest.mark.parametrize("method", METHODS)
def test_what_it_chooses_cannot_be_given(method):
    with pytest.raises(ValueError, match="chooses batch_size itself"):
        method(step="adaptive", batch_size=10)
    with pytest.raises(ValueError, match="expected one of"):
        method(step="fast")
