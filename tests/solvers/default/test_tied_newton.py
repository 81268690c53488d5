"""Few rows and many columns tied by a structure: right answers and sound bounds."""

import numpy as np
import pytest
from benchmarks.covering import answer, conic_optimum, objective
from scipy import sparse

import stochadmm as sa
from stochadmm._newton import factor
from stochadmm._newton.clusters import clusters_of
from stochadmm._newton.factor import FactoredRows, FactorHessian, factored_structure
from stochadmm._newton.factor_bound import Anderson
from stochadmm.problem import at_strength
from stochadmm.run.loop import Request
from stochadmm.run.minimize import solve as solve_in
from stochadmm.run.path import alpha_max, solve_path

N, SIDE = 24, 8
D = SIDE * SIDE


def rows(seed=0, n=N, d=D):
    """Return neighbouring columns that resemble each other, and targets of a block of them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X = X + np.roll(X, 1, axis=1)
    w = np.zeros(d)
    w[d // 4 : d // 2], w[3 * d // 4 :] = 1.0, -0.5
    return rng, X, X @ w / np.sqrt(d / 8)


def chain():
    return sa.Differences(D), sa.L1(0.02)


def grid():
    return sa.GridDifferences((SIDE, SIDE)), sa.L1(0.02)


def masked_grid():
    i, j = np.indices((SIDE + 3, SIDE + 2))
    mask = np.zeros((SIDE + 3, SIDE + 2), dtype=bool)
    order = np.argsort((i - SIDE / 2) ** 2 + (j - SIDE / 2) ** 2, axis=None, kind="stable")
    mask.flat[order[:D]] = True
    return sa.GridDifferences(mask.shape, mask=mask), sa.L1(0.02)


def disconnected_graph():
    edges = [(k, k + 1) for k in range(D - 1) if k % 16 not in (14, 15)]  # single columns between
    weights = np.linspace(0.5, 2.0, len(edges))
    return sa.Incidence(edges, D, weights=weights), sa.L1(0.02)


def signed_graph():
    edges = [(k, (k + 1) % D) for k in range(D)] + [(k, (k + 5) % D) for k in range(0, D, 3)]
    signs = np.where(np.arange(len(edges)) % 4 == 0, -1.0, 1.0)
    return sa.Incidence(edges, D, signs=signs), sa.L1(0.01)


def overlapping_groups():
    groups = [np.arange(k, min(k + 6, D)) for k in range(0, D, 4)]
    S = sa.Selection(groups, n=D)
    return S, sa.GroupL2(0.05, sizes=S.sizes)


def isotropic_variation():
    pairs = [(k, k + 1, k + SIDE) for k in range(D - SIDE) if k % SIDE < SIDE - 1]
    edges = [edge for a, b, c in pairs for edge in ((a, b), (a, c))]
    return sa.Incidence(edges, D), sa.GroupL2(0.03, sizes=[2] * len(pairs))


def second_differences():
    return sa.Differences(D, order=2), sa.L1(0.05)


STRUCTURES = [
    chain,
    grid,
    masked_grid,
    disconnected_graph,
    signed_graph,
    overlapping_groups,
    isotropic_variation,
    second_differences,
]
LOSSES = {
    "squared": (sa.Squared(), lambda rng, z: z + 0.3 * rng.standard_normal(len(z))),
    "logistic": (sa.Logistic(), lambda rng, z: np.where(z + rng.logistic(size=len(z)) > 0, 1, -1)),
    "huber": (sa.Huber(0.5), lambda rng, z: z + rng.standard_t(2, len(z))),
    "poisson": (sa.Poisson(), lambda rng, z: rng.poisson(np.exp(0.5 * z)).astype(float)),
}


def problem(structure, loss="logistic", l1=0.02, seed=0, **options):
    rng, X, z = rows(seed)
    S, h1 = structure()
    made, targets = LOSSES[loss]
    h2 = sa.L1(l1) if l1 else None
    return sa.Problem.linear(
        made, X, targets(rng, z), structure=S, on_structure=h1, on_coefficients=h2, **options
    )


def solve(p, tol=1e-8, **options):
    return sa.minimize(p, "tied-newton", stop=sa.Gap(tol), max_passes=1000, **options)


@pytest.mark.parametrize("l1", [0.02, 0.0], ids=["with-l1", "free-mean"])
@pytest.mark.parametrize("structure", STRUCTURES, ids=lambda f: f.__name__)
def test_agrees_with_a_conic_solver(structure, l1):
    p = problem(structure, "logistic" if l1 else "squared", l1, intercept=True)
    # what rounding allows beside a free mean is about 2e-8
    result, optimum = solve(p, 1e-7), conic_optimum(p)
    scale = max(optimum, 1e-3 * p.objective_at_zero)
    assert result.converged
    assert abs(objective(p, answer(p, result)) - optimum) <= 1e-6 * scale
    # the bound is sound: the conic optimum is above it, but for the conic solver's own accuracy
    assert result.objective - result.gap <= optimum + 1e-7 * scale


@pytest.mark.parametrize("loss", sorted(LOSSES))
@pytest.mark.parametrize("intercept", [False, True])
def test_weights_and_offset_agree_with_a_conic_solver(loss, intercept):
    rng = np.random.default_rng(1)
    weight = np.where(rng.random(N) < 0.2, 0.0, rng.uniform(0.5, 2.0, N))
    p = problem(
        grid, loss, intercept=intercept, sample_weight=weight, offset=0.3 * rng.standard_normal(N)
    )
    result, optimum = solve(p), conic_optimum(p)
    assert result.converged
    difference = abs(objective(p, answer(p, result)) - optimum)
    assert difference <= 1e-6 * max(abs(optimum), 1e-3 * p.objective_at_zero)


def test_columns_without_a_penalty_are_fitted_exactly():
    rng, X, z = rows()
    weights = np.ones(D)
    weights[:3] = 0.0  # and no edge reaches them
    S = sa.Incidence([(k, k + 1) for k in range(3, D - 1)], D)
    p = sa.Problem.linear(
        sa.Squared(),
        X,
        z + 0.3 * rng.standard_normal(N),
        structure=S,
        on_structure=sa.L1(0.02),
        on_coefficients=sa.L1(0.02, weights=weights),
        intercept=True,
    )
    result = solve(p)
    gradient = p.f2.gradient(answer(p, result).x2)
    assert result.converged
    np.testing.assert_allclose(gradient[[0, 1, 2, -1]], 0.0, atol=1e-6)
    assert abs(result.objective - conic_optimum(p)) <= 1e-6 * result.objective


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_certified_gap_holds_at_every_epoch(loss):
    p = problem(masked_grid, loss, intercept=True)
    optimum = solve(p, 1e-11).objective
    history = solve(p, 1e-11).history
    for record in history:
        assert record.objective >= optimum - 1e-10 * optimum
        assert record.objective - record.gap <= optimum + 1e-10 * optimum


def test_the_returned_multiplier_proves_the_gap_without_the_method():
    p = problem(grid, "squared")
    result = solve(p, 1e-8)
    outside = sa.certify(p, result.pair, result.dual, strength="corrected")
    assert outside.gap <= 1e-6 * result.objective


def test_a_row_of_weight_two_is_the_row_twice():
    rng, X, z = rows()
    y, (S, h1) = z + 0.3 * rng.standard_normal(N), grid()
    parts = {"structure": S, "on_structure": h1, "on_coefficients": sa.L1(0.02)}
    weight = np.ones(N)
    weight[3] = 2.0
    once = sa.Problem.linear(sa.Squared(), X, y, sample_weight=weight, intercept=True, **parts)
    twice = sa.Problem.linear(
        sa.Squared(), np.vstack([X, X[3]]), np.append(y, y[3]), intercept=True, **parts
    )
    a, b = solve(once, 1e-10), solve(twice, 1e-10)
    assert abs(a.objective - b.objective) <= 1e-9 * a.objective
    np.testing.assert_allclose(X @ a.coef + a.intercept, X @ b.coef + b.intercept, atol=1e-4)


def test_the_order_of_columns_does_not_matter():
    rng, X, z = rows()
    y, (S, h1) = z + 0.3 * rng.standard_normal(N), grid()
    order = rng.permutation(D)
    moved = sparse.csr_array(S.tosparse())[:, order]
    a, b = (
        solve(
            sa.Problem.linear(
                sa.Squared(), Z, y, structure=A, on_structure=h1, on_coefficients=sa.L1(0.02)
            ),
            1e-10,
        )
        for Z, A in ((X, S), (X[:, order], moved))
    )
    assert abs(a.objective - b.objective) <= 1e-9 * a.objective
    np.testing.assert_allclose(X @ a.coef, X[:, order] @ b.coef, atol=1e-4)


@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_units_of_the_columns_do_not_matter(scale):
    rng, X, z = rows()
    y, (S, _) = z + 0.3 * rng.standard_normal(N), grid()

    def scaled(t):
        return sa.Problem.linear(
            sa.Squared(),
            t * X,
            y,
            structure=S,
            on_structure=sa.L1(0.02 * t),
            on_coefficients=sa.L1(0.02 * t),
            intercept=True,
        )

    a, b = solve(scaled(1.0)), solve(scaled(scale))
    assert a.converged and b.converged and b.n_epochs <= a.n_epochs + 1
    assert abs(a.objective - b.objective) <= 2e-8 * a.objective


def test_ties_and_zeros_are_exact():
    p = problem(grid, "squared")
    coef = solve(p, 1e-10).coef
    levels = np.unique(coef[coef != 0])
    assert 0 < levels.size < N < np.count_nonzero(coef)
    assert np.diff(levels).min(initial=1.0) > 1e-8


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_many_rows_through_their_square_matrix_give_the_same_answer(loss, monkeypatch):
    p = problem(masked_grid, loss, intercept=True)
    few = solve(p)
    monkeypatch.setattr("stochadmm._newton.factor.FEW_ROWS", N - 1)
    many = solve(p)
    assert many.converged and few.converged
    assert abs(many.objective - few.objective) <= 2e-8 * few.objective


def test_float32_rows_are_certified_in_float64():
    rng, X, z = rows()
    S, h1 = grid()
    y = np.where(z + rng.logistic(size=N) > 0, 1.0, -1.0)
    narrow = X.astype(np.float32)
    parts = {"structure": S, "on_structure": h1, "on_coefficients": sa.L1(0.02)}
    result = solve(sa.Problem.linear(sa.Logistic(), narrow, y, intercept=True, **parts), 1e-5)
    wide = sa.Problem.linear(sa.Logistic(), narrow.astype(float), y, intercept=True, **parts)
    optimum = solve(wide, 1e-10).objective
    assert result.converged and result.coef.dtype == np.float32
    rounding = 1e-7 * optimum  # of the structure of float32 coefficients
    assert -rounding <= result.objective - optimum <= result.gap + rounding


def test_sparse_rows_give_the_same_answer():
    rng, X, z = rows()
    X = np.where(np.abs(X) > 1.0, X, 0.0)
    y, (S, h1) = z + 0.3 * rng.standard_normal(N), chain()
    a, b = (
        solve(sa.Problem.linear(sa.Squared(), Z, y, structure=S, on_structure=h1, intercept=True))
        for Z in (X, sparse.csr_array(X))
    )
    assert abs(a.objective - b.objective) <= 2e-8 * a.objective


def test_a_path_keeps_the_factor_and_equals_single_fits(monkeypatch):
    made = []
    plain = factor.factored_structure

    def counted(*given):
        made.append(1)
        return plain(*given)

    monkeypatch.setattr(factor, "factored_structure", counted)
    unit = problem(grid, "logistic", intercept=True)
    alphas = [4.0, 2.0, 1.0, 0.5]

    def step(problem, start, workspace):
        asked = Request(stop=sa.Gap(1e-8), start=start)
        return solve_in(problem, "tied-newton", asked, workspace)

    found = [r.objective for _, _, r in solve_path(unit, alphas, step)]
    assert len(made) == 1
    for alpha, value in zip(alphas, found, strict=True):
        alone = solve(at_strength(problem(grid, "logistic", intercept=True), alpha)).objective
        assert abs(value - alone) <= 2e-8 * alone


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_strengths_above_the_largest_useful_one_cost_a_certificate_only(loss):
    unit = problem(grid, loss)
    largest = alpha_max(unit)

    def step(problem, start, workspace):
        return solve_in(problem, "tied-newton", Request(sa.Gap(1e-8), start=start), workspace)

    found = [r for _, _, r in solve_path(unit, [2 * largest, 1.5 * largest, 1.1 * largest], step)]
    for result in found[1:]:
        assert not result.coef.any() and result.status is sa.Status.CONVERGED
        assert result.n_epochs == 1 and result.n_passes <= 2  # no splitting, no clusters


def test_anderson_acceleration_solves_affine_equations_in_as_many_steps_as_there_are_unknowns():
    rng = np.random.default_rng(0)
    A = np.eye(4) + 0.1 * rng.standard_normal((4, 4))
    solution = rng.standard_normal(4)
    anderson, x = Anderson(np.full(4, 2.0), most=4), np.zeros(4)
    for _ in range(5):
        x = anderson.step(x, A @ (solution - x))
    assert np.abs(x - solution).max() <= 1e-6 * np.abs(solution).max()


def test_runs_resume_and_repeat_bit_by_bit():
    p = problem(grid, intercept=True)
    whole, again = solve(p, 1e-10), solve(p, 1e-10)
    part = sa.minimize(p, "tied-newton", stop=sa.Gap(1e-2))
    rest = solve(p, 1e-10, resume=part)
    np.testing.assert_array_equal(whole.coef, again.coef)
    assert rest.converged and part.n_epochs < rest.n_epochs
    assert abs(rest.objective - whole.objective) <= 1e-10 * whole.objective


def test_what_it_cannot_serve_is_refused_in_one_line():
    _, X, z = rows()
    outputs = sa.Problem.linear(
        sa.Squared(),
        X,
        np.column_stack([z, z]),
        structure=sa.Differences(D),
        on_structure=sa.L1(0.1),
    )
    cone = sa.Problem.linear(
        sa.Squared(),
        X,
        z,
        structure=sa.Differences(D),
        on_structure=sa.L1(0.1),
        on_coefficients=sa.NonNegative(),
    )
    for p, word in ((outputs, "outputs"), (cone, "sign")):
        with pytest.raises(ValueError, match=word) as error:
            solve(p)
        assert "\n" not in str(error.value)


def test_auto_sends_few_rows_with_tied_columns_there_and_says_why():
    _, X, z = rows(n=40, d=400)
    parts = {"structure": sa.GridDifferences((20, 20)), "on_structure": sa.L1(0.05)}
    p = sa.Problem.linear(sa.Squared(), X, z, **parts, on_coefficients=sa.L1(0.05))
    result = sa.minimize(p, stop=sa.Gap(1e-6))
    assert result.converged and result.info["route"] == "tied-newton"
    assert "40 rows" in result.info["reason"] and "400 columns" in result.info["reason"]


def test_auto_sends_many_rows_there_only_where_square_models_end():
    def route(d, n=4500):
        X = sparse.random_array((n, d), density=1e-3, rng=np.random.default_rng(0), format="csr")
        parts = {"structure": sa.Differences(d), "on_structure": sa.L1(0.05)}
        return sa.Auto().choose(sa.Problem.linear(sa.Logistic(), X, np.ones(n), **parts))

    chosen, reason = route(4200)
    assert chosen == "tied-newton" and "4500 rows, 4200 columns" in reason
    assert route(400)[0] == "newton"
    assert route(7000, n=7500)[0] != "tied-newton"


# ---------------------------------------------------------------- the parts


@pytest.mark.parametrize("l1", [0.02, 0.0])
def test_the_systems_are_those_of_the_dense_matrix(l1):
    rng = np.random.default_rng(0)
    S = sparse.csr_array(sa.GridDifferences((SIDE, SIDE)).tosparse())
    if l1:
        S = sparse.csr_array(sparse.vstack([S, sparse.eye_array(D)]))
    f2 = sa.FiniteSum(sa.Squared(), rng.standard_normal((N, D)), rng.standard_normal(N))
    sigma = np.linspace(0.5, 2.0, S.shape[0])
    structure = factored_structure(S, np.ones(S.shape[0], dtype=bool), sigma, np.ones(D))
    assert (structure.shift is None) == bool(l1)
    L = (S.T @ (sigma[:, None] * S.toarray())) + (
        0.0 if structure.shift is None else np.diag(structure.shift)
    )
    D_, r = rng.uniform(0.1, 1.0, N), rng.standard_normal(D)
    B = structure.solve(f2.X.T).T
    few = FactorHessian(FactoredRows(f2, structure, B, f2.X @ B.T), D_, D_)
    many = FactorHessian(FactoredRows(f2, structure, None, None), D_, D_)
    for H, tol in ((few, 1e-9), (many, 1e-4)):  # products of many rows are made in float32
        M = (f2.X.T * D_) @ f2.X + 0.7 * L
        np.testing.assert_allclose(M @ H.system(0.7)(r), r, atol=tol * np.abs(r).max())
        np.testing.assert_allclose(H.product(r, f2.X @ r), f2.X.T @ (D_ * (f2.X @ r)), atol=1e-3)
        assert H.quadratic(r) == pytest.approx(r @ (f2.X.T @ (D_ * (f2.X @ r))))


def test_what_rows_leave_is_absorbed_in_spite_of_the_shift():
    S = sparse.csr_array(sa.Differences(500).tosparse())
    structure = factored_structure(S, np.ones(499, dtype=bool), np.ones(499), np.ones(500))
    target = np.random.default_rng(0).standard_normal(500)
    target -= target.mean()
    change = structure.absorb(target)
    np.testing.assert_allclose(S.T @ change, target, atol=1e-9)


def test_clusters_span_exactly_the_null_space_of_the_zero_rows():
    rng = np.random.default_rng(0)
    S = sparse.csr_array(
        sparse.vstack([signed_graph()[0].tosparse(), sparse.eye_array(D)], format="csr")
    )
    zero = rng.random(S.shape[0]) < np.r_[np.full(S.shape[0] - D, 0.4), np.full(D, 0.05)]
    P = clusters_of(S, zero).P.toarray()
    rank = np.linalg.matrix_rank(S[np.flatnonzero(zero)].toarray())
    assert P.shape[1] == D - rank == np.linalg.matrix_rank(P)
    np.testing.assert_allclose(S[np.flatnonzero(zero)] @ P, 0.0, atol=1e-14)


@pytest.mark.parametrize("loss", [sa.Squared(), sa.Logistic(), sa.Huber(0.5)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_clusters_have_one_minimum_compiled_and_by_steps(loss, dtype, monkeypatch):
    rng, X, score = rows(seed=3)
    y = np.sign(score) if isinstance(loss, sa.Logistic) else score
    p = sa.Problem.linear(
        loss,
        X.astype(dtype),
        y.astype(dtype),
        structure=sa.GridDifferences((SIDE, SIDE)),
        on_structure=sa.L1(0.02),
        on_coefficients=sa.L1(0.01),
        intercept=True,
        sample_weight=rng.uniform(0.5, 2.0, N).astype(dtype),
    )
    tol = 1e-5 if dtype == np.float32 else 1e-8
    compiled = solve(p, tol)
    monkeypatch.setattr("stochadmm._newton.clusters.minimize_in_columns", lambda *_: None)
    by_steps = solve(p, tol)
    assert compiled.converged and by_steps.converged
    assert abs(compiled.objective - by_steps.objective) <= 2 * tol * by_steps.objective
