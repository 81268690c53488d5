"""The small quadratic problem: optimality from first principles, for every kind of penalty."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from stochadmm.forms.one_block import unfold
from stochadmm.operators import Differences, Identity, Selection, VStack
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
from stochadmm.quadratic import (
    Implicit,
    QuadraticModel,
    QuadraticOptions,
    minimize_quadratic,
)


def model(d, seed=0, rank=None, outputs=()):
    """A positive semidefinite matrix, a gradient in its range plus a little, and a center."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rank or 3 * d, d)) @ (np.eye(d) + 0.5 * np.tri(d) / np.sqrt(d))
    H = X.T @ X / len(X)
    c = -H @ rng.standard_normal((d, *outputs))
    return H, c, 0.3 * rng.standard_normal((d, *outputs))


def graph(d, seed=0):
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, d, (2 * d, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    rows = np.repeat(np.arange(len(ends)), 2)
    values = np.tile([1.0, -1.0], len(ends))
    G = sparse.csr_array((values, (rows, ends.ravel())), (len(ends), d))
    return sparse.csr_array(sparse.vstack([G, sparse.eye_array(d)]))


def gap(found, H, c, x, A, h1, h2=None, b=0.0):
    """Primal minus dual value of the small problem, from its parts alone."""
    step = found.w - x
    Hs = (H @ step.ravel()).reshape(step.shape) if H.shape[0] != len(x) else H @ step
    image = A @ found.w - b
    primal = np.vdot(c, step) + 0.5 * np.vdot(step, Hs) + h1.value(image)
    # -(c + H s) = A' dual + dual2; conjugate of the quadratic at that point
    dual = -0.5 * np.vdot(step, Hs) - h1.conjugate(found.dual) - np.vdot(found.dual, b + 0 * image)
    dual += np.vdot(found.dual, A @ x)
    if h2 is not None:
        primal += h2.value(found.w)
        dual += np.vdot(found.dual2, x) - h2.conjugate(found.dual2)
    size = abs(primal) + 1.0 + np.abs(found.dual).max() * np.abs(A @ x).max() * len(image)
    return primal - dual, size


def check(H, c, x, A, h1, h2=None, b=None, tol=1e-9, atol=1e-8, **options):
    found = minimize_quadratic(H, c, x, A, h1, h2, b=b, tol=tol, **options)
    assert found.residual <= tol
    step = found.w - x
    Hs = (H @ step.ravel()).reshape(step.shape) if H.shape[0] != len(x) else H @ step
    left = c + Hs + A.T @ found.dual + (0 if found.dual2 is None else found.dual2)
    assert np.abs(left).max() <= 10 * tol * max(np.abs(A.T @ found.dual).max(), np.abs(c).max())
    return found


@pytest.mark.parametrize("d", [1, 2, 20, 150])
@pytest.mark.parametrize("mu", [1e-4, 1e-2, 1.0, 100.0])
def test_graph_guided(d, mu):
    H, c, x = model(d)
    A = graph(d) if d > 1 else sparse.csr_array(np.ones((1, 1)))
    found = check(H, c, x, A, L1(mu))
    difference, size = gap(found, H, c, x, A, L1(mu))
    assert abs(difference) <= 1e-7 * size
    if mu == 100.0:
        assert not found.z.any()


@pytest.mark.parametrize(
    "h1",
    [
        L1(0.05),
        L1(0.05, weights=np.r_[np.zeros(3), np.ones(9)]),
        ElasticNet(0.1, 0.5),
        Ridge(0.3),
        GroupL2(0.1, sizes=[4, 4, 4]),
        GroupL2(0.1, sizes=[1, 5, 6], weights=[0.0, 1.0, 2.0]),
        NonNegative(),
        Box(-0.2, 0.3),
        Zero(),
        TotalVariation1D(0.05),
        Stacked([(L1(0.1), 5), (NonNegative(), 4), (GroupL2(0.1, sizes=[3]), 3)]),
        L1(0.05) + NonNegative(),
    ],
    ids=lambda h: type(h).__name__,
)
@pytest.mark.parametrize("h2", [None, L1(0.02), NonNegative()], ids=["none", "l1", "positive"])
@pytest.mark.parametrize("rank", [None, 6])
def test_penalties(h1, h2, rank):
    d = 12
    H, c, x = model(d, rank=rank)
    A = sparse.csr_array(sparse.eye_array(d))
    found = check(H, c, x, A, h1, h2, tol=1e-8)
    # indicators hold up to the residual only: measure at the point the prox made
    if h2 is None and np.isfinite(h1.value(A @ found.w)):
        difference, size = gap(found, H, c, x, A, h1)
        assert abs(difference) <= 1e-6 * size


def test_offset_and_structure_without_identity():
    H, c, x = model(30)
    A = Differences(30).tosparse()
    b = np.random.default_rng(1).standard_normal(29)
    found = check(H, c, x, A, L1(0.05), b=b)
    difference, size = gap(found, H, c, x, A, L1(0.05), b=b)
    assert abs(difference) <= 1e-8 * size


def test_overlapping_groups():
    groups = [np.arange(k, k + 6) for k in range(0, 25, 3)]
    select = Selection(groups, 30)
    h = GroupL2(0.05, sizes=[len(g) for g in groups])
    H, c, x = model(30)
    found = check(H, c, x, select.tosparse(), h, tol=1e-8)
    difference, size = gap(found, H, c, x, select.tosparse(), h)
    assert abs(difference) <= 1e-7 * size


@pytest.mark.parametrize(
    "h1", [L1(0.05), RowsL21(0.1), Nuclear(0.2), L2Ball(0.5)], ids=lambda h: type(h).__name__
)
@pytest.mark.parametrize("full", [False, True])
def test_several_outputs(h1, full):
    d, outputs = 10, 3
    H, c, x = model(d, outputs=(outputs,))
    A = sparse.csr_array(sparse.eye_array(d))
    big = np.kron(H, np.eye(outputs))
    found = check(big if full else H, c, x, A, h1, tol=1e-8, max_iter=20000)
    other = check(H if full else big, c, x, A, h1, tol=1e-8, max_iter=20000)
    np.testing.assert_allclose(found.w, other.w, atol=1e-6)
    assert found.w.shape == (d, outputs) and found.dual.shape == (d, outputs)


def test_many_outputs_are_solved_column_by_column():
    H, c, x = model(40, outputs=(50,))
    A = graph(40)
    weights = np.random.default_rng(0).random((A.shape[0], 50))
    h = L1(0.02, weights=weights)
    found = check(H, c, x, A, h)
    one = check(H, c[:, 7], x[:, 7], A, L1(0.02, weights=weights[:, 7]))
    np.testing.assert_allclose(found.w[:, 7], one.w, atol=1e-7)


def test_warm_start_is_cheap_and_exact():
    H, c, x = model(60)
    A = graph(60)
    first = minimize_quadratic(H, c, x, A, L1(0.01), tol=1e-11)
    again = minimize_quadratic(
        H, c, x, A, L1(0.01), start=first.w, dual=first.dual, penalty=first.penalty, tol=1e-11
    )
    assert again.n_iter <= 10
    np.testing.assert_allclose(again.w, first.w, atol=1e-9)


def test_inputs_are_not_changed():
    H, c, x = model(20)
    A = graph(20)
    copies = H.copy(), c.copy(), x.copy()
    start, dual = np.ones(20), np.full(A.shape[0], 1e-3)
    minimize_quadratic(H, c, x, A, L1(0.01), start=start, dual=dual)
    for now, before in zip((H, c, x), copies, strict=True):
        assert np.array_equal(now, before)
    assert (start == 1).all() and (dual == 1e-3).all()


def test_model_is_reused():
    A = VStack([Differences(25), Identity(25)])
    small = QuadraticModel(A, L1(0.01), None, (25,))
    for seed in range(3):
        H, c, x = model(25, seed=seed)
        found = small.minimize(H, c, x)
        other = minimize_quadratic(H, c, x, A, L1(0.01))
        np.testing.assert_allclose(found.w, other.w, atol=1e-8)


def test_unfold_keeps_the_value():
    x = np.random.default_rng(0).standard_normal(9)
    h = Stacked([(L1(0.5), 4), (TotalVariation1D(2.0), 5)])
    T, simple = unfold(h, 9)
    assert T.shape == (8, 9)
    assert simple.value(T @ x) == pytest.approx(h.value(x))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(200))
def test_random_problems(seed):
    rng = np.random.default_rng(seed)
    d = int(rng.integers(1, 60))
    H, c, x = model(d, seed=seed, rank=int(rng.integers(1, 3 * d + 1)))
    A = graph(d, seed) if d > 1 else sparse.csr_array(np.ones((1, 1)))
    mu = float(10 ** rng.uniform(-6, 1))
    found = check(H, c, x, A, L1(mu))
    difference, size = gap(found, H, c, x, A, L1(mu))
    assert abs(difference) <= 1e-7 * size


# ---------------------------------------------------------------- matrices known by products


@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("outputs", [(), (3,)])
def test_products_in_place_of_the_matrix_change_nothing(diagonal, outputs):
    rng = np.random.default_rng(3)
    d, size = 12, 12 * int(np.prod(outputs))
    root = rng.standard_normal((size, size))
    H = root @ root.T / size + 0.05 * np.eye(size)
    c, center = rng.standard_normal((d, *outputs)), rng.standard_normal((d, *outputs))
    A = sparse.vstack([Differences(d).tosparse(), sparse.eye_array(d)]).tocsr()
    blocks = H.reshape(d, -1, d, size // d)
    metric = np.einsum("icjc->ij", blocks) / (size // d)
    implicit = Implicit(
        lambda v: (H @ v.ravel()).reshape(v.shape), np.diag(metric) if diagonal else metric
    )
    model = QuadraticModel(A, L1(0.3), None, (d, *outputs))
    exact = model.minimize(H, c, center, tol=1e-11)
    found = model.minimize(implicit, c, center, tol=1e-8, max_iter=20_000)
    assert found.residual <= 1e-8
    np.testing.assert_allclose(found.w, exact.w, atol=1e-6)
    np.testing.assert_allclose(A.T @ found.dual, A.T @ exact.dual, atol=1e-6)


def test_the_accuracy_is_found_on_the_way():
    rng = np.random.default_rng(4)
    root = rng.standard_normal((30, 30))
    H, c = root @ root.T / 30, rng.standard_normal(30)
    model, seen = QuadraticModel(Differences(30), L1(0.1), None, (30,)), []

    def accept(w):
        seen.append(w.copy())
        return len(seen) == 3

    model.minimize(H, c, np.zeros(30), tol=1e-2, accept=accept)
    exact = model.minimize(H, c, np.zeros(30), tol=1e-11).w
    errors = [np.abs(w - exact).max() for w in seen]
    assert len(seen) == 3 and errors[2] < errors[0]


@pytest.mark.parametrize("seed", range(3))
def test_a_tolerance_below_rounding_ends_soon_and_at_the_best_point(seed):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((9, 8))
    model = QuadraticModel(
        Identity(8), Nuclear(0.3), None, (8, 3), options=QuadraticOptions(anchored=True)
    )
    found = model.minimize(A.T @ A, rng.standard_normal((8, 3)), np.zeros((8, 3)), tol=1e-15)
    assert found.n_iter < 1000
    assert found.residual <= 1e-10
