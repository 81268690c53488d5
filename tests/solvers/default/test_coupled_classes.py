"""Classes whose Hessian is only multiplied with: certified along free directions, too."""

import numpy as np
import pytest

import stochadmm as sa
from stochadmm.risk.curvature import RowSample, SampledHessian, is_implicit


def classes(n=300, d=170, C=10, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    z = X[:, :20] @ rng.standard_normal((20, C))
    return X, sa.Multinomial(C), (z + rng.gumbel(size=z.shape)).argmax(axis=1)


@pytest.mark.parametrize("intercept", [False, True])
def test_classes_on_a_graph_have_a_bound(intercept):
    X, loss, y = classes()
    rng = np.random.default_rng(1)
    graph = sa.Incidence([(i, int(rng.integers(i))) for i in range(1, 170) for _ in range(2)], 170)
    problem = sa.Problem.linear(
        loss, X, y, structure=graph, on_structure=sa.L1(0.03), intercept=intercept
    )
    assert is_implicit(problem.f2, False)
    found = sa.minimize(problem, stop=sa.Gap(1e-4), max_passes=1000)
    assert found.info["route"] == "newton"
    assert found.converged


@pytest.mark.parametrize("weights", [False, True])
def test_the_metric_is_above_the_hessian(weights):
    X, loss, y = classes()
    q = np.random.default_rng(2).uniform(0.2, 2.0, len(y)) if weights else None
    f2 = sa.FiniteSum(loss, X, y, q)
    rng = np.random.default_rng(3)
    for size in (0.0, 0.1, 3.0):
        at = f2.evaluate_exactly(size * rng.standard_normal(f2.shape))
        for damping in (0.0, 0.1):
            H = SampledHessian(RowSample(f2, at.predictions, at.derivative), False, damping).matrix
            assert H.is_bound
            for _ in range(5):
                v = rng.standard_normal(f2.shape)
                assert np.vdot(v, H.apply(v)) <= np.vdot(v, H.metric @ v) * (1 + 1e-12)
