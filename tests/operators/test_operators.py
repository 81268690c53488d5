"""Operators: the public checks, dense twins, and bounds of the norm that really are bounds."""

import numpy as np
import pylops
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from stochadmm.base.capabilities import Has, offers
from stochadmm.operators import (
    Composed,
    Differences,
    GridDifferences,
    Identity,
    Incidence,
    Matrix,
    PadColumns,
    Scaled,
    Selection,
    VStack,
    Wrapped,
    as_operator,
    csr_parts,
)
from stochadmm.testing import check_operator

RNG = np.random.default_rng(0)
DENSE = RNG.normal(size=(5, 7))
CASES = [
    Identity(4, -2.0),
    Matrix(DENSE),
    Matrix(DENSE.astype(np.float32)),
    Matrix(sparse.random_array((6, 9), density=0.4, rng=0)),
    Matrix(sparse.csr_matrix(DENSE)),
    Incidence([(0, 1), (2, 1), (3, 0)], 6, [1.0, 2.0, 0.5], [1, -1, 1]),
    Incidence([], 3),
    Differences(6),
    Differences(7, order=3),
    Differences(1),
    Differences(2, order=3),
    Matrix(np.zeros((3, 2))),
    Matrix(sparse.csr_array((3, 2))),
    GridDifferences((3, 4)),
    GridDifferences((3, 4, 2), order=2),
    GridDifferences((4, 5), mask=RNG.random((4, 5)) > 0.3),
    GridDifferences((1, 1)),
    Selection([[0, 1], [1, 3, 4]], 6),
    Selection([[0, 1], [1, 3, 4]], 6, [2.0, 0.5]),
    PadColumns(Differences(5), 2),
    Scaled(Differences(4), -3.0),
    Composed(Differences(4), Differences(5)),
    Wrapped(aslinearoperator(DENSE)),
    VStack([Differences(4), Identity(4), np.ones((2, 4))]),
    VStack([Differences(7), aslinearoperator(DENSE)]),
    2.0 * Wrapped(pylops.FirstDerivative(9, dtype="float64")),
]


def dense(A):
    return np.column_stack([A.matvec(unit) for unit in np.eye(A.shape[1])])


@pytest.mark.parametrize("A", CASES, ids=lambda A: type(A).__name__)
def test_every_operator_passes_the_public_checks(A):
    check_operator(A)


@pytest.mark.parametrize("A", CASES, ids=lambda A: type(A).__name__)
def test_norm2_is_an_upper_bound_and_nearly_sharp(A):
    exact = np.linalg.norm(dense(A), 2) ** 2 if min(A.shape) else 0.0
    assert exact * (1 - 1e-12) <= A.norm2
    if not isinstance(A, (VStack, GridDifferences, Differences)):
        assert A.norm2 <= exact * (1 + 1e-9) + 1e-12


def test_differences_agree_with_numpy():
    x = RNG.normal(size=(9, 2))
    for order in (1, 2, 3):
        A = Differences(9, order)
        np.testing.assert_allclose(A @ x, np.diff(x, order, axis=0))
        np.testing.assert_allclose(A.tosparse() @ x, np.diff(x, order, axis=0))


def test_grid_differences_agree_with_numpy():
    image = RNG.normal(size=(4, 5, 3))
    for order in (1, 2):
        expected = [np.diff(image, order, axis=axis).ravel() for axis in range(3)]
        got = GridDifferences((4, 5, 3), order) @ image.ravel()
        np.testing.assert_allclose(got, np.concatenate(expected))


def test_mask_keeps_pairs_of_neighbors_inside():
    mask = np.array([[True, False, True], [True, True, True]])
    A = GridDifferences((2, 3), mask=mask)
    assert A.shape == (4, 5)  # cells 0..4 are (0,0) (0,2) (1,0) (1,1) (1,2)
    np.testing.assert_array_equal(
        A.tosparse().toarray(),
        [[-1, 0, 1, 0, 0], [0, -1, 0, 0, 1], [0, 0, -1, 1, 0], [0, 0, 0, -1, 1]],
    )


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_incidence_of_random_graphs(data):
    n = data.draw(st.integers(2, 8))
    pair = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).filter(lambda e: e[0] != e[1])
    edges = data.draw(st.lists(pair, max_size=10))
    m = len(edges)
    size = st.floats(1e-100, 5) | st.just(0.0)  # squares of smaller ones have fewer digits
    weights = np.array(data.draw(st.lists(size, min_size=m, max_size=m)))
    signs = np.array(data.draw(st.lists(st.sampled_from([-1, 1]), min_size=m, max_size=m)))
    A = Incidence(edges, n, weights, signs)
    expected = np.zeros((m, n))
    for e, (i, j) in enumerate(edges):
        expected[e, i] += weights[e]
        expected[e, j] -= weights[e] * signs[e]
    np.testing.assert_array_equal(A.tosparse().toarray(), expected)
    if m:
        assert A.norm2 >= np.linalg.norm(expected, 2) ** 2 * (1 - 1e-12)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sets(st.integers(0, 9), min_size=1), min_size=1, max_size=6))
def test_selection_of_random_groups(found):
    groups = [sorted(group) for group in found]
    A = Selection(groups, 10)
    x = np.arange(10.0)
    np.testing.assert_array_equal(A @ x, np.concatenate([x[group] for group in groups]))
    np.testing.assert_array_equal(A.sizes, [len(group) for group in groups])
    count = np.bincount(np.concatenate(groups), minlength=10)
    np.testing.assert_allclose(A.rmatvec(A @ x), count * x)
    assert count.max() <= A.norm2 <= count.max() * (1 + 1e-12)


def test_large_sparse_operators_have_a_certain_bound():
    grid = GridDifferences((40, 40))
    sharp = grid.norm2
    from_matrix = Matrix(grid.tosparse()).norm2
    assert sharp <= from_matrix <= 1.02 * sharp
    random = sparse.random_array((1500, 1200), density=0.003, rng=0)
    exact = np.linalg.norm(random.toarray(), 2) ** 2
    assert exact <= Matrix(random).norm2


def test_large_matrix_free_operators_have_a_margin():
    A = Wrapped(aslinearoperator(Differences(400).tosparse()))
    exact = Differences(400).norm2
    assert exact <= A.norm2 <= 1.05 * exact


def test_large_dense_matrices_have_a_margin():
    matrix = np.random.default_rng(0).normal(size=(1010, 1010)).astype(np.float32)
    exact = np.linalg.norm(matrix, 2) ** 2
    assert exact <= Matrix(matrix).norm2 <= 1.05 * exact


def test_algebra_of_operators():
    x = RNG.normal(size=7)
    A, B = Matrix(DENSE), Differences(5)
    np.testing.assert_allclose((B @ A) @ x, np.diff(DENSE @ x))
    np.testing.assert_allclose((2 * A) @ x, 2 * DENSE @ x)
    np.testing.assert_allclose((A * 2.0).rmatvec(np.ones(5)), 2 * DENSE.T @ np.ones(5))
    np.testing.assert_allclose((-A) @ x, -DENSE @ x)
    with pytest.raises(TypeError):
        A * np.ones(3)


def test_scaling_an_operator_that_returns_its_input_leaves_the_input_alone():
    identity = LinearOperator((3, 3), matvec=lambda x: x, rmatvec=lambda x: x, dtype=float)
    x = np.ones(3)
    np.testing.assert_array_equal((2.0 * Wrapped(identity)) @ x, 2.0)
    np.testing.assert_array_equal(x, 1.0)


def test_sparse_form_exists_when_all_parts_have_one():
    free = aslinearoperator(DENSE)
    assert not offers(Wrapped(free), Has.SPARSE)
    for A in (VStack([free]), PadColumns(free, 1), Scaled(free, 2.0), Composed(free, Identity(7))):
        assert not offers(A, Has.SPARSE)
    assert offers(VStack([Identity(3), np.ones((1, 3))]), Has.SPARSE)


@pytest.mark.parametrize(
    "A", [A for A in CASES if offers(A, Has.SPARSE)], ids=lambda A: type(A).__name__
)
def test_row_pointers_columns_and_values_are_those_of_the_dense_matrix(A):
    pointers, columns, values = csr_parts(A)
    assert len(pointers) == A.shape[0] + 1
    made = sparse.csr_array((values, columns, pointers), shape=A.shape)
    np.testing.assert_allclose(made.toarray(), dense(A), atol=1e-14)
    np.testing.assert_array_equal(A.tosparse().toarray(), made.toarray())


def test_as_operator_takes_what_users_have():
    A = Matrix(DENSE)
    assert as_operator(A) is A
    assert as_operator(None, n_columns=3) == Identity(3)
    assert isinstance(as_operator(DENSE), Matrix)
    assert isinstance(as_operator(sparse.coo_matrix(DENSE)), Matrix)
    assert isinstance(as_operator(aslinearoperator(DENSE)), Wrapped)
    assert isinstance(as_operator(pylops.Identity(4)), Wrapped)


class NoMatmat:
    shape = (2, 2)

    def matvec(self, x):
        return 2.0 * x

    rmatvec = matvec


def test_wrapped_objects_without_matmat_go_column_by_column():
    check_operator(Wrapped(NoMatmat()))


def test_operators_are_values():
    assert Incidence([(0, 1)], 2) == Incidence([(0, 1)], 2) != Incidence([(0, 1)], 3)
    assert Matrix(DENSE) == Matrix(DENSE.copy()) != Matrix(2 * DENSE)
    assert Matrix(sparse.csr_array(DENSE)) == Matrix(sparse.csr_array(DENSE))
    assert len({Identity(2), Identity(2), Identity(3)}) == 2


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Identity(-1), ValueError, "n must be non-negative"),
        (lambda: Matrix(np.ones(3)), ValueError, "two dimensions"),
        (lambda: Matrix(np.ones((2, 2), complex)), ValueError, "real numbers"),
        (lambda: Matrix(np.array([[np.nan]])), ValueError, "NaN or infinity"),
        (lambda: Incidence([(0, 1, 2)], 3), ValueError, "pairs of node indices"),
        (lambda: Incidence([(0.0, 1.0)], 3), ValueError, "pairs of node indices"),
        (lambda: Incidence([(0, 3)], 3), ValueError, "nodes 0 to 3 but nodes go from 0 to 2"),
        (lambda: Incidence([(0, 1), (2, 2)], 3), ValueError, "edge 1 joins node 2 to itself"),
        (
            lambda: Incidence([(0, 1)], 3, [-1.0]),
            ValueError,
            "1 non-negative numbers, one per edge",
        ),
        (
            lambda: Incidence([(0, 1)], 3, None, [0.5]),
            ValueError,
            "numbers .1 or -1, one per edge",
        ),
        (lambda: Differences(3, 0), ValueError, "at least 1, got n=3 and order=0"),
        (lambda: Differences(0), ValueError, "at least 1, got n=0 and order=1"),
        (lambda: GridDifferences(()), ValueError, "at least one cell"),
        (lambda: GridDifferences((2, 2), order=0), ValueError, "order must be at least 1"),
        (
            lambda: GridDifferences((2, 2), mask=np.ones((2, 2))),
            ValueError,
            "mask must be boolean",
        ),
        (lambda: Selection([[0], []], 3), ValueError, "group 1 is empty; leave it out"),
        (lambda: Selection([[0, 5]], 3), ValueError, "group 0 names columns outside 0 to 2"),
        (lambda: Selection([[0, 0]], 3), ValueError, "group 0 names a column twice"),
        (lambda: Selection([[0.5]], 3), ValueError, "list of column indices"),
        (
            lambda: Selection([[0]], 3, [1.0, 2.0]),
            ValueError,
            "1 non-negative numbers, one per group",
        ),
        (lambda: VStack([]), ValueError, "at least one operator"),
        (lambda: VStack([Identity(2), Identity(3)]), ValueError, r"numbers of columns: \[2, 3\]"),
        (lambda: PadColumns(Identity(2), -1), ValueError, "n_extra must be non-negative"),
        (lambda: Composed(Identity(2), Identity(3)), ValueError, "2 columns meet 3 rows"),
        (lambda: Wrapped(3), TypeError, "has no `shape`"),
        (lambda: Wrapped(aslinearoperator(DENSE * 1j)), ValueError, "complex"),
        (lambda: as_operator(None), ValueError, "structure is None; give an operator"),
        (lambda: as_operator("x", name="A"), TypeError, "A must be an operator, .* got str"),
        (lambda: as_operator(np.ones(3), name="A"), ValueError, "A: Matrix needs two dimensions"),
        (
            lambda: as_operator(DENSE, n_columns=3),
            ValueError,
            "structure has 7 columns, expected 3",
        ),
    ],
)
def test_mistakes_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()
