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


def test_a_problem_without_a_constraint_is_refused():
    p = sa.Problem.linear(sa.Squared(), np.eye(3), np.ones(3), on_coefficients=sa.L1(0.1))
    with pytest.raises(ValueError, match="no constraint"):
        sa.paper.acc_sadmm(p, 1.0, 3, 1, 1)
