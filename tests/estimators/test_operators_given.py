"""Operators that are known by their products alone do what a matrix does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import stochadmm as sa
from stochadmm.linear_algebra import affine

D = np.diff(np.eye(6), axis=0)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 7))
    return X, X[:, :6] @ [1.0, 1.0, 0.0, 0.0, 1.0, 0.0] + 0.3 * rng.standard_normal(50)


@pytest.mark.parametrize("free", [(), (6,)], ids=["all penalized", "one free"])
def test_paths_searches_and_refits_take_operators_without_a_matrix(rows, free):
    X, y = (rows[0] if free else rows[0][:, :6]), rows[1]
    found = {}
    for name, operator in (("matrix", D), ("products", aslinearoperator(D))):
        options = {"operator": operator, "unpenalized": free}
        plain = sa.GeneralizedLassoRegressor(0.1, **options)
        again = sa.GeneralizedLassoRegressor(0.1, refit=True, **options).fit(X, y)
        search = sa.GeneralizedLassoRegressorCV(alphas=8, cv=3, **options).fit(X, y)
        found[name] = [
            plain.alpha_max(X, y),
            plain.path(X, y, alphas=3).coefs,
            again.coef_,
            again.dof_,
            search.alpha_,
            search.score_path_,
        ]
    for one, other in zip(*found.values(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)


def test_degrees_of_freedom_leave_out_what_holds_nothing(rows):
    X, y = rows[0][:, :6], rows[1]
    repeated = np.vstack([D, D, np.zeros((2, 6))])
    expected = sa.GeneralizedLassoRegressor(0.2, operator=D).fit(X, y).dof_
    for operator in (repeated, aslinearoperator(repeated)):
        assert sa.GeneralizedLassoRegressor(0.1, operator=operator).fit(X, y).dof_ == expected


def test_large_operators_without_a_matrix_say_what_to_do(rows, monkeypatch):
    d = 4001
    wide = LinearOperator((d, d), matvec=np.copy, rmatvec=np.copy, dtype=float)
    X = np.random.default_rng(0).standard_normal((3, d))
    with pytest.raises(ValueError, match=r"alpha_max needs .* a matrix.* pass alphas"):
        sa.GeneralizedLassoRegressorCV(operator=wide, cv=2).fit(X, X[:, 0])
    monkeypatch.setattr(affine, "OPTIONS", replace(affine.OPTIONS, dense=3))
    model = sa.GeneralizedLassoRegressor(operator=aslinearoperator(D), refit=True)
    with pytest.raises(ValueError, match=r"refit needs the operator as a matrix.* refit=False"):
        model.fit(rows[0][:, :6], rows[1])
