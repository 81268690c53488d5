"""The small route: one compiled call with its certificate, against other ways to its answer."""

from __future__ import annotations

import numpy as np
import pytest
from tests.targets import with_targets
from tests.variants import by_variant

import stochadmm as sa
from stochadmm import structures
from stochadmm.base.workspace import Workspace
from stochadmm.forms.small import SmallLimits, small_forms
from stochadmm.kernels.extension import available, core
from stochadmm.penalties import SparseGroupNorm

pytestmark = pytest.mark.skipif(not available(), reason="the small route needs compiled kernels")

LOSSES = ("squared", "logistic", "huber", "squared_hinge", "poisson", "quantile")
PENALTIES = (
    "l1",
    "elastic",
    "positive",
    "groups",
    "chain",
    "chain+l1",
    "chain+bounds",
    "graph",
    "sparse_groups",
)


def data(loss: str, seed: int, n: int = 60, d: int = 8):
    """Return a loss, rows of uneven columns and targets."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * 10 ** rng.uniform(-1, 1, d)
    score = X[:, : d // 2] @ (1 / np.abs(X[:, : d // 2]).max(axis=0))
    score += 0.5 * rng.standard_normal(n)
    signs = np.where(score > np.median(score), 1.0, -1.0) * np.where(rng.random(n) < 0.1, -1, 1)
    counts = rng.poisson(np.exp(np.clip(score, -2, 2))).astype(float)
    return with_targets(loss, X, score, signs, counts)


def penalty(kind: str, d: int, strength: float):
    """Return the arguments of a structured penalty."""
    edges = [(j, (3 * j + 1) % d) for j in range(d) if j != (3 * j + 1) % d]
    chain, graph = sa.Differences(d), structures.from_edges(edges, n_features=d)
    l1 = sa.L1(strength)
    return {
        "l1": {"on_coefficients": l1},
        "elastic": {"on_coefficients": sa.Separable(strength, strength)},
        "positive": {"on_coefficients": sa.Separable(strength, 0.0, 0.0)},
        "groups": {"on_coefficients": sa.GroupL2(strength, [3] * (d // 3) + [d % 3])},
        "sparse_groups": {"on_coefficients": SparseGroupNorm(strength, [3] * (d // 3) + [d % 3])},
        "chain": {"structure": chain, "on_structure": l1},
        "chain+l1": {
            "structure": chain,
            "on_structure": l1,
            "on_coefficients": sa.L1(0.3 * strength),
        },
        "chain+bounds": {
            "structure": chain,
            "on_structure": l1,
            "on_coefficients": sa.Separable(0.0, 0.1 * strength, -0.5, 0.25),
        },
        "graph": {"structure": graph, "on_structure": l1, "on_coefficients": l1},
    }[kind]


def solved(problem: sa.Problem, x2=None, dual=None):
    assert SmallLimits().why_not(problem) is None
    (form,) = small_forms(problem, Workspace())
    return form.solve(np.zeros(problem.shape2) if x2 is None else x2, dual)


def case(loss: str, kind: str, seed: int) -> sa.Problem:
    """Return a problem with one of all combinations of intercept, weights and offset."""
    rng = np.random.default_rng(1000 + seed)
    function, X, y = data(loss, seed)
    strength = 10 ** rng.uniform(-3.5, -0.5)
    return sa.Problem.linear(
        function,
        X,
        y,
        intercept=bool(seed & 1),
        sample_weight=rng.integers(0, 4, len(y)).astype(float) if seed & 2 else None,
        offset=0.3 * rng.standard_normal(len(y)) if seed & 4 else None,
        **penalty(kind, X.shape[1], strength),
    )


@pytest.mark.parametrize("kind", PENALTIES)
@pytest.mark.parametrize("loss", LOSSES)
def test_bound_and_objective_enclose_what_another_method_finds(loss, kind):
    which = LOSSES.index(loss) + PENALTIES.index(kind)  # all combinations come up somewhere
    for seed in (which % 8, (which + 3) % 8):
        problem = case(loss, kind, seed)
        at, found = solved(problem)
        other = sa.minimize(problem, "sampled-newton", stop=1e-9, max_passes=2000)
        scale = max(abs(other.objective), 1e-3 * abs(problem.objective_at_zero))
        objective = found.value + found.penalty
        pair = problem.feasible(sa.Pair(np.zeros(problem.shape1), at.w))
        assert abs(problem.objective(pair) - objective) <= 1e-12 * scale
        assert found.bound <= other.objective + 1e-13 * scale
        assert objective - found.bound <= 1e-7 * scale
        assert objective <= other.objective + 1e-8 * scale


@pytest.mark.parametrize("kind", PENALTIES)
def test_answers_are_those_of_an_interior_point_solver(kind):
    cvxpy = pytest.importorskip("cvxpy")
    _, X, y = data("logistic", 3)
    strength, d = 0.02, X.shape[1]
    problem = sa.Problem.linear(sa.Logistic(), X, y, intercept=True, **penalty(kind, d, strength))
    w, c = cvxpy.Variable(d), cvxpy.Variable()
    given = penalty(kind, d, strength)
    terms = cvxpy.sum(cvxpy.logistic(-cvxpy.multiply(y, X @ w + c))) / len(y)
    constraints = []
    if "structure" in given:
        terms += strength * cvxpy.norm1(given["structure"].tosparse().toarray() @ w)
    if kind in ("l1", "elastic", "positive", "graph"):
        terms += strength * cvxpy.norm1(w)
    if kind == "chain+l1":
        terms += 0.3 * strength * cvxpy.norm1(w)
    if kind == "elastic":
        terms += strength / 2 * cvxpy.sum_squares(w)
    if kind == "positive":
        constraints.append(w >= 0)
    if kind == "chain+bounds":
        terms += 0.05 * strength * cvxpy.sum_squares(w)
        constraints += [w >= -0.5, w <= 0.25]
    if kind == "groups":
        terms += strength * sum(cvxpy.norm(w[j : j + 3]) for j in range(0, d, 3))
    if kind == "sparse_groups":
        terms += strength / 2 * sum(cvxpy.norm(w[j : j + 3]) for j in range(0, d, 3))
        terms += strength / 2 * cvxpy.norm1(w)
    best = cvxpy.Problem(cvxpy.Minimize(terms), constraints).solve(solver="CLARABEL")
    at, found = solved(problem)
    assert found.bound <= best + 1e-8
    assert found.value + found.penalty <= best + 1e-7
    assert np.abs(at.w[:-1] - w.value).max() <= 1e-3 * max(1.0, np.abs(w.value).max())


JOINING = {
    "rows": lambda d: {"on_coefficients": sa.RowsL21(0.1)},
    "groups": lambda d: {"on_coefficients": sa.GroupL2(0.1, [3] * (d // 3) + [d % 3])},
    "sparse groups": lambda d: {
        "on_coefficients": SparseGroupNorm(0.1, [3] * (d // 3) + [d % 3]),
    },
    "fused rows": lambda d: {"structure": sa.Differences(d), "on_structure": sa.RowsL21(0.1)},
}


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("loss", [sa.Squared(), sa.Huber(0.7), sa.Quantile(0.3)], ids=repr)
@pytest.mark.parametrize("kind", JOINING)
def test_outputs_that_a_norm_joins_are_solved_as_one(kind, loss, storage):
    from scipy import sparse

    rng = np.random.default_rng(len(kind))
    X = rng.standard_normal((30, 8)) * (rng.random((30, 8)) < 0.7)
    Y = X[:, :3] @ rng.standard_normal((3, 3)) + rng.standard_normal((30, 3))
    problem = sa.Problem.linear(
        loss,
        sparse.csr_array(X) if storage == "csr" else X,
        Y,
        intercept=storage == "csr",
        sample_weight=rng.integers(0, 4, 30).astype(float) if kind != "rows" else None,
        offset=rng.standard_normal((30, 3)) if kind == "groups" else None,
        **JOINING[kind](8),
    )
    result = sa.minimize(problem, "small", stop=1e-8)
    other = sa.minimize(problem, "sampled-newton", stop=1e-8, max_passes=2000)
    assert result.converged and other.converged
    # both gaps are below 1e-8: each bound is below the objective of the other
    top = abs(other.objective)
    assert result.objective - result.gap <= other.objective + 1e-12 * top
    assert other.objective - other.gap <= result.objective + 1e-12 * top
    pull = problem.f2.gradient(result.x2)
    if problem.constrained:
        pull = pull + problem.A2.rmatvec(result.dual)
        if loss.kernel[0] == "squared":
            assert np.abs(pull).max() <= 1e-7


def test_joined_outputs_are_those_of_a_multitask_lasso():
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(3)
    X = rng.standard_normal((50, 20))
    Y = X[:, :5] @ rng.standard_normal((5, 2)) + 0.5 * rng.standard_normal((50, 2))
    result = sa.minimize(sa.Problem.linear(sa.Squared(), X, Y, on_coefficients=sa.RowsL21(0.3)))
    # scikit-learn's strength is that of the sum over outputs as well
    peer = linear_model.MultiTaskLasso(0.3, fit_intercept=False, tol=1e-12).fit(X, Y)
    assert result.info["route"] == "small"
    np.testing.assert_allclose(result.x2, peer.coef_.T, atol=1e-6)
    np.testing.assert_array_equal(result.x2 == 0, peer.coef_.T == 0)


def test_zeros_and_ties_are_exact():
    _, X, y = data("squared", 0, n=200, d=10)
    problem = sa.Problem.linear(sa.Squared(), X, y, **penalty("chain+l1", 10, 0.3))
    at, found = solved(problem)
    assert found.exact
    steps = np.diff(at.w)
    assert (steps == 0).any() and (np.abs(steps[steps != 0]) > 1e-6).all()
    assert (at.w == 0).any() and (np.abs(at.w[at.w != 0]) > 1e-6).all()


def test_every_variant_has_the_same_bits():
    def run():
        at, found = solved(case("logistic", "chain+l1", 7))
        return at.w.tobytes(), at.dual.tobytes(), found

    first, *others = by_variant(run)
    assert all(other == first for other in others)


def test_weights_count_as_repeated_rows():
    loss, X, y = data("logistic", 1)
    twice = np.ones(len(y))
    twice[:20] = 2.0
    kind = penalty("chain+l1", X.shape[1], 0.03)
    one = solved(sa.Problem.linear(loss, X, y, sample_weight=twice, intercept=True, **kind))
    rows = np.r_[np.arange(len(y)), np.arange(20)]
    two = solved(sa.Problem.linear(loss, X[rows], y[rows], intercept=True, **kind))
    assert np.abs(one[0].w - two[0].w).max() <= 1e-9


def test_sparse_and_narrow_rows_give_the_answers_of_dense_ones():
    from scipy import sparse

    loss, X, y = data("squared", 5)
    X = np.where(np.abs(X) < 0.5, 0.0, X).astype(np.float32)
    kind = penalty("graph", X.shape[1], 0.05)
    wide = solved(sa.Problem.linear(loss, X.astype(np.float64), y, **kind))[0].w
    for rows in (X, sparse.csr_array(X), sparse.csr_array(X.astype(np.float64))):
        targets = y.astype(rows.dtype)
        found = solved(sa.Problem.linear(loss, rows, targets, **kind))[0].w
        assert np.abs(found - wide).max() <= 1e-5


def test_a_warm_start_needs_fewer_passes():
    problem = case("logistic", "graph", 1)
    at, cold = solved(problem)
    _, warm = solved(problem, at.w.copy(), at.dual[: problem.shape1[0]])
    assert warm.n_passes < cold.n_passes
    assert warm.value + warm.penalty <= cold.value + cold.penalty + 1e-12


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda p: p._replace(w=p.w[:-1]), "w has shape"),
        (lambda p: p._replace(indptr=p.indptr[::-1].copy()), "row pointers"),
        (lambda p: p._replace(indices=p.indices + 100), "column index"),
        (lambda p: p._replace(z=p.z.astype(np.float32)), "z: expected"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change, message):
    at, _ = solved(case("squared", "graph", 0))
    with pytest.raises((ValueError, TypeError), match=message):
        core().small_route(change(at))


def test_what_is_not_small_is_said():
    limits = SmallLimits(columns=5)
    assert limits.why_not(case("squared", "l1", 0)) == "it is not small"
    X, y = np.eye(6), np.arange(6.0)
    tv = sa.Problem.linear(sa.Squared(), X, y, on_coefficients=sa.TotalVariation1D(0.1))
    assert "penalty" in str(SmallLimits().why_not(tv))


def test_auto_takes_the_small_route_and_measures_once():
    problem = case("logistic", "graph", 1)
    result = sa.minimize(problem)
    assert result.info["route"] == "small" and result.info["engine"] == "compiled"
    assert result.converged and len(result.history) == 1
    outside = sa.certify(problem, result.pair, result.dual, strength="corrected")
    assert outside.gap <= 1e-8 * outside.objective


def test_the_reference_engine_never_takes_the_small_route():
    problem = case("squared", "chain", 0)
    result = sa.minimize(problem, engine="reference")
    assert result.info["route"] != "small" and result.info["engine"] == "reference"


def test_another_method_goes_on_where_one_call_is_not_enough():
    problem = case("logistic", "chain+l1", 5)
    result = sa.minimize(problem, stop=sa.Never(), max_passes=40)
    assert result.info["route"] == "newton" and result.n_epochs > 1
    first = sa.minimize(problem, stop=sa.Never(), max_passes=1)
    assert first.info["route"] == "small"
    resumed = sa.minimize(problem, stop=sa.Never(), max_passes=40, resume=first)
    np.testing.assert_array_equal(resumed.coef, result.coef)


def test_a_start_and_its_multiplier_are_used():
    problem = case("logistic", "graph", 1)
    cold = sa.minimize(problem)
    warm = sa.minimize(problem, start=cold)
    assert warm.converged and warm.n_passes < cold.n_passes


def test_changes_of_the_data_in_place_are_seen():
    loss, X, y = data("squared", 2)
    problem = sa.Problem.linear(loss, X, y, **penalty("chain+l1", X.shape[1], 0.05))
    before = sa.minimize(problem)
    problem.f2.X[:] *= 0.5
    after, anew = (
        sa.minimize(problem),
        sa.minimize(
            sa.Problem.linear(
                loss, problem.f2.X.copy(), y, **penalty("chain+l1", X.shape[1], 0.05)
            )
        ),
    )
    assert not np.array_equal(before.coef, after.coef)
    np.testing.assert_array_equal(after.coef, anew.coef)


def test_sparse_groups_of_a_structure_have_the_multiplier_of_their_sum():
    loss, X, y = data("squared", 4)
    d = X.shape[1]
    problem = sa.Problem.linear(
        loss, X, y, structure=sa.Differences(d), on_structure=SparseGroupNorm(0.05, [4, 3])
    )
    result = sa.minimize(problem)
    assert result.info["route"] == "small" and result.converged
    pull = problem.f2.gradient(result.x2) + problem.A2.rmatvec(result.dual)
    assert np.abs(pull).max() <= 1e-8


@pytest.mark.parametrize("factor", [1.001, 1.01, 1.1])
@pytest.mark.parametrize("groups", [[[0, 1, 2, 3, 4, 5]], [[0, 1, 2], [3, 4, 5]]])
def test_sparse_groups_above_the_largest_strength_are_exactly_zero(groups, factor):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6))
    y = X @ np.array([1.0, 0.0, 0.0, -1.0, 0.0, 1.0]) + 0.1 * rng.standard_normal(40)
    model = sa.SparseGroupLassoRegressor(groups=groups, l1_ratio=0.5)
    largest = model.alpha_max(X, y)
    model.set_params(alpha=factor * largest).fit(X, y)
    assert model.result_.info["route"] == "small"
    assert not model.coef_.any()
