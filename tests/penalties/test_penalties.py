"""Penalties: the public checks on all of them, and independent solutions of their proxes."""

import subprocess
import sys

import cvxpy as cp
import numpy as np
import pytest

import stochadmm as sa
from stochadmm.base.capabilities import Has, declared
from stochadmm.base.terms import Elementwise, GroupNorms, TotalVariation
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
    Separable,
    Stacked,
    TotalVariation1D,
    Zero,
)
from stochadmm.testing import check_penalty

CASES = [
    (L1(0.5), (6,)),
    (L1(0.5, weights=np.arange(6)), (6, 3)),
    (L1(0.5, weights=np.arange(18).reshape(6, 3)), (6, 3)),
    (ElasticNet(1.0, l1_ratio=0.3), (6,)),
    (ElasticNet(1.0, l1_ratio=1.0, weights=np.arange(6)), (6,)),
    (Ridge(2.0, weights=np.arange(6)), (6, 2)),
    (NonNegative(), (5,)),
    (Box(-0.1, 0.3), (5, 2)),
    (Box(np.full(5, 0.1), np.inf), (5,)),
    (Zero(), (4,)),
    (L1(0.3) + NonNegative(), (4,)),
    (L1(0.3, weights=np.arange(4)) + Ridge(0.2) + Box(-1.0, 2.0), (4, 2)),
    (GroupL2(1.0, [2, 3, 1]), (6,)),
    (GroupL2(1.0, [2, 3, 1], weights=[0, 1, 2]), (6, 2)),
    (GroupL2.from_labels(0.7, [0, -1, 1, 0, 1]), (5,)),
    (GroupL2.from_labels(0.7, [3, 3, 0, 3, 0]), (5, 2)),
    (RowsL21(0.5), (6, 3)),
    (RowsL21(0.5, weights=np.arange(6)), (6,)),
    (Nuclear(0.8), (6, 4)),
    (Nuclear(0.8), (3, 7)),
    (L2Ball(1.5), (6,)),
    (L2Ball(1.5), (3, 2)),
    (TotalVariation1D(0.4), (9,)),
    (TotalVariation1D(0.4), (9, 2)),
    (TotalVariation1D(0.4), (1,)),
    (
        Stacked(
            [(L1(0.5), 3), (GroupL2(1.0, [2, 1]), 3), (Zero(), 0), (TotalVariation1D(1.0), 4)]
        ),
        (10,),
    ),
    (Stacked([(L1(0.5), 3), (Nuclear(1.0), 3)]), (6, 2)),
]


@pytest.mark.parametrize(("penalty", "shape"), CASES)
def test_every_penalty_passes_the_public_checks(penalty, shape):
    for seed in range(3):
        check_penalty(penalty, shape, rng=seed)


@pytest.mark.parametrize(("penalty", "shape"), CASES)
def test_penalties_are_values(penalty, shape):
    twin = penalty.scaled(1.0)
    assert twin == penalty
    assert hash(twin) == hash(penalty)
    assert penalty != L1(17.0)


def by_cvxpy(h, v, step):
    x = cp.Variable(v.shape)
    cp.Problem(cp.Minimize(step * h(x) + 0.5 * cp.sum_squares(x - v))).solve(solver="CLARABEL")
    return x.value


@pytest.mark.parametrize(
    ("penalty", "h", "shape"),
    [
        (TotalVariation1D(0.6), lambda x: 0.6 * cp.tv(x), (15,)),
        (Nuclear(0.6), lambda x: 0.6 * cp.normNuc(x), (5, 3)),
        (GroupL2(0.6, [2, 3]), lambda x: 0.6 * (cp.norm(x[:2]) + cp.norm(x[2:])), (5,)),
        (RowsL21(0.6), lambda x: 0.6 * cp.sum(cp.norm(x, axis=1)), (4, 3)),
    ],
)
def test_prox_agrees_with_a_conic_solver(penalty, h, shape):
    v = np.random.default_rng(0).normal(size=shape)
    np.testing.assert_allclose(penalty.prox(v, 0.7), by_cvxpy(h, v, 0.7), atol=2e-5)


@pytest.mark.parametrize("seed", range(20))
def test_total_variation_prox_has_a_dual_certificate(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    v = rng.normal(size=n).cumsum()
    v = np.round(v) if seed % 2 else v  # ties
    penalty = TotalVariation1D(float(rng.exponential()))
    p = penalty.prox(v, 1.0)
    sums = np.cumsum(v - p)
    assert abs(sums[-1]) < 1e-11
    assert np.abs(sums).max() <= penalty.alpha + 1e-11
    # the running sum sits at its bound wherever the solution jumps, on the side of the jump
    jumps = np.diff(p)
    np.testing.assert_allclose(sums[:-1][jumps > 0], -penalty.alpha, atol=1e-11)
    np.testing.assert_allclose(sums[:-1][jumps < 0], penalty.alpha, atol=1e-11)


def test_total_variation_fuses_everything_to_the_mean():
    v = np.random.default_rng(0).normal(size=50)
    np.testing.assert_allclose(TotalVariation1D(1e3).prox(v, 1.0), v.mean(), rtol=1e-12)


def test_total_variation_takes_long_vectors_and_memory_in_any_order():
    v = np.asfortranarray(np.random.default_rng(0).normal(size=(20_000, 2)).cumsum(axis=0))
    p = TotalVariation1D(5.0).prox(v, 1.0)
    np.testing.assert_array_equal(p[:, 1], TotalVariation1D(5.0).prox(v[:, 1].copy(), 1.0))
    assert len(np.unique(p[:, 0])) < 10_000


def test_nuclear_prox_has_the_rank_of_the_threshold():
    rng = np.random.default_rng(0)
    left, right = (
        np.linalg.qr(rng.normal(size=(8, 5)))[0],
        np.linalg.qr(rng.normal(size=(5, 5)))[0],
    )
    v = (left * [5.0, 4.0, 3.0, 0.5, 0.1]) @ right
    penalty = Nuclear(1.0)
    assert penalty.factors(v, 1.0)[1].size == 3
    np.testing.assert_allclose(penalty.factors(v, 1.0)[1], [4.0, 3.0, 2.0])
    assert np.linalg.matrix_rank(penalty.prox(v, 1.0)) == 3
    np.testing.assert_array_equal(penalty.prox(v, 10.0), 0.0)
    assert penalty.zeros(penalty.prox(v, 10.0)).all()


def test_elementwise_penalties_take_one_step_per_row_or_entry():
    v = np.array([[3.0, -3.0], [3.0, 0.5]])
    np.testing.assert_array_equal(L1(1.0).prox(v, np.array([1.0, 2.0])), [[2, -2], [1, 0]])
    np.testing.assert_array_equal(
        L1(1.0).prox(v, np.array([[1, 2], [0.1, 9]])), [[2, -1], [2.9, 0]]
    )


def test_groups_take_steps_that_agree_within_a_group():
    penalty, v = GroupL2(1.0, [2, 1]), np.array([3.0, 4.0, 5.0])
    np.testing.assert_allclose(penalty.prox(v, np.array([1.0, 1.0, 2.0])), [2.4, 3.2, 3.0])
    np.testing.assert_allclose(RowsL21(1.0).prox(v, np.array([1.0, 2.0, 3.0])), 2.0)
    with pytest.raises(ValueError, match="steps that differ within one"):
        penalty.prox(v, np.array([1.0, 2.0, 2.0]))


@pytest.mark.parametrize("penalty", [L2Ball(1.0), TotalVariation1D(1.0)])
def test_blocks_as_a_whole_take_one_step(penalty):
    with pytest.raises(ValueError, match="takes one step for the block"):
        penalty.prox(np.ones(2), np.array([1.0, 2.0]))


def test_zero_weights_leave_entries_free():
    v = np.array([0.1, 0.1])
    np.testing.assert_array_equal(L1(1.0, weights=[0, 1]).prox(v, 1.0), [0.1, 0.0])
    np.testing.assert_array_equal(GroupL2(1.0, [1, 1], weights=[0, 1]).prox(v, 1.0), [0.1, 0.0])
    mask = L1(1.0, weights=[0, 1]).zeros(np.zeros(2))
    np.testing.assert_array_equal(mask, [False, True])


def test_sums_of_elementwise_penalties_are_exact():
    penalty = L1(0.5) + Ridge(1.0) + NonNegative()
    assert penalty == Separable(0.5, 1.0, 0.0, np.inf)
    np.testing.assert_allclose(penalty.prox(np.array([-3.0, 0.2, 2.5]), 1.0), [0, 0, 1])
    assert penalty.scaled(2.0) == Separable(1.0, 2.0, 0.0, np.inf)


@pytest.mark.parametrize(
    ("a", "b"), [(L1(1.0), GroupL2(1.0, [2])), (Nuclear(1.0), L1(1.0)), (L2Ball(1.0), Zero())]
)
def test_sums_without_a_simple_prox_are_refused_with_the_remedy(a, b):
    with pytest.raises(TypeError, match=r"no simple prox; .*VStack\(\[A, Identity\(d\)\]\)"):
        a + b


def test_adding_a_number_is_not_supported():
    with pytest.raises(TypeError, match="unsupported operand"):
        L1(1.0) + 3


def test_points_on_the_edge_of_the_dual_domain_are_inside():
    edge = np.array([0.1, -0.1])
    assert L1(0.1).conjugate(edge) == 0.0
    assert L1(0.1).conjugate(edge * (1 + 1e-14)) == np.inf
    assert GroupL2(5.0, [2]).conjugate(np.array([3.0, 4.0])) == 0.0
    assert GroupL2(5.0, [2]).conjugate(np.array([3.0, 4.0 + 1e-13])) == np.inf
    assert Zero().conjugate(np.array([1e-300])) == np.inf


def test_indicators_are_exact():
    box = Box(0.0, 1.0)
    assert box.value(np.array([0.0, 1.0])) == 0.0
    assert box.value(np.array([np.nextafter(1.0, 2.0)])) == np.inf
    assert box.conjugate(np.array([2.0, -3.0])) == 2.0
    assert Box(0.0, 0.1).value(Box(0.0, 0.1).prox(np.full(2, 5, dtype=np.float32), 1.0)) == 0.0
    rng = np.random.default_rng(0)
    for dtype in (np.float32, np.float64):
        for _ in range(50):
            ball = L2Ball(float(rng.exponential()))
            assert ball.value(ball.prox(rng.normal(size=30).astype(dtype), 1.0)) == 0.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("penalty", "shape"), CASES)
def test_projected_and_scaled_dual_points_are_inside_in_both_dtypes(penalty, shape, dtype):
    rng = np.random.default_rng(3)
    for _ in range(5):
        u = (10.0 * rng.normal(size=shape)).astype(dtype)
        assert penalty.project_dual(u).dtype == dtype
        assert np.isfinite(penalty.conjugate(penalty.project_dual(u)))
        assert np.isfinite(penalty.conjugate(penalty.dual_scale(u) * u.astype(np.float64)))


def test_terms_describe_the_penalty():
    (term,) = ElasticNet(2.0, 0.5, weights=[1.0, 2.0]).terms(2)
    assert isinstance(term, Elementwise)
    np.testing.assert_array_equal(term.l1, [1.0, 2.0])
    np.testing.assert_array_equal(term.l2, [1.0, 2.0])
    (term,) = L1(1.0, weights=np.arange(6).reshape(3, 2)).terms(3)
    np.testing.assert_array_equal(term.l1, np.arange(6))
    kinds = [
        type(term)
        for term in Stacked([(L1(1.0), 2), (RowsL21(1.0), 3), (TotalVariation1D(1.0), 4)]).terms(9)
    ]
    assert kinds == [Elementwise, GroupNorms, TotalVariation]
    assert Stacked([(L1(1.0), 2), (Nuclear(1.0), 3)]).terms(5) is None
    assert GroupL2.from_labels(1.0, [0, 1, 0]).terms(3) is None
    assert GroupL2.from_labels(1.0, [0, 0, 1]).terms(3) is not None


class OnlyProx:
    def value(self, x):
        return 0.0

    def prox(self, v, step, out=None):
        return np.copyto(out, v) or out


def test_a_stack_offers_what_all_its_parts_offer():
    full, partial = Stacked([(L1(1.0), 2)]), Stacked([(L1(1.0), 2), (OnlyProx(), 1)])
    for capability in (Has.CONJUGATE, Has.DUAL_SCALE, Has.PROJECT_DUAL, Has.SCALED, Has.TERMS):
        assert capability in declared(full)
        assert capability not in declared(partial)
    assert declared(partial) >= {Has.PROJECT, Has.ZEROS, Has.CHECK}
    assert partial.terms(3) is None
    np.testing.assert_array_equal(partial.prox(np.array([3.0, 0.5, 7.0]), 1.0), [2, 0, 7])
    np.testing.assert_array_equal(partial.project(np.ones(3)), 1.0)
    np.testing.assert_array_equal(partial.zeros(np.array([0.0, 1.0, 0.0])), [True, False, True])
    partial.check((3,))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L1(-1.0), "alpha must be a non-negative number, got -1.0"),
        (lambda: Ridge(np.nan), "alpha must be a non-negative number, got nan"),
        (lambda: L1(1.0, weights=[1.0, -1.0]), "weights must be an array of non-negative numbers"),
        (lambda: L1(1.0, weights=2.0), "weights must be an array"),
        (lambda: ElasticNet(1.0, l1_ratio=2.0), "l1_ratio must lie between 0 and 1"),
        (lambda: Box(1.0, 0.0), "lower <= upper"),
        (lambda: Box(np.nan, 0.0), "lower <= upper"),
        (lambda: Box(np.inf, np.inf), "no finite value"),
        (lambda: NonNegative() + Box(-2.0, -1.0), "lower <= upper"),
        (lambda: Separable(l1=-1.0), "l1 must hold non-negative numbers"),
        (lambda: GroupL2(1.0, [2, 0]), "sizes must be positive integers"),
        (lambda: GroupL2(1.0, [1.5]), "sizes must be positive integers"),
        (lambda: GroupL2(1.0, [2], weights=[1, 2]), "weights have shape .* for 1 groups"),
        (lambda: GroupL2(1.0, [2], order=[0, 0]), "order must name every row once"),
        (lambda: GroupL2.from_labels(1.0, [0, -2]), "labels must be integers"),
        (lambda: RowsL21(1.0, weights=np.ones((2, 2))), "RowsL21 takes one per row"),
        (lambda: L2Ball(-1.0), "radius must be a non-negative number"),
        (lambda: Stacked([]), "at least one"),
        (lambda: Stacked([(L1(1.0), -1)]), "non-negative numbers of rows"),
        (lambda: L1(1.0).scaled(-1.0), "factor must be a non-negative number"),
        (lambda: L1(1.0, weights=np.ones(2)).check((3,)), r"weights of L1 have shape \(2,\)"),
        (lambda: Box(np.zeros(2), 1.0).check((3,)), "bounds of Box"),
        (lambda: GroupL2(1.0, [2]).check((3,)), "hold 2 rows, the block has 3"),
        (lambda: RowsL21(1.0, weights=np.ones(2)).check((3, 2)), "2 weights but the block has 3"),
        (lambda: Nuclear(1.0).check((3,)), "Nuclear needs a matrix"),
        (lambda: Nuclear(1.0).prox(np.ones(3), 1.0), "Nuclear needs a matrix"),
        (lambda: Stacked([(L1(1.0), 2)]).check((3,)), "hold 2 rows but the block has 3"),
        (lambda: Stacked([(L1(1.0, np.ones(3)), 2)]).check((2,)), "weights of L1"),
        (lambda: Stacked([(L1(1.0), 2)]).value(np.ones(3)), "Stacked holds 2 rows"),
        (lambda: RowsL21(1.0).prox(np.ones((2, 2)), np.ones((2, 2))), "one step, or one per row"),
    ],
)
def test_mistakes_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_stack_of_something_else_is_refused():
    with pytest.raises(TypeError, match="needs penalties with value and prox"):
        Stacked([(np.ones(2), 2)])


def test_fields_cannot_be_changed():
    weights = np.ones(2)
    penalty = L1(1.0, weights=weights)
    weights[0] = 5.0
    assert penalty.value(np.ones(2)) == 2.0
    with pytest.raises(ValueError, match="read-only"):
        penalty.weights[0] = 5.0
    with pytest.raises(AttributeError):
        penalty.alpha = 2.0


def test_importing_penalties_does_not_load_the_extension():
    code = (
        "import sys, types; m = types.ModuleType('stochadmm');"
        f"m.__path__ = {list(map(str, sys.modules['stochadmm'].__path__))!r};"
        "sys.modules['stochadmm'] = m; import stochadmm.penalties;"
        "sys.exit('stochadmm._core' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("share", [0.0, 1e-9, 1e-4, 0.05, 0.5, 2.0])
@pytest.mark.parametrize(("dtype", "digits"), [(np.float64, 1e-13), (np.float32, 1e-6)])
def test_singular_values_of_long_matrices_come_from_the_smaller_side(turned, share, dtype, digits):
    rng = np.random.default_rng(0)
    v = (rng.standard_normal((200, 20)) @ np.diag(np.logspace(0, -7, 20))).astype(dtype)
    v = v.T.copy() if turned else v
    left, values, right = np.linalg.svd(v.astype(np.float64), full_matrices=False)
    threshold = share * values[0]
    expected = (left * np.maximum(values - threshold, 0)) @ right
    found = Nuclear(threshold).prox(v, 1.0)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, expected, atol=digits * values[0])
    if share >= 1e-4:  # values of a smaller share are not known to single precision
        assert len(Nuclear(threshold).factors(v, 1.0)[1]) == int((values > threshold).sum())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_long_matrix_of_zeros_stays_one(dtype):
    zeros = np.zeros((64, 16), dtype)
    np.testing.assert_array_equal(Nuclear(1.0).prox(zeros, 1.0), zeros)
    np.testing.assert_array_equal(Nuclear(0.0).prox(zeros, 1.0), zeros)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("shape", [(64, 16), (16, 64), (5, 4)])
def test_a_matrix_that_is_not_finite_has_no_prox(shape, bad, dtype):
    v = np.ones(shape, dtype)
    v[0, 0] = bad
    found = Nuclear(0.1).prox(v, 1.0)
    assert found.dtype == dtype
    assert np.isnan(found).all()


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (1, 1), (40, 17), (17, 40)])
def test_a_nuclear_norm_leaves_what_is_not_a_number(shape, capfd):
    penalty, v = Nuclear(0.5), np.ones(shape)
    v[0, 0] = np.nan
    assert np.isnan(penalty.prox(v, 1.0)).any()
    assert np.isnan(penalty.value(v))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("empty", [sa.L1(1.0, weights=[]), sa.RowsL21(1.0, weights=[])])
def test_segments_without_rows_may_have_weights(empty):
    X = np.random.default_rng(0).standard_normal((20, 3))
    plain = sa.Problem.linear(sa.Squared(), X, X[:, 0], on_structure=sa.L1(0.1))
    stacked = sa.Stacked([(sa.L1(0.1), 3), (empty, 0)])
    found = sa.minimize(sa.Problem.linear(sa.Squared(), X, X[:, 0], on_structure=stacked))
    np.testing.assert_allclose(found.coef, sa.minimize(plain).coef, atol=1e-9)
    assert empty.growth == np.inf


def test_a_square_of_next_to_nothing_has_a_conjugate():
    u = np.array([1.0, 0.5, 2.0])
    assert Separable(1.0, 5e-324).conjugate(u[:2]) == 0.0  # on the edge of what the l1 norm holds
    assert Separable(1.0, 5e-324).conjugate(u) == np.inf
