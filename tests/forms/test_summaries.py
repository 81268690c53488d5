"""Squared losses over files: one read of sums, then the same answers as from rows in memory."""

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa
from stochadmm.data import ArraySource, spill

D = 8


def generated(outputs=None, n=900, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)) * 10.0 ** rng.integers(-1, 2, D)
    shape = (D,) if outputs is None else (D, outputs)
    W = np.repeat(rng.standard_normal((D // 2, *shape[1:])), 2, axis=0)
    W = (W.T / np.abs(X).mean(axis=0)).T
    y = X @ W + rng.standard_normal((n, *shape[1:]))
    return X, y, rng.uniform(0.5, 2.0, n), rng.standard_normal((n, *shape[1:]))


def stated(data, y=None, weight=None, offset=None, alpha=0.02, half=True, intercept=True):
    return sa.Problem.linear(
        sa.Squared(half=half),
        data,
        y,
        structure=sa.Differences(D),
        on_structure=sa.L1(alpha),
        on_coefficients=sa.L1(0.01),
        intercept=intercept,
        sample_weight=weight,
        offset=offset,
    )


def same(found, truth, tol=1e-9):
    assert found.converged and found.info["route"] == "streamed-gram"
    # the first rows, which are all of them here, tell where columns and targets lie
    assert found.n_passes == 3
    assert found.objective - truth.objective <= tol * abs(truth.objective)
    slack = 1e-12 * (1 + abs(truth.objective))
    assert found.objective - found.gap <= truth.objective + slack
    scale = np.abs(truth.coef).max()
    np.testing.assert_allclose(found.coef / scale, truth.coef / scale, atol=tol**0.5)


@pytest.mark.parametrize("outputs", [None, 3])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("half", [True, False])
def test_one_read_is_enough_for_a_squared_loss(outputs, intercept, half):
    X, y, weight, offset = generated(outputs)
    tol = 1e-9 if outputs is None else 1e-6  # several targets take longer in memory
    found = sa.minimize(
        stated(ArraySource(X, y, weight, offset), half=half, intercept=intercept),
        stop=sa.Gap(tol),
    )
    truth = sa.minimize(
        stated(X, y, weight, offset, half=half, intercept=intercept), stop=sa.Gap(1e-2 * tol)
    )
    same(found, truth, tol)
    if intercept:
        np.testing.assert_allclose(found.intercept, truth.intercept, rtol=tol**0.5)


def test_sparse_rows_collinear_columns_and_files(tmp_path):
    X, y, weight, _ = generated()
    X = np.where(np.abs(X) > np.abs(X).mean(axis=0), X, 0.0)
    X[:, 3] = X[:, 2]
    source = spill(ArraySource(sparse.csr_array(X), y, weight), tmp_path)
    found = sa.minimize(stated(source), stop=sa.Gap(1e-8))
    truth = sa.minimize(stated(X, y, weight), stop=sa.Gap(1e-9))
    assert found.converged
    assert found.objective - truth.objective <= 1e-8 * truth.objective


def test_columns_far_from_zero_cost_no_digits():
    X, y, *_ = generated()
    X = X / np.abs(X).mean(axis=0) + 1e6
    found = sa.minimize(stated(ArraySource(X, y)), stop=sa.Gap(1e-9))
    truth = sa.minimize(stated(X - 1e6, y), stop=sa.Gap(1e-11), max_passes=100)
    assert found.converged
    np.testing.assert_allclose(found.coef, truth.coef, atol=1e-6)
    assert found.objective == pytest.approx(truth.objective, rel=1e-8)


def test_low_rank_models_stream_by_their_sums():
    X, Y, weight, _ = generated(4)
    X = X / np.abs(X).mean(axis=0)

    def low_rank(data, y=None, w=None):
        return sa.Problem.linear(
            sa.Squared(),
            data,
            y,
            on_coefficients=sa.Nuclear(0.3),
            intercept=True,
            sample_weight=w,
        )

    found = sa.minimize(low_rank(ArraySource(X, Y, weight)), stop=sa.Gap(1e-9))
    truth = sa.minimize(low_rank(X, Y, weight), stop=sa.Gap(1e-11), max_passes=100)
    assert found.info["inner_route"] == "low-rank-gram"
    same(found, truth)


def test_bits_do_not_depend_on_workers_and_a_warm_start_is_taken():
    X, y, weight, offset = generated(n=5000)
    problem = stated(ArraySource(X, y, weight, offset))
    found = [
        sa.minimize(problem, stop=sa.Gap(1e-9), cluster=sa.cluster.Local(workers))
        for workers in (1, 3)
    ]
    assert found[0].coef.tobytes() == found[1].coef.tobytes()
    again = sa.minimize(problem, stop=sa.Gap(1e-9), start=found[0])
    np.testing.assert_allclose(again.coef, found[0].coef, atol=1e-8)


def test_many_columns_for_the_memory_take_second_order_steps():
    X, y, *_ = generated(n=400)
    X = np.tile(X, (1, 40)) + 0.1 * np.random.default_rng(1).standard_normal((400, 320))
    problem = sa.Problem.linear(sa.Squared(), ArraySource(X, y), on_coefficients=sa.L1(0.1))
    found = sa.minimize(problem, stop=sa.Gap(1e-4), memory="4MiB")
    assert found.info["route"] == "streamed-newton"


def test_several_targets_of_another_loss_are_streamed_to_the_answer_in_memory():
    X, Y, *_ = generated(2)
    streamed, known = (
        sa.minimize(
            sa.Problem.linear(sa.Huber(), *data, on_coefficients=sa.L1(0.1)), stop=sa.Gap(1e-8)
        )
        for data in ((ArraySource(X, Y),), (X, Y))
    )
    assert streamed.converged and known.converged
    assert streamed.objective == pytest.approx(known.objective, rel=2e-8)
