"""Bounds of a nuclear norm and an l1 norm, found entry by entry: never above the optimum."""

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm._newton import TiltedSearch
from stochadmm.kernels.extension import available
from stochadmm.low_rank import Bounds, CurvedLoss, read, spectral_norm

A, B = 3e-3, 4e-4

pytestmark = pytest.mark.skipif(not available(), reason="sweeps over entries are compiled")


def texts(seed=0, n=240, d=150, outputs=8):
    """Return rows of a few words, most of which come once or twice, and classes of some words."""
    rng = np.random.default_rng(seed)
    chance = 1.0 / (1.0 + np.arange(d))
    rows, columns = [], []
    for i in range(n):
        words = rng.choice(d, 6, replace=False, p=chance / chance.sum())
        rows += [i] * words.size
        columns += list(words)
    size = rng.random(len(rows)) + 0.5
    X = sparse.csr_array((size, (rows, columns)), shape=(n, d))
    W = rng.standard_normal((d, 3)) @ rng.standard_normal((3, outputs))
    return X, np.asarray(X @ W + rng.gumbel(size=(n, outputs))).argmax(axis=1)


def stated(X, y, norm=None, **given):
    """Return a nuclear norm and another of the same coefficients."""
    d = X.shape[1]
    both = sa.VStack([sa.Identity(d), sa.Identity(d)])
    norms = sa.Stacked([(sa.Nuclear(A), d), (norm or sa.L1(B), d)])
    loss = sa.Multinomial(int(y.max()) + 1)
    return sa.Problem.linear(loss, X, y, structure=both, on_structure=norms, **given)


def solved(problem, tol):
    """Return the result of low-rank steps."""
    found = sa.minimize(problem, "low-rank-newton", stop=sa.Gap(tol), max_passes=5000)
    assert found.status.name == "CONVERGED"
    return found


@pytest.mark.parametrize("given", [{}, {"intercept": True}, {"weights": True}])
def test_texts_with_rare_words_are_certified_as_dense_rows_are(given):
    X, y = texts()
    if given.pop("weights", False):
        given = {"sample_weight": np.random.default_rng(1).random(len(y))}
    found = solved(stated(X, y, **given), 1e-5)
    dense = solved(stated(X.toarray(), y, **given), 1e-6)
    assert found.objective - found.gap <= dense.objective * (1 + 1e-12)
    assert dense.objective * (1 - 1e-6) <= found.objective <= dense.objective * (1 + 1e-5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("intercept", [False, True])
def test_no_subgradient_gives_a_bound_above_the_optimum(seed, intercept):
    X, y = texts(seed)
    problem = stated(X, y, intercept=intercept)
    best = solved(problem, 1e-5)
    form = read(problem)
    loss = CurvedLoss(problem.f2, form.rows, form.free)
    search = TiltedSearch.of(Bounds.of(problem, loss, form))
    rng = np.random.default_rng(seed)
    for size in (0.3, 1.0, 1.5):  # the last is outside of the ball
        U = rng.standard_normal((X.shape[1], 8))
        U *= size * A / spectral_norm(U)
        point = loss.at(0.1 * rng.standard_normal(U.shape))
        upper = point.value + form.penalty(point.W)
        bound, ended = search(point, None, U, np.inf, upper)
        again, _ = search(point, ended, U, np.inf, upper)
        assert np.isfinite(bound) and np.isfinite(again)
        assert max(bound, again) <= best.objective * (1 + 1e-12)


def test_the_best_subgradient_gives_the_optimum():
    X, y = texts(5)
    problem = stated(X, y)
    best = solved(problem, 1e-7)
    form = read(problem)
    loss = CurvedLoss(problem.f2, form.rows, form.free)
    search = TiltedSearch.of(Bounds.of(problem, loss, form))
    U, needed = best.dual[: X.shape[1]], best.objective * (1 - 1e-5)
    point = at = loss.at(0.9 * best.x2)
    for _ in range(10):  # each goes on from where the last one has ended
        bound, at = search(point, at, U, needed, 2 * best.objective)
        if bound >= needed:
            break
    assert needed <= bound <= best.objective * (1 + 1e-12)


def test_norms_of_rows_are_not_searched_entry_by_entry():
    X, y = texts()
    for norm in (sa.RowsL21(B), None):
        problem = stated(X, y, norm)
        form = read(problem)
        bounds = Bounds.of(problem, CurvedLoss(problem.f2, form.rows, form.free), form)
        assert (TiltedSearch.of(bounds) is None) == (norm is not None)


def test_the_search_takes_over_where_corrected_derivatives_bring_too_little(monkeypatch):
    X, y = texts()
    problem = sa.Problem.linear(
        sa.Multinomial(), X, y, on_structure=sa.Nuclear(A), on_coefficients=sa.L1(B)
    )
    calls, call = [], TiltedSearch.__call__
    monkeypatch.setattr(
        TiltedSearch, "__call__", lambda self, *given: calls.append(1) or call(self, *given)
    )
    monkeypatch.setattr(
        "stochadmm._newton.low_rank.corrected", lambda bounds, metric, at, *_: (-np.inf, at)
    )
    result = sa.minimize(problem, "low-rank-newton", stop=sa.Gap(1e-4), max_passes=1e4)
    exact = sa.minimize(problem, "sampled-newton", stop=sa.Gap(1e-8), max_passes=1e4)
    assert result.status.name == "CONVERGED"
    assert abs(result.objective - exact.objective) <= 1e-4 * exact.objective
    assert calls
