"""Certificates: never below the truth, tight near the optimum, reproducible from raw data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.certificates import Certificate, CertificateOptions, certify, null_space
from stochadmm.certificates.null_space import FreeSpace
from stochadmm.losses import (
    Huber,
    Logistic,
    Multinomial,
    Poisson,
    Quantile,
    Squared,
    SquaredHinge,
)
from stochadmm.operators import Differences, GridDifferences, Identity, Incidence, VStack
from stochadmm.penalties import (
    L1,
    Box,
    ElasticNet,
    GroupL2,
    L2Ball,
    NonNegative,
    Nuclear,
    Ridge,
    RowsL21,
    Stacked,
    TotalVariation1D,
    Zero,
)
from stochadmm.problem import Pair, Problem, at_strength
from stochadmm.risk.finite_sum import FiniteSum
from stochadmm.run.path import alpha_max

# ------------------------------------------------------------------ the definitions, in few lines


def weights(problem):
    f2 = problem.f2
    q = np.ones(f2.n_terms) if f2.weight is None else f2.weight.astype(np.float64)
    q = q * (f2.n_terms / q.sum()) if q.ndim == 1 else q
    return q[:, None] if f2.n_outputs is not None and q.ndim == 1 else q


def dense(problem):
    X = problem.f2.X
    X = (X.toarray() if sparse.issparse(X) else X).astype(np.float64)
    return np.column_stack([X, np.ones(len(X))]) if problem.intercept else X


def true_objective(problem, x2):
    f2, q = problem.f2, weights(problem)
    z = dense(problem) @ x2
    if f2.offset is not None:
        z = z + f2.offset
    if q.ndim == 2 and q.shape[1] > 1:
        terms = [
            [f2.loss.value(z[[i], c], f2.y[[i], c]) for c in range(q.shape[1])]
            for i in range(len(z))
        ]
    else:
        terms = [f2.loss.value(z[[i]], f2.y[[i]]) for i in range(len(z))]
        q = q.reshape(len(z))
    value = float((q * np.asarray(terms)).sum()) / f2.n_terms
    if problem.h1 is not None:
        x1 = problem.A2.matvec(x2) - (0 if problem.b is None else problem.b)
        x1 = x1 / -problem.A1.scale
        inside = problem.h1.project(x1)
        rounding = np.abs(inside - x1).max(initial=0) <= 1e-13 * np.abs(x1).max(initial=0)
        value += problem.h1.value(inside if rounding else x1)
    return value + (0.0 if problem.h2 is None else problem.h2.value(x2))


def dual_value(problem, u, lam):
    """D(u, lam), with the dual sets widened by rounding; minus infinity outside."""
    f2, q = problem.f2, weights(problem)
    v = -dense(problem).T @ (q * u) / f2.n_terms
    size = np.abs(dense(problem)).max() * (np.abs(u).max() + 1)
    total = 0.0
    if problem.constrained:
        v = v - problem.A2.rmatvec(lam)
        total -= 0.0 if problem.b is None else float(np.vdot(lam, problem.b))
        h1 = Zero() if problem.h1 is None else problem.h1
        w = -problem.A1.rmatvec(lam)
        inside = h1.project_dual(w)
        assert np.abs(inside - w).max(initial=0) <= 1e-12 * (1 + np.abs(w).max(initial=0))
        total -= h1.conjugate(inside)
    h2 = Zero() if problem.h2 is None else problem.h2
    inside = h2.project_dual(v)
    assert np.abs(inside - v).max() <= 1e-11 * size
    total -= h2.conjugate(inside)
    if q.ndim == 2 and q.shape[1] > 1:
        columns = [f2.loss.conjugate(u[:, c], f2.y[:, c]) for c in range(q.shape[1])]
        conjugates = np.stack(columns, axis=1)
    else:
        conjugates, q = f2.loss.conjugate(u, f2.y), q.reshape(len(u))
    return total - float((q[q > 0] * conjugates[q > 0]).sum()) / f2.n_terms


def at(problem, x2):
    return Pair(np.zeros(problem.shape1), np.asarray(x2))


def solve(problem, n_steps=40):
    """A point near the optimum and its multiplier: proximal Newton steps of the certificate."""
    x, dual = np.zeros(problem.shape2), None
    best = certify(problem, at(problem, x), strength="corrected")
    for _ in range(n_steps):
        if best.gap is None or best.gap <= 1e-13 * (1 + abs(best.objective)):
            break
        if best.candidate is None or not np.isfinite(best.candidate).all():
            break
        base, dual = best.point.x2, best.candidate_dual
        for step in 0.5 ** np.arange(12):
            there = base + step * (best.candidate - base)
            found = certify(problem, at(problem, there), dual, strength="corrected")
            if found.objective < best.objective:
                break
        else:
            break
        best = found
    return best, dual


# ------------------------------------------------------------------ random problems

VECTOR_LOSSES = [
    Logistic(),
    Squared(),
    Squared(half=False),
    Huber(0.5),
    SquaredHinge(),
    Poisson(),
    Quantile(0.3, 0.5),
    Quantile(0.8, 0.1),
]


def targets(loss, rng, z):
    if isinstance(loss, (Logistic, SquaredHinge)):
        return np.where(z + 0.7 * rng.standard_normal(z.shape) > 0, 1.0, -1.0)
    if isinstance(loss, Poisson):
        return rng.poisson(np.exp(np.clip(z, -2, 2))).astype(float)
    return z + 0.3 * rng.standard_normal(z.shape)


def random_penalty(rng, rows, outputs, indicators=True):
    mu = float(10 ** rng.uniform(-3.5, -0.7))
    sizes = np.diff(np.r_[0, np.sort(rng.choice(rows - 1, min(2, rows - 1), False)) + 1, rows])
    choices = [
        L1(mu),
        L1(mu, weights=rng.random(rows) * (rng.random(rows) < 0.8)),
        ElasticNet(mu, 0.5),
        Ridge(mu),
        GroupL2(mu, sizes=sizes),
        RowsL21(mu),
        TotalVariation1D(mu),
        Stacked([(L1(mu), rows // 2), (GroupL2(mu, sizes=[rows - rows // 2]), rows - rows // 2)]),
    ]
    if outputs:
        choices += [Nuclear(mu), L1(mu, weights=rng.random((rows, outputs)))]
    if indicators:
        choices += [NonNegative(), Box(-0.5, 0.5), L2Ball(1.0), L1(mu) + NonNegative()]
    return choices[rng.integers(len(choices))]


def random_structure(rng, d):
    edges = [(i, j) for i, j in rng.integers(0, d, (d, 2)) if i != j] or [(0, 1)]
    choices = [
        Identity(d),
        Differences(d),
        Incidence(edges, n_nodes=d),
        2.0 * Identity(d),
        VStack([Differences(d), Identity(d)]),
        VStack([Incidence(edges, n_nodes=d), Identity(d)]),
    ]
    return choices[rng.integers(len(choices))]


def random_problem(seed):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(8, 60)), int(rng.integers(3, 10))
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < rng.choice([0.4, 1.0]))
    outputs = 0
    kind = rng.random()
    coef = rng.standard_normal(d) * (rng.random(d) < 0.5)
    if kind < 0.15:
        outputs = 3
        loss = Multinomial(outputs)
        y = rng.integers(0, outputs, n)
    elif kind < 0.35:
        outputs = 2
        loss = VECTOR_LOSSES[rng.integers(1, 6)]
        loss = Squared() if isinstance(loss, SquaredHinge) else loss
        y = targets(loss, rng, X @ np.stack([coef, -coef], axis=1))
    else:
        loss = VECTOR_LOSSES[rng.integers(len(VECTOR_LOSSES))]
        y = targets(loss, rng, X @ coef)
    weight = None
    if rng.random() < 0.5:
        weight = rng.random(n) * (rng.random(n) < 0.9) + 1e-3
        if rng.random() < 0.3:
            weight[rng.integers(n)] = 0.0
    dtype = np.float32 if rng.random() < 0.3 else np.float64
    if rng.random() < 0.3:
        X = sparse.csr_array(X.astype(dtype))
    options = {"intercept": bool(rng.random() < 0.4), "sample_weight": weight}
    if rng.random() < 0.75:
        A = random_structure(rng, d)
        options["structure"] = A
        simple = isinstance(A, Identity)
        options["on_structure"] = random_penalty(rng, A.shape[0], outputs, simple)
    if rng.random() < 0.4 or "structure" not in options:
        options["on_coefficients"] = random_penalty(rng, d, outputs)
    X = X.astype(dtype)
    return Problem.linear(loss, X, y, **options), rng


def check_soundness(seed):
    """Return certificates made, after checking each against the best point known."""
    problem, rng = random_problem(seed)
    best, dual = solve(problem, 15)
    lowest = true_objective(problem, best.point.x2)
    scale = 1 + abs(lowest)
    points = [np.zeros(problem.shape2), rng.standard_normal(problem.shape2), best.point.x2]
    points += [best.point.x2 + 10.0**-k * rng.standard_normal(problem.shape2) for k in (2, 5)]
    made = 0
    for x in points:
        given = [None, dual][rng.integers(2)]
        if given is not None and rng.random() < 0.5:
            given = given * (1 + 0.1 * rng.standard_normal(given.shape))
        x = x.astype(problem.dtype)
        for strength in ("scaled", "corrected"):
            found = certify(problem, at(problem, x), given, strength=strength)
            if found.gap is None:
                continue
            made += 1
            value = true_objective(problem, found.point.x2)
            assert found.objective == pytest.approx(value, rel=1e-11, abs=1e-12)
            assert found.bound <= lowest + 1e-12 * scale, (strength, found.bound - lowest)
            assert found.gap >= value - lowest - 1e-12 * scale
            if np.isfinite(found.bound):
                again = dual_value(problem, found.derivatives, found.dual)
                assert found.bound <= again + 1e-11 * (scale + abs(again))
    return made, best.gap, scale


@pytest.mark.parametrize("block", range(10))
def test_never_below_the_truth(block):
    made, solved = 0, 0
    for seed in range(30 * block, 30 * block + 30):
        count, gap, scale = check_soundness(seed)
        made += count
        solved += gap is not None and gap <= 1e-6 * scale
    assert made >= 200
    assert solved >= 22


@pytest.mark.slow
@pytest.mark.parametrize("block", range(50))
def test_never_below_the_truth_at_length(block):
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        check_soundness(seed)


# ------------------------------------------------------------------ tightness


def fused(loss, seed=0, n=400, d=20, mu=3e-3, **options):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) / np.sqrt(d)
    coef = np.repeat(rng.standard_normal(5), d // 5) * 2
    y = targets(loss, rng, X @ coef)
    A = VStack([Differences(d), Identity(d)])
    return Problem.linear(loss, X, y, structure=A, on_structure=L1(mu), **options)


@pytest.mark.parametrize("loss", VECTOR_LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("intercept", [False, True])
def test_corrected_is_tight_near_the_optimum(loss, intercept):
    weight = np.random.default_rng(3).random(400)
    problem = fused(loss, intercept=intercept, sample_weight=weight)
    best, dual = solve(problem)
    assert best.gap <= 1e-10
    rng = np.random.default_rng(1)
    direction = rng.standard_normal(problem.shape2)
    # nowhere near a kink of the piecewise ones: second order only holds between kinks
    size = 1e-3 if isinstance(loss, (Huber, Quantile, SquaredHinge)) else 1e-2
    x = best.point.x2 + size * direction
    found = certify(problem, at(problem, x), dual, strength="corrected")
    true = found.objective - best.bound
    assert true > 1e-9
    assert found.gap <= 20 * true
    assert found.kind == "corrected"


@pytest.mark.parametrize("loss", VECTOR_LOSSES, ids=lambda loss: type(loss).__name__)
def test_scaled_vanishes_at_the_optimum(loss):
    problem = fused(loss)
    best, dual = solve(problem)
    found = certify(problem, best.point, dual)
    assert found.gap <= 1e-7 * (1 + abs(found.objective))
    assert found.kkt_residual <= 1e-5


def test_sampled_rows_cost_their_share():
    problem = fused(Logistic(), n=40_000, d=60, mu=1e-4)
    best, dual = solve(problem)
    x = best.point.x2 + 3e-3 * np.random.default_rng(0).standard_normal(60)
    found = certify(problem, at(problem, x), dual, strength="corrected")
    assert found.kind == "corrected" and found.gap <= 20 * (found.objective - best.bound)
    assert found.n_passes < 3
    cache = problem.f2.evaluate(x)
    again = certify(problem, at(problem, x), dual, cache, strength="corrected")
    assert again.n_passes == pytest.approx(found.n_passes - 1)
    assert again.gap == pytest.approx(found.gap, rel=1e-6)


def test_rows_that_leave_the_domain_are_held():
    problem = fused(Logistic(), n=300, mu=1e-3)
    best, _ = solve(problem)
    x = 0.5 * best.point.x2
    found = certify(problem, at(problem, x), strength="corrected")
    scaled = certify(problem, at(problem, x))
    assert found.kind == "corrected" and found.gap < scaled.gap
    assert np.abs(found.derivatives).max() <= 1


def test_multinomial_uses_the_full_hessian():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 8))
    y = np.argmax(X[:, :3] + 0.5 * rng.standard_normal((300, 3)), axis=1)
    problem = Problem.linear(Multinomial(3), X, y, on_structure=RowsL21(0.01), intercept=True)
    best, dual = solve(problem)
    assert best.gap <= 1e-10
    x = best.point.x2 + 1e-3 * rng.standard_normal(best.point.x2.shape)
    found = certify(problem, at(problem, x), dual, strength="corrected")
    assert found.gap <= 20 * (found.objective - best.bound)


def test_two_norms_are_certified_where_their_dual_sets_only_just_reach():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((500, 30))
    y = np.argmax(X[:, :5] + rng.standard_normal((500, 5)), axis=1)
    unit = Problem.linear(
        Multinomial(5),
        X,
        y,
        structure=VStack([Identity(30), Identity(30)]),
        on_structure=Stacked([(Nuclear(0.5), 30), (L1(0.5), 30)]),
        intercept=True,
    )
    problem = at_strength(unit, alpha_max(unit))
    found = certify(problem, at(problem, np.zeros((31, 5))))
    assert found.relative(problem.objective_at_zero) <= 1e-8


def test_nuclear_norm():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 8))
    Y = X @ np.outer(rng.standard_normal(8), rng.standard_normal(4))
    Y += 0.1 * rng.standard_normal(Y.shape)
    problem = Problem.linear(Squared(), X, Y, on_structure=Nuclear(0.05))
    best, _ = solve(problem)
    assert best.gap <= 1e-7


@pytest.mark.parametrize("penalty", [NonNegative(), Box(-0.2, 0.2), L1(0.01) + NonNegative()])
def test_bounds_are_certified(penalty):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 6))
    y = X @ np.array([1.0, -1.0, 0.5, 0.0, -0.5, 0.1]) + 0.1 * rng.standard_normal(100)
    for where in ("on_structure", "on_coefficients"):
        problem = Problem.linear(Squared(), X, y, **{where: penalty})
        best, _ = solve(problem)
        assert best.gap <= 1e-9
        outside = certify(problem, at(problem, np.full(6, -3.0)))
        assert np.isfinite(outside.objective)
        assert penalty.value(outside.point.x2) < np.inf


# ------------------------------------------------------------------ against another solver


@pytest.mark.parametrize("name", ["logistic", "squared", "huber"])
def test_agrees_with_an_interior_point_method(name):
    cp = pytest.importorskip("cvxpy")
    loss = {"logistic": Logistic(), "squared": Squared(), "huber": Huber(0.5)}[name]
    problem = fused(loss, n=80, d=10, mu=0.02, intercept=True)
    best, _ = solve(problem)
    assert best.gap <= 1e-10
    w, c = cp.Variable(10), cp.Variable()
    X, y = problem.f2.X, problem.f2.y
    z = X @ w + c
    terms = {
        "logistic": lambda: cp.sum(cp.logistic(-cp.multiply(y, z))),
        "squared": lambda: 0.5 * cp.sum_squares(z - y),
        "huber": lambda: 0.5 * cp.sum(cp.huber(z - y, 0.5)),
    }[name]()
    A = problem.A2.tosparse()[:, :10]
    model = cp.Problem(cp.Minimize(terms / 80 + 0.02 * cp.norm1(A @ w)))
    model.solve(solver=cp.CLARABEL)
    assert best.bound <= model.value + 1e-7
    assert best.objective >= model.value - 1e-7


# ------------------------------------------------------------------ the contract


def test_pure():
    problem = fused(Logistic(), intercept=True)
    rng = np.random.default_rng(0)
    x, dual = rng.standard_normal(21), 0.01 * rng.standard_normal(39)
    point, cache = Pair(np.ones(39), x), problem.f2.evaluate(x)
    kept = [
        a.copy() for a in (x, dual, point.x1, cache.predictions, cache.derivative, cache.gradient)
    ]
    for strength in ("scaled", "corrected"):
        certify(problem, point, dual, cache, strength=strength)
    now = (x, dual, point.x1, cache.predictions, cache.derivative, cache.gradient)
    assert all(np.array_equal(a, b) for a, b in zip(now, kept, strict=True))


def test_float32_is_evaluated_in_float64():
    problem = fused(Logistic(), intercept=True)
    f2 = problem.f2
    small = Problem.linear(
        Logistic(),
        f2.X.astype(np.float32),
        f2.y,
        structure=problem.A2.tosparse()[:, :-1],
        on_structure=L1(3e-3),
        intercept=True,
    )
    best, _ = solve(small)
    assert best.gap <= 1e-7 and best.objective == pytest.approx(
        true_objective(small, best.point.x2), rel=1e-13
    )


def test_free_directions_give_a_better_point():
    problem = fused(Squared(), intercept=True)
    x = np.zeros(21)
    found = certify(problem, at(problem, x))
    assert found.objective < true_objective(problem, x)
    assert found.point.x2[-1] == pytest.approx(problem.f2.y.mean())


class CountingMultinomial(Multinomial):
    """Counts the products with its Hessian, each as dear as a pass over the derivatives."""

    calls = 0

    def curvature_apply(self, z, y, v):
        type(self).calls += 1
        return super().curvature_apply(z, y, v)


def test_free_directions_of_many_outputs_cost_no_product_each():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 4)), rng.integers(40, size=300)
    problem = Problem.linear(
        CountingMultinomial(40), X, y, on_coefficients=L1(0.01), intercept=True
    )
    found = certify(problem, at(problem, np.zeros((5, 40))))
    assert np.isfinite(found.gap) and CountingMultinomial.calls < 40


class WithoutParts:
    """A loss that offers its curvature by products only."""

    def __init__(self, loss):
        self.loss = loss

    def __getattr__(self, name):
        if name in ("curvature_parts", "curvature_operator", "kernel"):
            raise AttributeError(name)
        return getattr(self.loss, name)


@pytest.mark.parametrize("loss", [Squared(), Multinomial(3)], ids=["squared", "multinomial"])
def test_the_hessian_of_free_directions_is_that_of_products(loss):
    rng = np.random.default_rng(0)
    X, weight = rng.standard_normal((50, 4)), rng.random(50)
    y = rng.integers(3, size=50) if isinstance(loss, Multinomial) else X[:, :3]
    directions = [
        (slice(None), sparse.csc_array(rng.standard_normal((5, 2)))),
        ((slice(None), 1), sparse.csc_array(rng.standard_normal((5, 1)))),
    ]
    made = []
    for form in (loss, WithoutParts(loss)):
        space = FreeSpace(FiniteSum(form, X, y, intercept=True, sample_weight=weight), directions)
        space.active = np.arange(50) % 3 > 0
        made.append(space.hessian(X[:, 1:]))
    np.testing.assert_allclose(made[0], made[1], rtol=0, atol=1e-14)


def test_the_hessian_of_free_directions_is_added_up_over_pieces_of_the_rows(monkeypatch):
    rng = np.random.default_rng(0)
    X, weight = rng.standard_normal((500, 4)), rng.random(500)
    f2 = FiniteSum(Logistic(), X, np.sign(X[:, 0]), sample_weight=weight)
    basis = rng.standard_normal((4, 3))
    space = FreeSpace(f2, [(slice(None), sparse.csc_array(basis))])
    z = X[:, 1]
    curve = weight / weight.mean() * f2.loss.curvature(z, f2.y)
    expected = (X @ basis).T @ (curve[:, None] * (X @ basis)) / 500
    np.testing.assert_allclose(space.hessian(z), expected, rtol=1e-12)
    monkeypatch.setattr(null_space, "BLOCK_BYTES", 1000)
    np.testing.assert_allclose(space.hessian(z), expected, rtol=1e-12)


def test_free_mean_of_a_large_signal():
    d = 4400
    rng = np.random.default_rng(0)
    y = np.repeat([0.0, 1.0, -1.0, 2.0], d // 4) + 0.1 * rng.standard_normal(d)
    problem = Problem.linear(
        Squared(),
        sparse.eye_array(d, format="csr"),
        y,
        structure=Differences(d),
        on_structure=L1(1e-3),
    )
    found = certify(problem, at(problem, np.zeros(d)), strength="corrected")
    assert found.kind == "corrected" and np.isfinite(found.gap)


class OnlyValue:
    """A penalty without a conjugate."""

    def value(self, x):
        return float(np.abs(x).sum())

    def prox(self, v, step, out=None):
        return np.sign(v) * np.maximum(np.abs(v) - step, 0.0)


def test_kkt_residual_where_no_conjugate_exists():
    X, y = np.eye(4), np.array([3.0, 0.5, 0.0, -2.0])
    problem = Problem.linear(Squared(), X, 4 * y, structure=Identity(4), on_structure=OnlyValue())
    solution = np.sign(y) * np.maximum(np.abs(4 * y) - 4, 0.0)
    good = certify(problem, at(problem, solution))
    bad = certify(problem, at(problem, solution + 0.1))
    assert good.gap is None and good.kind == "kkt" and good.relative(1.0) is None
    assert good.kkt_residual <= 1e-12 < 1e-3 < bad.kkt_residual


def test_general_first_operator_keeps_the_bound():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 4)), rng.standard_normal(30)
    f2 = FiniteSum(Squared(), X, y)
    M = rng.standard_normal((4, 4)) + 3 * np.eye(4)
    problem = Problem(f2, h1=L1(0.1), A1=M, A2=np.eye(4) * -1.0)
    reference = Problem.linear(Squared(), X, y, structure=np.linalg.inv(M), on_structure=L1(0.1))
    best, _ = solve(reference)
    x1 = np.linalg.solve(M, best.point.x2)
    found = certify(problem, Pair(x1, best.point.x2))
    assert found.bound <= best.objective + 1e-12


def test_relative_gap():
    blank = dict(
        point=Pair(np.zeros(0), np.zeros(1)),
        bound=0.0,
        kind="scaled",
        kkt_residual=0.0,
        candidate=None,
        candidate_dual=None,
        dual=np.zeros(0),
        n_passes=0.0,
    )
    assert Certificate(objective=2.0, gap=0.5, **blank).relative(1.0) == 0.25
    assert Certificate(objective=0.0, gap=0.5, **blank).relative(100.0) == 5.0
    assert Certificate(objective=0.0, gap=0.0, **blank).relative(0.0) == 0.0


def test_grid_structure_without_identity():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 16))
    y = X @ np.repeat([1.0, -1.0], 8) + 0.1 * rng.standard_normal(150)
    problem = Problem.linear(
        Squared(), X, y, structure=GridDifferences((4, 4)), on_structure=L1(0.05)
    )
    best, _ = solve(problem)
    assert best.gap <= 1e-10
    assert np.isfinite(certify(problem, at(problem, np.zeros(16))).gap)


def test_unknown_strength():
    problem = fused(Squared())
    with pytest.raises(ValueError, match="expected one of scaled, corrected"):
        certify(problem, at(problem, np.zeros(20)), strength="weak")


# ------------------------------------------------------------------ options


def test_options_cost_tightness_and_never_truth():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 6))
    y = np.sign(X @ [1.0, 1.0, 0.0, 0.0, -1.0, -1.0] + rng.logistic(size=400))
    problem = Problem.linear(
        Logistic(), X, y, structure=Differences(6), on_structure=L1(0.02), intercept=True
    )
    truth = sa.minimize(problem, stop=sa.Gap(1e-12))
    point = Pair(truth.x1, truth.x2 + 1e-3 * rng.standard_normal(7))
    found = {
        rounds: certify(problem, point, strength="corrected", options=options)
        for rounds, options in (
            ("default", CertificateOptions()),
            ("hasty", CertificateOptions(model_iter=1, model_tol=1e-1, corrected_rounds=1)),
        )
    }
    assert all(c.bound <= truth.objective + 1e-12 for c in found.values())
    assert found["default"].gap < found["hasty"].gap
    scaled = [
        certify(problem, point, options=CertificateOptions(rounds=n, most_times=1)).bound
        for n in (1, 20)
    ]
    assert scaled[0] <= scaled[1] <= truth.objective + 1e-12


def test_rounding_that_a_waited_for_gap_does_not_notice_takes_no_further_read():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 40))
    y = X[:, :4].sum(axis=1) + 3 * rng.standard_normal(3000)
    weak = 1e-7 * np.abs(X.T @ y).max() / 3000  # its level set is wide: rounding costs more
    problem = Problem.linear(Squared(), X, y, on_structure=L1(weak))
    truth = sa.minimize(problem, stop=sa.Gap(1e-12))

    def certified(options):
        before = problem.f2.rows.tally.rows
        found = certify(problem, Pair(truth.x1, truth.x2), truth.dual, options=options)
        return found, problem.f2.rows.tally.rows - before

    patient, reads = certified(CertificateOptions())
    hasty, fewer = certified(CertificateOptions().towards(1e-4))
    assert fewer < reads
    assert hasty.bound <= patient.bound <= truth.objective + 1e-12
    assert hasty.gap <= 0.1 * 1e-4 * truth.objective


@pytest.mark.parametrize(("name", "value"), [("rounds", 0), ("model_iter", 1.5), ("charge", 0.0)])
def test_options_that_would_leave_nothing_to_do_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name} is {value}, expected"):
        CertificateOptions(**{name: value})
