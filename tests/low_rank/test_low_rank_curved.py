"""Curved losses with a nuclear norm: against a conic solver, by properties, bounds proved."""

import itertools
import warnings

import cvxpy as cp
import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.low_rank import (
    Bounds,
    CurvedLoss,
    Diagonal,
    Fista,
    Kronecker,
    read,
)
from stochadmm.low_rank.dual import shrunk, split
from stochadmm.solvers import LowRankNewton

A, B = 0.03, 0.01
METHOD = "low-rank-newton"


def classes(seed=0, n=90, d=6, outputs=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) + 0.5
    W = rng.standard_normal((d, 2)) @ rng.standard_normal((2, outputs))
    return X, (X @ W + rng.gumbel(size=(n, outputs))).argmax(axis=1)


def stated(X, y, kind="entries", *, loss=None, free=(), a=A, b=B, **given):
    d = X.shape[1]
    held = np.setdiff1d(np.arange(d), free)
    one = sa.Selection([held], d) if len(free) else sa.Identity(d)
    loss = sa.Multinomial(int(np.max(y)) + 1) if loss is None else loss
    if kind == "alone":
        return sa.Problem.linear(loss, X, y, structure=one, on_structure=sa.Nuclear(a), **given)
    norm = sa.RowsL21(b) if kind == "rows" else sa.L1(b)
    return sa.Problem.linear(
        loss,
        X,
        y,
        structure=sa.VStack([one, one]),
        on_structure=sa.Stacked([(sa.Nuclear(a), held.size), (norm, held.size)]),
        **given,
    )


def no_subgradients(form, shape):
    """Return the subgradients of a cold start."""
    return [np.zeros(shape) for _ in form.terms]


def value(problem, W, w0, kind, free=(), a=A, b=B):
    """Return the objective by NumPy."""
    f2 = problem.f2
    X = f2.X.toarray() if sparse.issparse(f2.X) else f2.X
    z = X @ W + w0 + (0 if f2.offset is None else f2.offset)
    n, q = len(z), np.ones(len(z)) if f2.weight is None else f2.weight
    if isinstance(f2.loss, sa.Multinomial):
        top = z.max(axis=1)
        each = np.log(np.exp(z - top[:, None]).sum(axis=1)) + top - z[np.arange(n), f2.y]
    else:
        r = np.abs(z - f2.y)
        each = np.where(r <= f2.loss.delta, r**2 / 2, f2.loss.delta * (r - f2.loss.delta / 2))
    V = W[np.setdiff1d(np.arange(len(W)), free)]
    norms = {"alone": 0.0, "entries": np.abs(V).sum(), "rows": np.linalg.norm(V, axis=1).sum()}
    return float((q.T * each.T).sum() / n + a * np.linalg.norm(V, "nuc") + b * norms[kind])


def optimum(problem, kind, free=(), a=A, b=B):
    """Return the objective, by NumPy, at the point of a conic solver: never below the optimum."""
    f2 = problem.f2
    X = f2.X.toarray() if sparse.issparse(f2.X) else f2.X
    n, C = len(X), f2.n_outputs
    W, w0 = cp.Variable((X.shape[1], C)), cp.Variable((1, C))
    z = X @ W + (np.ones((n, 1)) @ w0 if f2.intercept else 0)
    z = z if f2.offset is None else z + f2.offset
    q = np.ones(n) if f2.weight is None else f2.weight
    if isinstance(f2.loss, sa.Multinomial):
        each = cp.log_sum_exp(z, axis=1) - cp.sum(cp.multiply(np.eye(C)[f2.y], z), axis=1)
        loss = cp.sum(cp.multiply(q, each))
    else:
        weights = np.broadcast_to(q.T, (C, n)).T
        loss = cp.sum(cp.multiply(weights, cp.huber(z - f2.y, f2.loss.delta))) / 2
    V = W[np.setdiff1d(np.arange(X.shape[1]), free)]
    norms = {"alone": 0, "entries": cp.sum(cp.abs(V)), "rows": cp.sum(cp.norm(V, 2, axis=1))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cp.Problem(cp.Minimize(loss / n + a * cp.normNuc(V) + b * norms[kind])).solve(
            solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10
        )
    return value(problem, W.value, w0.value if f2.intercept else 0.0, kind, free, a, b)


def huber(seed=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((80, 6))
    Y = X @ rng.standard_normal((6, 3)) + rng.standard_t(2, (80, 3))
    return X, Y, (rng.random(Y.shape) < 0.7).astype(float)


def words():
    rng = np.random.default_rng(3)
    X = sparse.random_array((120, 40), density=0.07, random_state=rng).tocsr()
    X.data[:] = 1 + rng.random(X.nnz)
    return X, rng.integers(0, 3, 120)


CASES = {
    "multinomial": lambda: (*classes(), {}),
    "intercept": lambda: (*classes(), {"intercept": True}),
    "weights": lambda: (*classes(), {"intercept": True, "sample_weight": np.arange(90) % 3.0}),
    "free columns": lambda: (*classes(), {"intercept": True, "free": (0, 3)}),
    "offset": lambda: (*classes(), {"offset": np.random.default_rng(1).standard_normal((90, 4))}),
    "few rows": lambda: (*classes(n=20), {"intercept": True}),
    "singular": lambda: (np.hstack([classes()[0]] * 2), classes()[1], {}),
    "words": lambda: (*words(), {"intercept": True}),
    "huber": lambda: (*huber()[:2], {"loss": sa.Huber(1.0), "intercept": True}),
    "missing targets": lambda: (
        *huber()[:2],
        {"loss": sa.Huber(1.0), "sample_weight": huber()[2]},
    ),
}


@pytest.mark.parametrize("kind", ["entries", "rows", "alone"])
@pytest.mark.parametrize("case", CASES)
def test_the_certified_answer_agrees_with_a_conic_solver(case, kind):
    X, y, given = CASES[case]()
    problem = stated(X, y, kind, **given)
    best = optimum(problem, kind, given.get("free", ()))
    result = sa.minimize(problem, METHOD, stop=sa.Gap(1e-6), max_passes=1e4)
    assert result.status.name == "CONVERGED"
    assert result.objective - result.gap <= best * (1 + 1e-12)  # the bound is a bound
    assert abs(result.objective - best) <= 2e-6 * best


@pytest.mark.parametrize("kind", ["entries", "rows", "alone"])
@pytest.mark.parametrize("share", [1 / 30, 1 / 1000])
def test_weak_norms_are_certified_on_rows_with_a_common_mean(share, kind):
    rng = np.random.default_rng(4)
    X = np.maximum(rng.standard_normal((400, 10)) + 0.5, 0.0)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    z = 4 * X @ rng.standard_normal((10, 2)) @ rng.standard_normal((2, 5))
    y = (z + rng.gumbel(size=z.shape)).argmax(axis=1)
    strength = share * np.abs(X.T @ (1 / 5 - np.eye(5)[y])).max() / len(X)
    problem = stated(X, y, kind, a=strength, b=strength)
    best = optimum(problem, kind, a=strength, b=strength)
    for tol in (1e-3, 1e-6):
        result = sa.minimize(problem, METHOD, stop=sa.Gap(tol), max_passes=1e4)
        assert result.status.name == "CONVERGED"
        assert result.objective - result.gap <= best * (1 + 1e-12)
        assert result.objective <= best * (1 + 2 * tol)


def test_every_bound_on_the_way_is_below_the_optimum():
    problem = stated(*classes(5), intercept=True)
    best = optimum(problem, "entries")
    run = sa.minimize(problem, METHOD, stop=sa.Gap(1e-9), max_passes=2000).history
    assert max(record.objective - record.gap for record in run) <= best * (1 + 1e-12)


@pytest.mark.parametrize("kind", ["alone", "entries", "rows"])
def test_accelerated_steps_certify_themselves_with_bounds_below_the_optimum(kind):
    X, y = classes(seed=4, n=60, d=20)
    problem = stated(X, y, kind, intercept=True)
    best = sa.minimize(problem, METHOD, stop=sa.Gap(1e-9), max_passes=1e5).objective
    form = read(problem)
    loss = CurvedLoss(problem.f2, form.rows, form.free)
    run = Fista(Bounds.of(problem, loss, form))
    run.begin(np.zeros((20, 4)), None, no_subgradients(form, (20, 4)))
    done = False
    for _ in range(2000):
        run.step()
        if not run.goes_on(1e-5 * best) or (done := run.certify(1e-4 * best)):
            break
        assert run.lower <= best * (1 + 1e-9) and run.upper >= best * (1 - 1e-9)
    assert done and best * (1 - 1e-4) <= run.lower <= best * (1 + 1e-9)


def test_row_weight_two_is_the_row_twice():
    X, y = classes(6)
    twice = np.r_[np.arange(90), np.arange(0, 90, 2)]
    weight = np.where(np.arange(90) % 2 == 0, 2.0, 1.0)
    one = sa.minimize(
        stated(X, y, sample_weight=weight, intercept=True), METHOD, stop=sa.Gap(1e-7)
    )
    two = sa.minimize(stated(X[twice], y[twice], intercept=True), METHOD, stop=sa.Gap(1e-7))
    assert one.objective == pytest.approx(two.objective, rel=2e-7)


def test_renamed_classes_permute_the_answer():
    X, y = classes(7)
    order = np.array([2, 0, 3, 1])
    one = sa.minimize(stated(X, y, intercept=True), METHOD, stop=sa.Gap(1e-8), max_passes=1e4)
    two = sa.minimize(
        stated(X, order[y], intercept=True), METHOD, stop=sa.Gap(1e-8), max_passes=1e4
    )
    assert one.objective == pytest.approx(two.objective, rel=2e-8)
    np.testing.assert_allclose(two.coef[:, order], one.coef, atol=2e-3)


def test_float32_rows_give_float32_answers_certified_in_float64():
    X, y = classes(8)
    problem = stated(X.astype(np.float32), y, intercept=True)
    result = sa.minimize(problem, METHOD, stop=sa.Gap(1e-4))
    assert result.coef.dtype == np.float32 and result.status.name == "CONVERGED"
    exact = stated(X.astype(np.float32).astype(np.float64), y, intercept=True)
    assert result.objective - result.gap <= optimum(exact, "entries") * (1 + 1e-12)


def test_the_same_call_twice_gives_the_same_bits():
    one, two = (sa.minimize(stated(*classes(9), intercept=True), METHOD) for _ in range(2))
    np.testing.assert_array_equal(one.coef, two.coef)
    assert one.gap == two.gap and one.n_passes == two.n_passes


def test_where_the_norms_hold_everything_at_zero_the_answer_is_zero():
    result = sa.minimize(
        stated(*classes(10), a=10.0, b=5.0, intercept=True), METHOD, stop=sa.Gap(1e-6)
    )
    assert result.status.name == "CONVERGED"
    assert not result.coef.any()


def test_small_tall_and_cheap_data_take_their_ways_and_the_reason_says_so():
    assert sa.Auto().choose(stated(*classes(11)))[0] == "newton"  # its exact Hessian is small
    route, tall = sa.Auto().choose(stated(*classes(11, n=1200, d=80, outputs=30)))
    assert route == METHOD and "gradient" not in tall and "Kronecker" in tall
    assert "gradient" in sa.Auto().choose(stated(*classes(11, n=300, d=80, outputs=30)))[1]
    rng = np.random.default_rng(0)
    X = sparse.random_array((400, 200), density=0.05, random_state=rng).tocsr()
    route, rare = sa.Auto().choose(stated(X, np.arange(400) % 12))
    assert route == METHOD and "diagonal" in rare


def test_other_penalties_than_one_norm_are_refused_in_words():
    X, y = classes(12)
    three = sa.Problem.linear(
        sa.Multinomial(), X, y, on_structure=sa.Nuclear(0.1), on_coefficients=sa.NonNegative()
    )
    assert "one norm of entries or rows" in LowRankNewton().why_not(three)
    with pytest.raises(ValueError, match="one norm"):
        sa.minimize(three, "low-rank-newton")


@pytest.mark.parametrize("kind", [Kronecker, Diagonal])
def test_shifted_solves_undo_the_metric(kind):
    rng = np.random.default_rng(0)
    problem = stated(*classes(13), intercept=True)
    form = read(problem)
    loss = CurvedLoss(problem.f2, form.rows, form.free)
    metric = kind(loss)
    one, two = loss.at(np.zeros((6, 4))), loss.at(0.1 * rng.standard_normal((6, 4)))
    metric.renew(one)
    metric.remember(two.W - one.W, two.gradient - one.gradient)
    metric.prepare()
    R = rng.standard_normal((6, 4))
    solved = metric.solve(R, 0.3)
    np.testing.assert_allclose(metric.apply(solved) + 0.3 * solved, R, atol=1e-10)
    # the last pair is met exactly
    np.testing.assert_allclose(
        metric.apply(two.W - one.W), two.gradient - one.gradient, atol=1e-10
    )


def test_products_with_the_hessian_agree_with_differences_of_gradients():
    rng = np.random.default_rng(1)
    X, y = classes(14)
    problem = stated(X, y, intercept=True, free=(1,), sample_weight=rng.random(90) + 0.1)
    form = read(problem)
    loss = CurvedLoss(problem.f2, form.rows, form.free)
    W, D = rng.standard_normal((2, form.rows.size, 4))
    product = (loss.hessian(loss.at(W)) @ D)[0]
    change = loss.at(W + 1e-5 * D).gradient - loss.at(W - 1e-5 * D).gradient
    np.testing.assert_allclose(product, change / 2e-5, atol=1e-7)


def test_split_gradients_lie_in_the_dual_balls():
    rng = np.random.default_rng(2)
    problem = stated(*classes(15), kind="rows", a=0.5, b=0.3)
    form = read(problem)
    G = rng.standard_normal((6, 4))
    found = split(form, G, np.zeros_like(G), 50)
    first, rest = found.scale * found.first, found.scale * (G - found.first)
    assert np.linalg.norm(first, 2) <= 0.5 * (1 + 1e-12)
    assert np.linalg.norm(rest, axis=1).max() <= 0.3 * (1 + 1e-12)
    assert found.scale > split(form, G, np.zeros_like(G), 0).scale


def with_held_rows(rng, shape, kind, b, held):
    """Return a pull that stays within the dual ball of the other norm in some rows."""
    G = rng.standard_normal(shape)
    size = np.abs(G).max(axis=1) if kind == "entries" else np.linalg.norm(G, axis=1)
    G *= (np.where(held, 0.9, 4.0) * b / size)[:, None]
    return G


@pytest.mark.parametrize("kind", ["entries", "rows"])
def test_rows_held_by_one_norm_are_left_out_of_a_split_that_fits(kind):
    held = np.array([True, False, True, False, False, True])
    form = read(stated(*classes(15), kind=kind, a=2.0, b=0.3))
    G = with_held_rows(np.random.default_rng(4), (6, 4), kind, 0.3, held)
    found = split(form, G, np.zeros_like(G), 200)
    assert found.scale == 1.0 and not found.first[held].any() and found.first[~held].any()
    assert np.linalg.norm(found.first, 2) <= 2.0 * (1 + 1e-12)
    assert form.others[0].dual_scale(G - found.first) == 1.0


@pytest.mark.parametrize("kind", ["entries", "rows"])
def test_the_prox_of_the_sum_is_optimal_though_held_rows_are_left_out(kind):
    a, b, L = 0.5, 0.3, 2.0
    held = np.array([True, False, True, False, False, True])
    problem = stated(*classes(15), kind=kind, a=a, b=b)
    form = read(problem)
    loss = CurvedLoss(problem.f2, form.rows, form.free)
    run = Fista(Bounds.of(problem, loss, form), rounds=5000, accuracy=0.0)
    T = with_held_rows(np.random.default_rng(5), (6, 4), kind, b / L, held)
    run.begin(np.zeros((6, 4)), None, no_subgradients(form, (6, 4)))
    run.L = L
    Z, (first, second) = run._prox(T)
    assert Z.any() and not Z[held].any()
    np.testing.assert_allclose(first + second, L * (T - Z), atol=1e-12)
    assert np.linalg.norm(first, 2) <= a * (1 + 1e-10)
    assert form.others[0].conjugate(second) == 0
    assert np.vdot(first, Z) == pytest.approx(a * np.linalg.norm(Z, "nuc"), rel=1e-8)
    assert np.vdot(second, Z) == pytest.approx(form.others[0].value(Z), rel=1e-8)


def test_the_metric_of_some_rows_is_a_part_of_the_whole():
    rng = np.random.default_rng(6)
    X, y = classes(seed=6, n=60, d=7, outputs=3)
    problem = stated(sparse.csr_array(np.where(rng.random(X.shape) < 0.4, X, 0.0)), y, "entries")
    form = read(problem)
    loss = CurvedLoss(problem.f2, form.rows, form.free)
    metric, rows = Diagonal(loss), np.array([1, 2, 5])
    points = [loss.at(0.3 * rng.standard_normal((7, 3))) for _ in range(4)]
    for old, new in itertools.pairwise(points):
        metric.remember(new.W - old.W, new.gradient - old.gradient)
    metric.renew(points[-1])
    metric.prepare()
    few = metric.restricted(rows)
    part, whole = rng.standard_normal((3, 3)), np.zeros((7, 3))
    whole[rows] = part
    image = metric.apply(whole)[rows]
    np.testing.assert_allclose(few.apply(part), image, atol=1e-12)
    np.testing.assert_allclose(few.solve(image + 0.2 * part, 0.2), part, atol=1e-10)


def test_blocks_of_held_coefficients_are_those_of_the_dense_hessian():
    rng = np.random.default_rng(3)
    X, y = classes(seed=3, n=40, d=5, outputs=3)
    X = sparse.csr_array(np.where(rng.random(X.shape) < 0.4, X, 0.0))
    problem = stated(X, y, "entries")
    form = read(problem)
    loss = CurvedLoss(problem.f2, form.rows, form.free)
    point = loss.at(rng.standard_normal((5, 3)), None)
    held = rng.random((5, 3)) < 0.6
    c, s = loss.curvature(point)
    dense = X.toarray()
    for k, block in enumerate(loss.columns.blocks(held, c - s * s)):
        own = dense[:, held[:, k]]
        bend = (c - s * s)[:, k]
        np.testing.assert_allclose(block, own.T @ (bend[:, None] * own) / 40, atol=1e-15)
    for k, j in zip(*np.nonzero(held.T), strict=True):  # the diagonal by products
        D = np.zeros((5, 3))
        D[j, k] = 1.0
        whole = (loss.hessian(point) @ D)[0][j, k]
        where = int(np.flatnonzero(np.flatnonzero(held[:, k]) == j)[0])
        block = loss.columns.blocks(held, c - s * s)[k]
        np.testing.assert_allclose(block[where, where], whole, atol=1e-14)


def by_scaling(problem, W, kind):
    """Return the bound of gradients times a scale at which both norms hold them, by NumPy.

    A mean conjugate is convex and zero at zero, so that of t derivatives is t times that of the
    derivatives at most, which is <G, W> - loss.
    """
    G = problem.f2.gradient(W)
    lengths = np.linalg.norm(G, axis=1, keepdims=True)
    for t in np.linspace(1, 0, 1000, endpoint=False):
        held = {"alone": 0.0, "entries": np.clip(t * G, -B, B)}
        held["rows"] = t * G * np.minimum(1, B / (t * lengths))
        if np.linalg.norm(t * G - held[kind], 2) <= A:
            return t * (problem.f2.value(W) - np.vdot(G, W))
    return 0.0


@pytest.mark.parametrize("kind", ["alone", "entries", "rows"])
@pytest.mark.parametrize("limit", [{"max_seconds": 1e-9}, {"max_passes": 1}])
@pytest.mark.parametrize("cheap", [0.0, 10.0])
def test_a_run_that_a_limit_ends_has_a_bound_of_its_last_point(kind, limit, cheap):
    problem = stated(*classes(), kind)
    best = sa.minimize(problem, METHOD, stop=sa.Gap(1e-10))
    few = LowRankNewton(steps=2, cheap_steps=4, cheap=cheap)
    ended = sa.minimize(problem, few, stop=sa.Gap(1e-10), **limit)
    assert ended.status in (sa.Status.MAX_TIME, sa.Status.MAX_PASSES)
    lower = ended.objective - ended.gap
    assert lower <= best.objective
    assert lower >= by_scaling(problem, ended.coef, kind) - 1e-9


@pytest.mark.parametrize("kind", ["alone", "entries", "rows"])
def test_derivatives_far_from_a_solution_are_scaled_until_both_norms_hold_them(kind):
    problem = stated(*classes(), kind)
    form = read(problem)
    target = np.random.default_rng(3).standard_normal((6, 4))
    for size in (1e-3, 0.05, 0.3, 5.0):
        t = shrunk(form, size * target, 20).scale
        pull = t * size * target
        rest = pull if kind == "alone" else pull - form.others[0].project_dual(pull)
        assert 0 < t <= 1
        assert np.linalg.norm(rest, 2) <= A * (1 + 1e-12)
        more = 1.01 * pull
        rest = more if kind == "alone" else more - form.others[0].project_dual(more)
        assert t == 1 or np.linalg.norm(rest, 2) > A
