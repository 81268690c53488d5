"""The one-page ACC-SADMM of the paper, and the production class with the paper's parameters."""

from itertools import islice

import numpy as np
import pytest
from scipy import sparse

import stochadmm as sa

N = 60


class Smooth:
    """1.5 |x1 - 1|^2 / 2."""

    lipschitz = 1.5

    def value(self, x):
        return 0.75 * float(np.sum((x - 1) ** 2))

    def gradient(self, x):
        return 1.5 * (x - 1)


def linear(loss, y, X=None, **parts):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 6)) if X is None else X
    A = sa.VStack([sa.Differences(6), sa.Identity(6)])
    return sa.Problem.linear(loss, X, y, structure=A, on_structure=sa.L1(0.02), **parts)


def general(f1):
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((N, 5)), np.where(rng.random(N) < 0.5, -1.0, 1.0)
    return sa.Problem(
        sa.FiniteSum(sa.Logistic(), X, y),
        h1=sa.L1(0.05),
        h2=sa.Ridge(0.1),
        f1=f1,
        A1=rng.standard_normal((4, 3)),
        A2=rng.standard_normal((4, 5)),
        b=rng.standard_normal(4),
    )


def problems():
    rng = np.random.default_rng(2)
    signs = np.where(rng.random(N) < 0.5, -1.0, 1.0)
    rows = sparse.csr_array(np.where(rng.random((N, 6)) < 0.4, 1.0, 0.0))
    weights = rng.random(N) + 0.1
    low_rank = sa.Problem.linear(
        sa.Multinomial(4),
        rng.standard_normal((N, 6)),
        rng.integers(4, size=N),
        on_structure=sa.Nuclear(0.02),
        on_coefficients=sa.L1(0.01),
    )
    return {
        "fused logistic": linear(sa.Logistic(), signs),
        "sparse rows, intercept, weights": linear(
            sa.Squared(), rng.standard_normal(N), rows, intercept=True, sample_weight=weights
        ),
        "nuclear norm and l1": low_rank,
        "general constraint": general(None),
        "general constraint with f1": general(Smooth()),
    }


@pytest.mark.parametrize("engine", ["reference", "auto"])
@pytest.mark.parametrize("name", problems())
def test_production_class_has_the_outputs_of_the_one_page_file(name, engine):
    p, S, b = problems()[name], 6, 7
    solver = sa.AccSADMM.paper(beta=0.3, batch_size=b)
    page = sa.paper.acc_sadmm(p, 0.3, round(2 * N / b), b, S, rng=np.random.default_rng(5))
    states = islice(sa.iterate(p, solver, np.random.default_rng(5), engine=engine), S)
    assert len(page.outputs) == S
    for (x1, x2), state in zip(page.outputs, states, strict=True):
        np.testing.assert_allclose(state.output.x1, x1, rtol=0, atol=1e-10)
        np.testing.assert_allclose(state.output.x2, x2, rtol=0, atol=1e-10)
    np.testing.assert_allclose(state.dual, page.lam, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", problems())
def test_its_parameters_are_those_of_the_page(name):
    p, numbers = problems()[name], {"m": 9, "L2": 7.5, "tau": 1.7, "c": 2.4}
    solver = sa.AccSADMM.paper(0.2, 11, **numbers)
    page = sa.paper.acc_sadmm(p, 0.2, b=11, S=5, rng=np.random.default_rng(8), **numbers)
    for (x1, x2), state in zip(page.outputs, sa.iterate(p, solver, 8), strict=False):
        np.testing.assert_allclose(state.output.x1, x1, rtol=0, atol=1e-10)
        np.testing.assert_allclose(state.output.x2, x2, rtol=0, atol=1e-10)


def test_curvature_is_the_weight_of_the_x2_step():
    p, m = problems()["fused logistic"], 17
    theta2 = (m - 2) / (2 * (m - 1))
    tuned = sa.AccSADMM(
        beta=0.3,
        batch_size=7,
        n_inner=m,
        curvature=(1 + 1 / (7 * theta2)) * 3.0,
        sampling="rows",
        restart="never",
    )
    found, known = (
        next(islice(sa.iterate(p, solver, 0), 3, None)).output.x2
        for solver in (tuned, sa.AccSADMM.paper(0.3, 7, L2=3.0))
    )
    np.testing.assert_array_equal(found, known)


def test_a_problem_without_a_constraint_is_refused():
    p = sa.Problem.linear(sa.Squared(), np.eye(3), np.ones(3), on_coefficients=sa.L1(0.1))
    with pytest.raises(ValueError, match="no constraint"):
        sa.paper.acc_sadmm(p, 1.0, 3, 1, 1)
