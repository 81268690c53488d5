"""Rows of float16: the same numbers as in float32, and never a wide copy of all of them."""

import tracemalloc

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.data import DenseRows, HalfRows


@pytest.fixture
def stored(tmp_path):
    """Return a function that writes rows to a map of float16 and returns it."""

    def store(X):
        place = tmp_path / "X.dat"
        np.asarray(X, dtype=np.float16).tofile(place)
        return np.memmap(place, dtype=np.float16, mode="r", shape=X.shape)

    return store


def classes(n, d, outputs, seed=0):
    rng = np.random.default_rng(seed)
    X = np.maximum(rng.standard_normal((n, d)), 0).astype(np.float16)
    scores = X.astype(np.float64) @ rng.standard_normal((d, outputs)) / np.sqrt(d)
    return X, (3 * scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


def stated(X, y, a=0.02, b=0.002):
    both = sa.VStack([sa.Identity(X.shape[1])] * 2)
    norms = sa.Stacked([(sa.Nuclear(a), X.shape[1]), (sa.L1(b), X.shape[1])])
    return sa.Problem.linear(sa.Multinomial(), X, y, structure=both, on_structure=norms)


def test_half_rows_do_what_rows_of_float32_do():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((700, 9)).astype(np.float16)
    half, wide = HalfRows(X), DenseRows(X.astype(np.float32))
    v, u, few = rng.standard_normal((9, 2)), rng.standard_normal((700, 2)), np.array([3, 1, 600])
    pairs = [
        (half.matvec(v), wide.matvec(v)),
        (half.rmatvec(u), wide.rmatvec(u)),
        (half.row_norms2(), wide.row_norms2()),
        (half.take(few).X, wide.take(few).X),
        (half.columns(few[:2]).dense(), wide.columns(few[:2]).dense()),
        (half.sandwich(u[:, 0] ** 2), wide.sandwich(u[:, 0] ** 2)),
        (half.column_sums_of_squares(), wide.column_sums_of_squares()),
        (half.row_sums_of_squares(v[:, 0]), wide.row_sums_of_squares(v[:, 0])),
        (half.column_moments().squares, wide.column_moments().squares),
        (half.changed(v[:, 0], v[:, 1]).X, wide.changed(v[:, 0], v[:, 1]).X),
        (half.with_ones().X, wide.with_ones().X),
        (half.followed_by(half).X, wide.followed_by(wide).X),
        (
            half.largest_sums_of_squares(u[:, 0] ** 2, np.array([0, 300, 700])),
            wide.largest_sums_of_squares(u[:, 0] ** 2, np.array([0, 300, 700])),
        ),
    ]
    for mine, theirs in pairs:
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


def test_half_rows_refuse_other_numbers():
    with pytest.raises(ValueError, match="expected a matrix of float16"):
        HalfRows(np.eye(3))


@pytest.mark.parametrize("method", ["auto", "low-rank-newton", "acc-sadmm"])
def test_a_map_of_float16_has_the_answer_of_its_float32_copy(stored, method):
    X, y = classes(400, 8, 3)
    mapped = stated(stored(X), y)
    assert mapped.dtype == np.float32 and mapped.f2.X.dtype == np.float16
    rule = sa.Gap(1e-4)
    half = sa.minimize(mapped, method, stop=rule, max_passes=500)
    wide = sa.minimize(stated(X.astype(np.float32), y), method, stop=rule, max_passes=500)
    assert half.status.name == "CONVERGED" and half.relative_gap <= 1e-4
    assert half.objective == pytest.approx(wide.objective, rel=2e-4)


def test_low_rank_steps_over_a_map_make_no_wide_copy_of_it(stored):
    X, y = classes(24_000, 200, 3)
    problem = stated(stored(X), y)
    tracemalloc.start()
    try:
        result = sa.minimize(problem, "low-rank-newton", stop=sa.Gap(1e-3), max_passes=500)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.status.name == "CONVERGED"
    assert peak < 1.5 * X.nbytes  # a copy in float32 alone is two, in float64 four
