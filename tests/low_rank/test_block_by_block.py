"""Low rank where nothing is kept per row and output: the same answers, from less memory."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.low_rank import BlockwiseLoss, CurvedLoss, most_pairs, read
from stochadmm.solvers import LowRankNewton

ALWAYS = LowRankNewton(most_predictions=0, block_numbers=1 << 12, block_steps=3)


def rows_and_labels(seed=0, n=700, d=12, outputs=6):
    """Return rectified rows, so that columns have means, and labels of low rank."""
    rng = np.random.default_rng(seed)
    X = np.maximum(rng.standard_normal((n, d)) + 0.3, 0)
    W = rng.standard_normal((d, 2)) @ rng.standard_normal((2, outputs))
    return X, (X @ W + rng.gumbel(size=(n, outputs))).argmax(axis=1)


def stated(X, y, norm=None, a=0.02, **given):
    """Return a nuclear norm and another of all coefficients."""
    d = X.shape[1]
    if norm is None:
        only = {"on_structure": sa.Nuclear(a)}
        return sa.Problem.linear(sa.Multinomial(), X, y, structure=sa.Identity(d), **only, **given)
    both = sa.VStack([sa.Identity(d), sa.Identity(d)])
    norms = sa.Stacked([(sa.Nuclear(a), d), (norm, d)])
    return sa.Problem.linear(sa.Multinomial(), X, y, structure=both, on_structure=norms, **given)


def as_map(folder, X):
    """Return rows as a read-only memory map of float16."""
    np.save(folder / "X.npy", X.astype(np.float16))
    return np.load(folder / "X.npy", mmap_mode="r")


def objective(X, y, W, a, b):
    """Return the objective by NumPy, in float64."""
    W = W.astype(np.float64)
    z = X.astype(np.float64) @ W
    top = z.max(axis=1)
    each = np.log(np.exp(z - top[:, None]).sum(axis=1)) + top - z[np.arange(len(z)), y]
    return each.mean() + a * np.linalg.norm(W, "nuc") + b * np.abs(W).sum()


@pytest.mark.parametrize("weighted", [False, True])
def test_a_point_that_is_added_up_is_the_point(weighted):
    X, y = rows_and_labels()
    weight = np.random.default_rng(1).random(len(y)) if weighted else None
    problem = stated(X, y, sa.L1(0.01), sample_weight=weight)
    form, W = read(problem), 0.3 * np.random.default_rng(2).standard_normal((12, 6))
    kept = CurvedLoss(problem.f2, form.rows, form.free)
    added = BlockwiseLoss(problem.f2, form.rows, form.free, 1 << 12)
    a, b = kept.at(W), added.at(W)
    assert b.value == pytest.approx(a.value, rel=1e-14)
    np.testing.assert_allclose(b.gradient, a.gradient, atol=1e-15)
    assert b.conjugate == pytest.approx(kept.conjugate(a.derivatives), rel=1e-12)
    np.testing.assert_allclose(added.row_curvature(b), kept.row_curvature(a), atol=1e-14)
    np.testing.assert_allclose(added.output_curvature(b), kept.output_curvature(a), atol=1e-15)
    assert b.z.size == b.derivatives.size == b.base.size == 0
    rough = added.towards(b, W, True)
    assert rough.fitted(1.0, W)[0] == pytest.approx(a.value, rel=1e-6)
    assert added.exact(rough.point()).value == b.value


@pytest.mark.parametrize("norm", [None, sa.L1(0.005), sa.RowsL21(0.01)])
@pytest.mark.parametrize("tol", [1e-3, 1e-7])
def test_answers_are_those_of_kept_predictions(norm, tol):
    X, y = rows_and_labels(3)
    problem = stated(X, y, norm)
    best = sa.minimize(problem, "low-rank-newton", stop=sa.Gap(1e-10))
    found = sa.minimize(problem, ALWAYS, stop=sa.Gap(tol))
    assert best.status.name == found.status.name == "CONVERGED"
    assert found.relative_gap <= tol
    assert found.objective - found.gap <= best.objective + 1e-12  # the bound is one
    assert best.objective * (1 - 1e-9) <= found.objective <= best.objective * (1 + tol)
    assert found.objective == pytest.approx(
        problem.objective(sa.Pair(found.x1, found.x2)), rel=1e-13
    )


def test_a_map_of_half_floats_is_certified_in_float64(tmp_path):
    X, y = rows_and_labels(4)
    X = as_map(tmp_path, X)
    found = sa.minimize(stated(X, y, sa.L1(0.005)), ALWAYS, stop=sa.Gap(1e-4))
    same = stated(np.asarray(X, dtype=np.float64), y, sa.L1(0.005))
    best = sa.minimize(same, "low-rank-newton", stop=sa.Gap(1e-9))
    assert found.status.name == "CONVERGED" and found.x2.dtype == np.float32
    F = objective(X, y, found.x2, 0.02, 0.005)
    assert found.objective == pytest.approx(F, rel=1e-12)
    assert found.objective - found.gap <= best.objective <= F


def test_a_run_that_ends_early_has_a_bound_of_its_own():
    X, y = rows_and_labels(5)
    problem = stated(X, y, sa.L1(0.005))
    found = sa.minimize(problem, ALWAYS, stop=sa.Gap(1e-9), max_passes=4)
    best = sa.minimize(problem, "low-rank-newton", stop=sa.Gap(1e-9))
    assert found.status.name == "MAX_PASSES"
    assert 1e-9 < found.relative_gap < 1
    assert found.objective - found.gap <= best.objective <= found.objective


def test_no_array_of_all_predictions_is_made(tmp_path):
    n, outputs = 20_000, 60
    X, y = rows_and_labels(6, n, 20, outputs)
    X = as_map(tmp_path, X)
    problem, one = stated(X, y, sa.L1(0.002)), 4 * n * outputs
    solver = replace(ALWAYS, block_numbers=1 << 14)
    tracemalloc.start()
    try:
        found = sa.minimize(problem, solver, stop=sa.Gap(1e-3))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.status.name == "CONVERGED"
    assert peak < one  # in float32 the smallest there could be


def test_the_memory_is_that_of_some_models_in_single_precision(tmp_path):
    X, y = rows_and_labels(11, 3000, 300, 200)
    problem = stated(as_map(tmp_path, X), y, sa.L1(1e-3), a=1e-2)
    solver = replace(ALWAYS, block_numbers=1 << 17)
    given = {"checkpoint": tmp_path / "run", "checkpoint_every": 0}
    tracemalloc.start()
    try:
        found = sa.minimize(problem, solver, stop=sa.Gap(1e-3), max_passes=30, **given)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.n_passes > 8  # several epochs: the state before each is kept
    size, pairs = 300 * 200, most_pairs(300 * 200)
    # models in single precision, two squares of the columns, three blocks; a bound holds the
    # multipliers of both norms twice in float64
    assert peak <= 4 * ((56 + 4 * pairs + 8) * size + 2 * 300**2 + 3 * (1 << 17))


def test_a_resumed_run_takes_the_same_steps(tmp_path):
    X, y = rows_and_labels(7)
    problem = stated(as_map(tmp_path, X), y, sa.L1(0.005))
    whole = sa.minimize(problem, ALWAYS, stop=sa.Gap(1e-5))
    given = {"checkpoint": tmp_path / "run", "checkpoint_every": 0}
    sa.minimize(problem, ALWAYS, stop=sa.Gap(1e-5), max_passes=5, **given)
    again = sa.minimize(problem, ALWAYS, stop=sa.Gap(1e-5), resume=True, **given)
    assert again.n_passes == whole.n_passes and again.status == whole.status
    np.testing.assert_array_equal(again.x2, whole.x2)


def test_the_loss_of_many_outputs_is_added_up_in_parts():
    X, y = rows_and_labels(8)
    f2 = stated(X, y, sa.L1(0.01)).f2
    W = np.random.default_rng(9).standard_normal((12, 6))
    whole = f2.value(W)
    f2.passes = replace(f2.passes, predictions=6 * 256)
    assert f2.value(W) == pytest.approx(whole, rel=1e-14)


def test_free_coefficients_keep_their_predictions():
    X, y = rows_and_labels(10)
    problem = stated(X, y, sa.L1(0.005), intercept=True)
    found = sa.minimize(problem, ALWAYS, stop=sa.Gap(1e-6))
    assert found.status.name == "CONVERGED" and "again" not in ALWAYS.plan(problem)
    assert "again" in ALWAYS.plan(stated(X, y, sa.L1(0.005)))


def test_a_loss_that_may_keep_nothing_per_row_is_added_up_by_blocks():
    X, y = rows_and_labels()
    problem = stated(X, y, sa.L1(0.005))
    light = replace(problem, f2=problem.f2.with_memory(0))
    plan = "predictions made again at every read"
    assert plan in LowRankNewton().plan(light)
    assert plan not in LowRankNewton().plan(problem)
    found = [sa.minimize(p, "low-rank-newton", stop=sa.Gap(1e-6)) for p in (problem, light)]
    assert all(r.status is sa.Status.CONVERGED for r in found)
    assert found[1].objective == pytest.approx(found[0].objective, rel=2e-6)
