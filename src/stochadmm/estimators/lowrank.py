"""Coefficient matrices that are sparse and of low rank: tasks or classes that share directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..exact import prox_side
from ..linear_algebra.rank import rank_of_columns
from ..operators import Identity
from ..penalties import L1, Nuclear, RowsL21, SparseGroupNorm
from ..problem import Pair, Problem
from ..run.result import Result
from ._base import Fitting, StructuredModel
from ._classifier import LabelClassifier
from ._docs import estimator
from ._regressor import Regressor
from ._structure import Columns, Structure
from .refit import Space, of_rank, of_support

SPARSITIES = ("entries", "rows")


@dataclass(eq=False, repr=False, kw_only=True)
class SparseLowRank(StructuredModel):
    """Nuclear norm plus the l1 norm of entries, or the sum of the norms of rows.

    Parameters
    ----------
    l1_ratio : float, default=0.5
        Share of the sparse part in the penalty: 0 is the nuclear norm alone.
    sparsity : {"entries", "rows"}, default="entries"
        What is sparse: single entries of W, or its rows as a whole.

    Attributes
    ----------
    rank_ : int
        Rank of ``low_rank_coef_``.
    low_rank_coef_, sparse_coef_ : ndarray, shape of ``coef_``
        The coefficients as the two penalties left them, the first of exact rank, the second with
        exact zeros; as good as ``coef_`` up to the tolerance, and else ``coef_`` itself.
    """

    l1_ratio: float = 0.5
    sparsity: str = "entries"

    # where the null model is optimal only just, singular values take long to show it
    _top = 1.002

    def _structure(self, columns: Columns) -> Structure:
        if self.sparsity not in SPARSITIES:
            raise ValueError(
                f"sparsity is {self.sparsity!r}, expected one of {', '.join(SPARSITIES)}"
            )
        size = columns.penalized.size
        if not size:
            return Structure()
        whole = columns.spread(Identity(size))
        factor = (
            None if self.penalty_weights is None else np.asarray(columns.factor)[columns.penalized]
        )
        if not columns.several:  # the nuclear norm of one column is its length
            own = SparseGroupNorm(1.0, [size], self._ratio, l1_weights=factor)
            return Structure([(whole, own)])
        terms: list[Any] = []
        if self._ratio < 1:
            terms.append((whole, Nuclear(1 - self._ratio)))
        if self._ratio > 0:
            rows = self.sparsity == "rows"
            terms.append((whole, (RowsL21 if rows else L1)(self._ratio, factor)))
        return Structure(terms)

    def _inspect(self, fitting: Fitting, problem: Problem, result: Result) -> None:
        low_rank, sparse = self._copies(fitting, problem, result)
        self.low_rank_coef_ = self._like_coef(fitting, low_rank)
        self.sparse_coef_ = self._like_coef(fitting, sparse)
        held = low_rank[fitting.columns.penalized]
        self.rank_ = int(np.linalg.matrix_rank(held)) if held.size and held.any() else 0
        rounding = 1e-10 * np.abs(self.coef_).max()
        self.coef_[(self.sparse_coef_ == 0) & (np.abs(self.coef_) <= rounding)] = 0

    def _found(self) -> list[str]:
        return [f"rank {self.rank_} of at most {min(np.atleast_2d(self.coef_).shape)}"]

    def _copies(self, fitting: Fitting, problem: Problem, result: Result) -> tuple[Any, Any]:
        """Return the coefficients, each copy as its own prox left it where that is as good.

        Before convergence the prox of a copy may be far from the coefficients that are returned.
        """
        copies = [result.coef, result.coef]
        beta = float(result.info["last_beta"])
        both = prox_side(problem, result.x2, result.dual, beta) if problem.h1 else None
        if both is None:
            return copies[0], copies[1]
        rows = fitting.columns.penalized
        for place, shared in ((0, self._ratio < 1), (1, self._ratio > 0)):
            if shared:
                copy = result.coef.copy()
                copy[rows] = both[: rows.size] if place == 0 else both[-rows.size :]
                if self._as_good(problem, result, copy):
                    copies[place] = copy
        return copies[0], copies[1]

    def _as_good(self, problem: Problem, result: Result, coef: Any) -> bool:
        """Say whether other coefficients have the same objective up to the tolerance."""
        x2 = coef
        if problem.intercept:
            x2 = np.concatenate([coef, np.reshape(result.intercept, (1, *coef.shape[1:]))])
        value = problem.objective(problem.feasible(Pair(problem.zeros().x1, x2)))
        return bool(value - result.objective <= self.tol * abs(result.objective))

    def _like_coef(self, fitting: Fitting, coef: Any) -> Any:
        x2 = coef if not fitting.data.intercept else np.concatenate([coef, coef[:1] * 0])
        return self._attributes(fitting, x2)["coef_"]

    def _space(self, fitting: Fitting, result: Result) -> Space:
        free, coef = fitting.columns.free, result.coef
        pattern = np.where(self._held_at_zero(fitting), 0.0, coef)
        if coef.ndim == 1 or self._ratio == 1:
            return of_support(pattern, free)
        return of_rank(pattern, self.rank_, free)

    def _held_at_zero(self, fitting: Fitting) -> Any:
        """Return the mask of the entries that the l1 norm holds at zero."""
        zero = np.atleast_2d(self.sparse_coef_).T == 0
        return zero.reshape(-1) if not fitting.columns.several else zero

    def _degrees(self, fitting: Fitting, result: Result) -> int:
        """Return the parameters of a matrix of that rank on its non-zero rows and columns.

        Rows of the matrix are columns of X: as many as are independent of each other, and of what
        is not penalized.
        """
        data, columns = fitting.data, fitting.columns
        held = np.atleast_2d(self.sparse_coef_)
        kept = held.any(axis=0) & ~columns.free
        outputs, free, whole = len(held), int(columns.free.sum()), int((columns.free | kept).sum())
        if data.streamed:
            free, whole = free + data.intercept, whole + data.intercept
        else:
            eye = sparse.eye_array(columns.n, format="csc")
            free = rank_of_columns(data.X, eye[:, np.flatnonzero(columns.free)], data.intercept)
            every = np.flatnonzero(columns.free | kept)
            whole = rank_of_columns(data.X, eye[:, every], data.intercept)
        rank, serve = self.rank_, int(np.count_nonzero(held[:, columns.penalized].any(axis=1)))
        entries = int(np.count_nonzero(held[:, columns.penalized]))
        return outputs * free + min(entries, rank * max(whole - free + serve - rank, 0))


@estimator
class SparseLowRankRegressor(Regressor, SparseLowRank):
    """Multi-task regression with coefficients that are sparse and of low rank (nuclear norm).

    Minimizes ``mean loss + alpha ((1 - l1_ratio) |W|_* + l1_ratio |W|_1)``, with
    ``sparsity="rows"`` the sum of the norms of the rows of W, one per column of X, in place of
    ``|W|_1``: columns of X then serve all targets or none. The loss is summed over the targets.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import SparseLowRankRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 6))
    >>> W = np.outer([1, -1, 1, 0, 0, 0], [1, 2, 3])
    >>> model = SparseLowRankRegressor(alpha=0.1, sparsity="rows").fit(X, X @ W)
    >>> model.rank_, np.flatnonzero(model.sparse_coef_.any(axis=0))
    (1, array([0, 1, 2]))
    """


@estimator
class SparseLowRankClassifier(LabelClassifier, SparseLowRank):
    """Linear classification with coefficients that are sparse and of low rank (nuclear norm).

    Minimizes ``mean loss + alpha ((1 - l1_ratio) |W|_* + l1_ratio |W|_1)``, with
    ``sparsity="rows"`` the sum of the norms of the rows of W, one per column of X, in place of
    ``|W|_1``: columns of X then serve all classes or none. With a matrix of zeros and ones as
    ``y`` every row has any number of labels: the loss is summed over its columns, probabilities
    are those of each label, and `classes_` numbers the labels.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import SparseLowRankClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 5))
    >>> y = np.digitize(X[:, 0], [-0.5, 0.5])
    >>> model = SparseLowRankClassifier(alpha=0.1, sparsity="rows").fit(X, y)
    >>> model.rank_, np.flatnonzero(model.sparse_coef_.any(axis=0))
    (1, array([0]))
    """
