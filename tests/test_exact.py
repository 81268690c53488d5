"""Exact structure in the answer: ties, zeros and rank as sets and integers, not nearly so."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm import datasets, structures
from stochadmm.exact import candidates, project
from stochadmm.run.monitor import Monitor

# ---------------------------------------------------------------- how structure is read


def levels(coef):
    """The sets of coefficients with exactly the same value."""
    return {frozenset(np.flatnonzero(coef == value).tolist()) for value in np.unique(coef)}


def support(coef):
    """The coefficients that are not exactly zero."""
    return set(np.flatnonzero(coef).tolist())


def active(groups, coef):
    """The groups that are not exactly zero."""
    return {name for name, columns in groups.items() if np.any(coef[columns] != 0)}


def rank(coef):
    """The number of singular values above rounding."""
    return int(np.linalg.matrix_rank(coef))


def perturbed(coef):
    return coef + 1e-9 * np.random.default_rng(0).standard_normal(coef.shape)


def raw_objective(problem, result):
    """F of the returned coefficients from the raw data, in float64."""
    f2, x2 = problem.f2, result.coef.astype(np.float64)
    X = f2.X.toarray() if sparse.issparse(f2.X) else f2.X
    z = X.astype(np.float64) @ x2
    if problem.intercept:
        z = z + result.intercept
    q = np.ones(f2.n_terms) if f2.weight is None else f2.weight.astype(np.float64)
    terms = [f2.loss.value(z[[i]], f2.y[[i]]) for i in range(len(z))]
    value = float(q @ terms) / q.sum()
    if problem.A2 is not None:
        full = x2 if not problem.intercept else np.concatenate([x2, np.zeros((1, *x2.shape[1:]))])
        value += problem.h1.value(problem.A2.matvec(full))
    if problem.h2 is not None:
        full = x2 if not problem.intercept else np.concatenate([x2, np.zeros((1, *x2.shape[1:]))])
        value += problem.h2.value(full)
    return value


def check(problem, result, tol=1e-6):
    """The result converged, and its numbers belong to its coefficients."""
    assert result.status is sa.Status.CONVERGED, result.message
    assert result.relative_gap <= tol
    assert result.objective == pytest.approx(raw_objective(problem, result), rel=1e-12)
    best = sa.minimize(problem, stop=1e-11, max_passes=1000)
    assert result.objective - result.gap <= best.objective + 1e-12 * abs(best.objective)
    assert result.objective >= best.objective - best.gap - 1e-12 * abs(best.objective)


# ---------------------------------------------------------------- planted structure

SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_levels_of_a_chain_come_back_as_sets(seed, weighted):
    data = datasets.make_chain(800, 30, n_levels=6, noise=0.2, random_state=seed)
    d = 30
    problem = sa.Problem.linear(
        sa.Squared(),
        data.X,
        data.y,
        structure=sa.VStack([sa.Differences(d), sa.Identity(d)]),
        on_structure=sa.L1(0.015),
        intercept=True,
        sample_weight=np.random.default_rng(seed).uniform(0.5, 1.5, 800) if weighted else None,
    )
    result = sa.minimize(problem)
    check(problem, result)
    assert levels(result.coef) == levels(data.coef)
    assert support(result.coef) == support(data.coef)
    assert levels(perturbed(result.coef)) != levels(data.coef)
    assert support(perturbed(result.coef)) != support(data.coef)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("response", ["real", "binary"])
def test_communities_of_a_graph_come_back_as_sets(seed, response):
    rows, signal = (800, 4.0) if response == "real" else (4000, 8.0)
    data = datasets.make_graph_fused(
        rows, 20, n_levels=3, signal=signal, noise=0.1, response=response, random_state=seed
    )
    problem = sa.Problem.linear(
        sa.Squared() if response == "real" else sa.Logistic(),
        data.X,
        data.y,
        structure=structures.from_edges(data.graph, n_features=20),
        on_structure=sa.L1(0.02),
        intercept=True,
    )
    result = sa.minimize(problem)
    check(problem, result)
    assert levels(result.coef) == levels(data.coef)
    assert levels(perturbed(result.coef)) != levels(data.coef)


@pytest.mark.parametrize("seed", SEEDS)
def test_active_groups_come_back_as_sets(seed):
    data = datasets.make_overlapping_groups(
        600, n_groups=8, group_size=4, overlap=0, n_active=3, noise=0.3, random_state=seed
    )
    problem = sa.Problem.linear(
        sa.Squared(),
        data.X,
        data.y,
        structure=sa.Selection(list(data.groups.values()), 32),
        on_structure=sa.GroupL2(0.05, [4] * 8),
    )
    result = sa.minimize(problem)
    check(problem, result)
    assert active(data.groups, result.coef) == active(data.groups, data.coef)
    assert support(result.coef) == support(data.coef)
    assert active(data.groups, perturbed(result.coef)) != active(data.groups, data.coef)


def test_overlapping_groups_leave_the_complement_of_a_union():
    """What the penalty can express: the zeros are a union of groups."""
    rng = np.random.default_rng(0)
    groups = {f"group {j}": np.arange(3 * j, 3 * j + 5) for j in range(8)}
    d = 26
    coef = np.zeros(d)
    zero = ("group 0", "group 1", "group 5", "group 7")
    coef[:] = 3 * rng.uniform(0.5, 1.0, d) * rng.choice([-1, 1], d)
    for name in zero:
        coef[groups[name]] = 0.0
    X = rng.standard_normal((500, d))
    problem = sa.Problem.linear(
        sa.Squared(),
        X,
        X @ coef + 0.3 * rng.standard_normal(500),
        structure=sa.Selection(list(groups.values()), d),
        on_structure=sa.GroupL2(0.15, [5] * 8),
    )
    result = sa.minimize(problem)
    check(problem, result)
    assert support(result.coef) == support(coef)
    assert set(zero) <= set(groups) - active(groups, result.coef)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("where", ["on_structure", "on_coefficients"])
@pytest.mark.parametrize("solver", ["auto", "acc-sadmm"])
def test_the_rank_comes_back(seed, where, solver):
    data = datasets.make_low_rank_tasks(600, 12, 8, rank=2, noise=0.3, random_state=seed)
    problem = sa.Problem.linear(
        sa.Squared(), data.X, data.y, intercept=True, **{where: sa.Nuclear(0.1)}
    )
    result = sa.minimize(problem, solver, max_passes=1000)
    check(problem, result)
    assert rank(result.coef) == rank(data.coef) == 2
    assert rank(perturbed(result.coef)) > 2


def test_rank_and_zeros_of_a_multinomial_model():
    data = datasets.make_low_rank_tasks(
        1500, 8, 5, rank=1, n_active=4, signal=8.0, response="classes", random_state=1
    )
    problem = sa.Problem.linear(
        sa.Multinomial(5), data.X, data.y, structure=sa.Identity(8), on_structure=sa.Nuclear(0.02)
    )
    result = sa.minimize(problem)
    check(problem, result)
    assert rank(result.coef) < 5
    assert rank(perturbed(result.coef)) == 5


@pytest.mark.parametrize("solver", ["auto", "acc-sadmm", "svrg-admm", "admm", "sdca-admm"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_every_method_returns_exact_ties_and_zeros(solver, dtype):
    data = datasets.make_chain(400, 12, n_levels=3, noise=0.2, signal=3.0, random_state=1)
    d = 12
    problem = sa.Problem.linear(
        sa.Squared(),
        data.X.astype(dtype),
        data.y,
        structure=sa.VStack([sa.Differences(d), sa.Identity(d)]),
        on_structure=sa.L1(0.02),
    )
    result = sa.minimize(problem, solver, stop=1e-5, max_passes=1500)
    assert result.converged and result.coef.dtype == dtype
    assert levels(result.coef) == levels(data.coef)
    assert result.objective == pytest.approx(raw_objective(problem, result), rel=1e-7)


# ---------------------------------------------------------------- the projection itself


def residual(A, zero_rows, x):
    return np.abs((A @ x)[zero_rows]).max(initial=0.0)


def test_ties_with_weights_and_signs():
    rng = np.random.default_rng(0)
    edges = np.array([[0, 1], [1, 2], [3, 4], [5, 6]])
    A = sa.Incidence(edges, 8, weights=[1.0, 3.0, 0.5, 2.0], signs=[1, -1, -1, 1]).tosparse()
    x = rng.standard_normal(8)
    mask = np.array([True, True, True, False])
    out = project(A, mask, np.zeros(8, bool), x)
    assert out[0] == out[1] == -out[2] and out[3] == -out[4]
    assert out[0] == pytest.approx((x[0] + x[1] - x[2]) / 3)
    np.testing.assert_array_equal(out[5:], x[5:])
    assert residual(A, mask, out) == 0


def test_unequal_entries_of_a_row_tie_in_proportion():
    A = sparse.csr_array(np.array([[1.0, -2.0, 0.0], [0.0, 1.0, -4.0]]))
    x = np.array([8.0, 3.0, 2.0])
    out = project(A, np.array([True, True]), np.zeros(3, bool), x)
    assert out[0] == 2 * out[1] and out[1] == 4 * out[2]
    base = np.array([8.0, 4.0, 1.0])
    np.testing.assert_allclose(out, base * (base @ x) / (base @ base))


def test_a_zero_spreads_over_its_component_and_contradictions_are_zero():
    A = sa.Incidence([[0, 1], [1, 2], [3, 4]], 5).tosparse()
    zero = np.array([False, True, False, False, False])
    out = project(A, np.array([True, True, False]), zero, np.arange(1.0, 6.0))
    np.testing.assert_array_equal(out, [0, 0, 0, 4, 5])
    odd = sa.Incidence([[0, 1], [1, 2], [0, 2]], 3, signs=[1, 1, -1]).tosparse()
    np.testing.assert_array_equal(project(odd, np.ones(3, bool), np.zeros(3, bool), np.ones(3)), 0)
    single = sparse.csr_array(np.array([[0.0, 2.0, 0.0]]))
    np.testing.assert_array_equal(
        project(single, np.array([True]), np.zeros(3, bool), np.ones(3)), [1, 0, 1]
    )


def test_longer_rows_are_projected_by_least_squares():
    rng = np.random.default_rng(0)
    A = sa.Differences(8, order=2).tosparse()
    mask = np.array([True, True, False, True, False, True])
    x = rng.standard_normal(8)
    out = project(A, mask, np.zeros(8, bool), x)
    B = A.toarray()[mask]
    expected = x - np.linalg.pinv(B) @ (B @ x)
    np.testing.assert_allclose(out, expected, atol=1e-12)
    assert residual(A, mask, out) <= 1e-14


def test_columns_of_a_matrix_are_projected_by_themselves_and_types_stay():
    A = sa.Differences(4).tosparse()
    x = np.arange(8.0, dtype=np.float32).reshape(4, 2)
    mask = np.array([[True, False], [False, True], [True, False]])
    out = project(A, mask, np.zeros((4, 2), bool), x)
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out[:, 0], [1, 1, 5, 5])
    np.testing.assert_array_equal(out[:, 1], [1, 4, 4, 7])


# ---------------------------------------------------------------- when structure is kept


def chain_problem():
    data = datasets.make_chain(200, 10, n_levels=3, noise=0.2, random_state=1)
    return sa.Problem.linear(
        sa.Squared(), data.X, data.y, structure=sa.Differences(10), on_structure=sa.L1(0.02)
    )


def test_structure_is_kept_only_if_the_objective_does_not_rise_beyond_the_tolerance():
    problem = chain_problem()
    best = sa.minimize(problem, stop=1e-12)
    monitor = Monitor(problem, sa.Gap(1e-6))
    monitor.bound = best.objective
    state = sa.solvers.get("acc-sadmm")().start(problem, best.pair, best.dual)

    def measured(x2, dual, beta):
        point = problem.feasible(sa.Pair(np.zeros(9), x2))
        own = replace(state, beta=beta)
        return monitor.appraise(own, point, dual=dual)

    moved = best.coef + 1e-9 * np.random.default_rng(0).standard_normal(10)
    near = measured(moved, best.dual, 1.0)
    kept = monitor.structured(near, state)
    assert levels(kept.point.x2) == levels(best.coef)
    assert kept.objective <= near.objective + 1e-6 * near.objective
    assert kept.objective == problem.objective(kept.point)
    # a multiplier that ties everything asks for a structure that costs too much
    wrong = measured(moved, 0 * best.dual, 1e-9)
    flat = candidates(problem, near.point.x2, wrong.dual, wrong.beta, None, monitor.workspace)
    assert len(flat) == 1 and len(levels(flat[0])) == 1
    refused = monitor.structured(wrong, state)
    np.testing.assert_array_equal(refused.point.x2, near.point.x2)
    assert refused.objective == near.objective


def test_without_a_tolerance_structure_may_not_cost_anything():
    problem = chain_problem()
    result = sa.minimize(problem, "acc-sadmm", stop=sa.Never(), max_passes=40)
    assert result.objective <= min(r.objective for r in result.history)
    assert result.objective == pytest.approx(raw_objective(problem, result), rel=1e-12)


@pytest.mark.parametrize("passes", [3, 10, 30])
@pytest.mark.parametrize("solver", ["acc-sadmm", "svrg-admm", "stoc-admm", "auto"])
def test_objective_and_gap_belong_to_the_coefficients_of_unfinished_runs(solver, passes):
    problem = chain_problem()
    best = sa.minimize(problem, stop=1e-12).objective
    result = sa.minimize(problem, solver, stop=1e-9, max_passes=passes)
    assert result.objective == pytest.approx(raw_objective(problem, result), rel=1e-12)
    assert result.objective - best <= result.gap * (1 + 1e-9) + 1e-13
    found = sa.certify(problem, sa.Pair(result.x1, result.coef), result.dual)
    assert found.objective <= result.objective * (1 + 1e-12)
