"""Compiled steps of the low-rank splitting: those of the readable one, to rounding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.variants import by_variant

import stochadmm as sa
from stochadmm.kernels.extension import engine
from stochadmm.low_rank import NuclearProx, Splitting, compiled_steps, moments, read, reduced

pytestmark = pytest.mark.compiled
PENALTIES = ("none", "l1", "l1 of entries", "rows", "ridge", "signs")


def made(rng, shape, kind, alpha, flat=False):
    """Return form and quadratic of a problem; ``flat`` rows leave directions without curvature."""
    p, C = shape
    n = max(p // 2, 1) if flat else 3 * p + 5
    X, Y = rng.standard_normal((n, p)), rng.standard_normal((n, C))
    other = {
        "none": None,
        "l1": sa.L1(0.1),
        "l1 of entries": sa.L1(0.1, rng.random((p, C))),
        "rows": sa.RowsL21(0.1),
        "ridge": sa.Ridge(0.2),
        "signs": sa.NonNegative(),
    }[kind]
    problem = sa.Problem.linear(
        sa.Squared(), X, Y, on_structure=sa.Nuclear(alpha), on_coefficients=other
    )
    form = read(problem)
    return form, reduced(moments(problem.f2), form.rows, form.free)


def begun(form, quadratic, rng):
    proxes = [NuclearProx(float(form.nuclear.alpha)), *(h.prox for h in form.others)]
    split = Splitting(quadratic, quadratic.linear, proxes, quadratic.mean_eigenvalue)
    start = rng.standard_normal(quadratic.linear.shape)
    split.begin(start, [0 * start for _ in proxes])
    return split


@given(
    st.integers(0, 2**32 - 1),
    st.tuples(st.integers(1, 20), st.integers(1, 20)).filter(lambda s: min(s) <= 16),
    st.sampled_from(PENALTIES),
    st.sampled_from([1e-6, 0.05, 0.5, 50.0]),
    st.booleans(),
)
@settings(max_examples=80, deadline=None, derandomize=True)
def test_compiled_steps_are_the_readable_ones(seed, shape, kind, alpha, flat):
    rng = np.random.default_rng(seed)
    form, quadratic = made(rng, shape, kind, alpha, flat)
    steps = compiled_steps(form, quadratic)
    assert steps is not None
    readable = begun(form, quadratic, rng)
    fast = readable.copy()
    for count in (1, 3, 7, 12):  # the penalty changes in between
        readable.advance(count)
        fast.advance(count, steps)
        assert fast.n_steps == readable.n_steps
        found, wanted = ([split.W, *split.Z] for split in (fast, readable))
        if readable.apart() > 1e-5:  # else rounding decides about the penalty, the unit of v
            np.testing.assert_allclose(fast.rho, readable.rho, rtol=1e-8)
            found, wanted = [*found, *fast.v], [*wanted, *readable.v]
        for ours, expected in zip(found, wanted, strict=True):
            size = 1 + np.abs(expected).max()
            np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-9 * size)


def test_variants_give_the_same_bits():
    def run():
        rng = np.random.default_rng(3)
        form, quadratic = made(rng, (9, 6), "rows", 0.05)
        split = begun(form, quadratic, rng)
        split.advance(40, compiled_steps(form, quadratic))
        return [a.tobytes() for a in (split.W, *split.Z, *split.v)]

    first, *others = by_variant(run)
    assert all(other == first for other in others)


def test_a_prox_far_below_the_threshold_is_zero_and_far_above_moves_every_singular_value():
    rng = np.random.default_rng(1)
    form, quadratic = made(rng, (7, 5), "none", 0.3)
    steps, split = compiled_steps(form, quadratic), begun(form, quadratic, rng)
    split.advance(1, steps)
    V, Z, cut = split.v[0], split.Z[0], 0.3 / split.rho
    before, after = (np.linalg.svd(M, compute_uv=False) for M in (V, Z))
    np.testing.assert_allclose(after, np.maximum(before - cut, 0), atol=1e-12)
    form, quadratic = made(rng, (7, 5), "none", 1e6)
    split = begun(form, quadratic, rng)
    split.advance(1, compiled_steps(form, quadratic))
    assert not split.Z[0].any()


def test_large_matrices_and_the_reference_engine_have_none():
    rng = np.random.default_rng(0)
    form, quadratic = made(rng, (20, 17), "l1", 0.1)
    assert compiled_steps(form, quadratic) is None
    form, quadratic = made(rng, (6, 3), "l1", 0.1)
    with engine("reference"):
        assert compiled_steps(form, quadratic) is None
    assert compiled_steps(form, quadratic) is not None


def test_arrays_that_do_not_fit_are_refused():
    rng = np.random.default_rng(0)
    form, quadratic = made(rng, (6, 3), "l1", 0.1)
    split = begun(form, quadratic, rng)
    split.linear = np.zeros((6, 2))
    with pytest.raises(ValueError, match="linear"):
        split.advance(1, compiled_steps(form, quadratic))


@pytest.mark.parametrize("sparsity", ["entries", "rows"])
@pytest.mark.parametrize("seed", range(4))
def test_ranks_and_zeros_are_those_of_the_readable_steps(seed, sparsity):
    rng = np.random.default_rng(seed)
    n, d, C, rank = 60, int(rng.integers(4, 14)), int(rng.integers(2, 7)), int(rng.integers(1, 3))
    X = rng.standard_normal((n, d))
    W = rng.standard_normal((d, rank)) @ rng.standard_normal((rank, C))
    W[rng.random(d) < 0.4] = 0
    Y = X @ W + rng.standard_normal((n, C))
    model = sa.SparseLowRankRegressor(alpha=float(rng.choice([0.02, 0.1, 0.4])), sparsity=sparsity)
    found = model.fit(X, Y)
    ours = (found.rank_, found.sparse_coef_ != 0, found.coef_)
    with engine("reference"):
        readable = sa.SparseLowRankRegressor(**model.get_params()).fit(X, Y)
    assert ours[0] == readable.rank_
    np.testing.assert_array_equal(ours[1], readable.sparse_coef_ != 0)
    np.testing.assert_allclose(ours[2], readable.coef_, atol=1e-7)


@pytest.mark.parametrize("l1_ratio", [0.0, 0.3, 1.0])
def test_a_single_column_has_its_length_for_a_nuclear_norm(l1_ratio):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((80, 7))
    y = np.where(X[:, 0] - X[:, 1] + rng.standard_normal(80) > 0, 1.0, -1.0)
    model = sa.SparseLowRankClassifier(alpha=0.1, l1_ratio=l1_ratio, standardize=False).fit(X, y)
    both = sa.Problem.linear(
        sa.Logistic(),
        X,
        y,
        structure=sa.Identity(7),
        intercept=True,
        on_structure=sa.GroupL2(0.1 * (1 - l1_ratio), [7]),
        on_coefficients=sa.L1(0.1 * l1_ratio),
    )
    expected = sa.minimize(both, stop=sa.Gap(1e-10))
    np.testing.assert_allclose(np.ravel(model.coef_), expected.coef, atol=1e-4)
    assert model.result_.objective <= expected.objective * (1 + 1e-4)
    assert model.rank_ == int(expected.coef.any())
