"""A dozen small problems over the parts of the foundation, against a conic solver.

The certificate is computed outside the solvers, from the coefficients that they return.
"""

from functools import cache

import numpy as np
import pytest
from benchmarks.covering import certified_gap, conic_optimum, relative_difference
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import stochadmm as sa

N, D, C = 60, 8, 3
EDGES = np.array([[0, 1], [1, 2], [2, 3], [4, 5], [5, 6], [6, 7], [0, 3]])


def data(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, D))
    return rng, X, X @ np.repeat(rng.standard_normal(D // 4), 4)


def signs(rng, z):
    return np.where(z + rng.standard_normal(len(z)) > 0, 1.0, -1.0)


def classes(rng, z):
    return (np.outer(z, [1.0, 0.0, -1.0]) + rng.gumbel(size=(N, C))).argmax(axis=1)


def weighted_lasso():
    rng, X, z = data(0)
    h2 = sa.L1(0.1, weights=np.r_[0.0, rng.uniform(0.5, 2.0, D - 1)])
    return sa.Problem.linear(
        sa.Squared(),
        X,
        z + rng.standard_normal(N) + 1.0,
        on_coefficients=h2,
        intercept=True,
        sample_weight=rng.uniform(0.2, 2.0, N),
    )


def identity_elastic_net_logistic():
    rng, X, z = data(1)
    return sa.Problem.linear(
        sa.Logistic(),
        X,
        signs(rng, z),
        structure=sa.Identity(D),
        on_structure=sa.ElasticNet(0.05, 0.5),
    )


def dense_operator_groups():
    rng, X, z = data(2)
    A = rng.standard_normal((6, D)) / 2
    return sa.Problem.linear(
        sa.Squared(),
        X,
        z + rng.standard_normal(N),
        structure=A,
        on_structure=sa.GroupL2(0.2, [2, 4]),
        intercept=True,
    )


def csr_operator_logistic():
    rng, X, z = data(3)
    A = sparse.diags_array([1.0, -2.0, 1.0], offsets=[0, 1, 2], shape=(D - 2, D)).tocsr()
    return sa.Problem.linear(
        sa.Logistic(),
        sparse.csr_array(np.where(np.abs(X) > 0.4, X, 0.0)),
        signs(rng, z),
        structure=A,
        on_structure=sa.L1(0.05),
        intercept=True,
    )


def graph_logistic_weighted():
    rng, X, z = data(4)
    return sa.Problem.linear(
        sa.Logistic(),
        X,
        signs(rng, z),
        structure=sa.Incidence(EDGES, D),
        on_structure=sa.L1(0.03, weights=rng.uniform(0.5, 1.5, len(EDGES))),
        intercept=True,
        sample_weight=rng.uniform(0.0, 2.0, N),
    )


def fused_multinomial():
    rng, X, z = data(5)
    A = sa.VStack([sa.Incidence(EDGES, D), sa.Identity(D)])
    return sa.Problem.linear(
        sa.Multinomial(C),
        X,
        classes(rng, z),
        structure=A,
        on_structure=sa.L1(0.02),
        intercept=True,
    )


def low_rank_multinomial():
    rng, X, z = data(6)
    return sa.Problem.linear(
        sa.Multinomial(C),
        X,
        classes(rng, z),
        structure=sa.Identity(D),
        on_structure=sa.Nuclear(0.05),
        sample_weight=rng.uniform(0.2, 2.0, N),
    )


def sparse_low_rank():
    rng, X, z = data(7)
    Y = np.outer(z, [1.0, -1.0, 0.5]) + rng.standard_normal((N, C))
    A = sa.VStack([sa.Identity(D), sa.Identity(D)])
    return sa.Problem.linear(
        sa.Squared(),
        X,
        Y,
        structure=A,
        intercept=True,
        on_structure=sa.Stacked([(sa.Nuclear(0.2), D), (sa.L1(0.05), D)]),
    )


def fused_non_negative():
    rng, X, z = data(8)
    return sa.Problem.linear(
        sa.Squared(),
        X,
        z + rng.standard_normal(N),
        structure=sa.Incidence(EDGES, D),
        on_structure=sa.L1(0.1),
        on_coefficients=sa.NonNegative(),
        intercept=True,
    )


def linear_operator_logistic():
    rng, X, z = data(9)
    A = aslinearoperator(sa.Differences(D).tosparse())
    return sa.Problem.linear(
        sa.Logistic(),
        X,
        signs(rng, z),
        structure=A,
        on_structure=sa.L1(0.03),
        on_coefficients=sa.L1(0.01),
        sample_weight=rng.uniform(0.2, 2.0, N),
    )


def zero_penalty():
    rng, X, z = data(10)
    return sa.Problem.linear(
        sa.Squared(),
        X,
        z + rng.standard_normal(N),
        structure=sa.Identity(D),
        on_structure=sa.Zero(),
        intercept=True,
        sample_weight=rng.uniform(0.2, 2.0, N),
    )


def increasing_logistic():
    rng, X, z = data(11)
    return sa.Problem.linear(
        sa.Logistic(), X, signs(rng, z), structure=sa.Differences(D), on_structure=sa.NonNegative()
    )


def elastic_net_multinomial():
    rng, X, z = data(12)
    return sa.Problem.linear(
        sa.Multinomial(C),
        X,
        classes(rng, z),
        structure=rng.standard_normal((5, D)) / 2,
        on_structure=sa.ElasticNet(0.05, 0.7),
        sample_weight=rng.uniform(0.2, 2.0, N),
        intercept=True,
    )


def overlapping_groups_and_l1():
    rng, X, z = data(13)
    groups = [np.arange(j, j + 4) for j in (0, 2, 4)]
    return sa.Problem.linear(
        sa.Squared(),
        X,
        z + rng.standard_normal(N),
        structure=sa.Selection(groups, D),
        on_structure=sa.GroupL2(0.1, [4, 4, 4]),
        on_coefficients=sa.L1(0.05),
        intercept=True,
    )


PROBLEMS = {
    make.__name__: make
    for make in (
        weighted_lasso,
        identity_elastic_net_logistic,
        dense_operator_groups,
        csr_operator_logistic,
        graph_logistic_weighted,
        fused_multinomial,
        low_rank_multinomial,
        sparse_low_rank,
        fused_non_negative,
        linear_operator_logistic,
        zero_penalty,
        increasing_logistic,
        elastic_net_multinomial,
        overlapping_groups_and_l1,
    )
}


@cache
def problem(name):
    return PROBLEMS[name]()


@cache
def optimum(name):
    return conic_optimum(problem(name))


@pytest.mark.parametrize("solver", ["auto", "acc-sadmm"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_certified_gap_and_agreement_with_a_conic_solver(name, solver):
    p = problem(name)
    result = sa.minimize(p, solver, stop=sa.Gap(1e-6), max_passes=600)
    assert result.status is sa.Status.CONVERGED, result.message
    assert result.relative_gap <= 1e-6
    assert certified_gap(p, result) <= 1e-6
    assert relative_difference(p, result.objective, optimum(name)) <= 1e-5
