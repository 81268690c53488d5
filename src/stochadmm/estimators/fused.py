"""Fusion along the columns and along graphs: neighbors share their coefficient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..base.protocols import Array, Operator
from ..operators import Differences, csr_parts
from ..penalties import L1
from ..problem import Problem
from ..run.result import Result
from ._base import Fitting, StructuredModel
from ._classifier import Classifier
from ._docs import estimator
from ._regressor import Regressor
from ._structure import Columns, Structure, as_grid, tied
from .refit import Space, of_levels


@dataclass(eq=False, repr=False, kw_only=True)
class Fused(StructuredModel):
    """Total variation along a graph plus an l1 norm.

    Parameters
    ----------
    l1_ratio : float, default=0.5
        Share of the l1 norm in the penalty: 0 is fusion alone, 1 the lasso.

    Attributes
    ----------
    levels_ : ndarray, shape of ``coef_``
        Number of the level of each column; neighbors with the same number are equal.
    """

    l1_ratio: float = 0.5

    def _operator(self, columns: Columns) -> Operator:
        return columns.spread(Differences(max(columns.penalized.size, 1)))

    def _structure(self, columns: Columns) -> Structure:
        if self._ratio == 1 or not columns.penalized.size:
            return Structure(l1=self._ratio)
        fusion = (self._operator(columns), L1(1 - self._ratio))
        return Structure([fusion], l1=self._ratio)

    def _inspect(self, fitting: Fitting, problem: Problem, result: Result) -> None:
        labels, _ = self._ties(fitting, result.coef)
        self.levels_ = np.ascontiguousarray(labels.T, dtype=np.intp).reshape(self.coef_.shape)
        self._differences = fitting.structure.terms[0][0] if fitting.structure.terms else None

    def _found(self) -> list[str]:
        groups = sum(np.unique(row).size for row in np.atleast_2d(self.levels_))
        kind = "equal or opposite" if _edges(self._differences)[1].any() else "equal"
        sets = "set" if groups == 1 else "sets"
        return [f"{groups} {sets} of {kind} coefficients along the graph"]

    def _ties(self, fitting: Fitting, coef: Array) -> tuple[Array, Array]:
        """Return labels of the levels, and signs of the coefficients in them."""
        if not fitting.structure.terms:
            every = np.arange(coef.shape[0])
            labels = every if coef.ndim == 1 else np.tile(every[:, None], coef.shape[1])
            return labels, np.ones(coef.shape)
        return tied(fitting.structure.terms[0][0], coef, self.positive)

    def _space(self, fitting: Fitting, result: Result) -> Space:
        levels = self._ties(fitting, result.coef)
        return of_levels(result.coef, levels, fitting.columns.free, self._ratio > 0)

    def plot_coef_graph(self, ax: Any = None, positions: Any = None, names: Any = None) -> Any:
        """Draw the graph with its nodes colored by coefficient, negative edges as broken lines.

        A chain of all columns is drawn as steps, a grid, masked ones too, as an image.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; returned.
        positions : array of shape (n_features, 2), optional
            Positions of the columns; by default a layout by networkx, or a line.
        names : sequence of str, optional
            Names to write beside the nodes; those of the columns of a frame by default.

        Returns
        -------
        matplotlib axes
        """
        from ..plots import plot_coef_graph

        check_is_fitted(self)
        edges, opposite = _edges(self._differences)
        if names is None:
            names = self._names
        return plot_coef_graph(
            self.coef_, edges, ax, positions, names, self._drawn_grid(), opposite
        )

    def _drawn_grid(self) -> Any:
        """Return the grid of the columns, None where they are no image."""
        return None


def _edges(operator: Any) -> tuple[Array, Array]:
    """Return the pairs of columns that differences join, and which of them are opposite."""
    if operator is None:
        return np.empty((0, 2), dtype=np.intp), np.zeros(0, dtype=bool)
    pointers, columns, values = csr_parts(operator)
    sizes = np.diff(pointers)
    inside = np.repeat(sizes == 2, sizes)
    factors = np.asarray(values[inside]).reshape(-1, 2)
    return np.asarray(columns[inside]).reshape(-1, 2), factors.prod(axis=1) > 0


@dataclass(eq=False, repr=False, kw_only=True)
class GraphFused(Fused):
    """Total variation along any graph.

    Parameters
    ----------
    l1_ratio : float, default=0.5
        Share of the l1 norm in the penalty: 0 is fusion alone, 1 the lasso.
    graph : object, default="chain"
        Which coefficients are drawn together:

        * ``"chain"``: neighboring columns;
        * edges: pairs of column names or indices, or triples with a weight, in a list, an array or
          a frame; an edge listed twice, in either direction, has the sum of the weights;
        * an adjacency matrix with as many rows and columns as X has columns;
        * a networkx graph, or what ``stochadmm.structures.from_edges`` returns;
        * a grid shape such as ``(28, 28)``, or a ``Grid`` with a mask;
        * ``"glasso"``: the edges that the graphical lasso finds in X (see
          ``stochadmm.structures.glasso_edges``).

        A negative weight is an edge with ``s_e = -1`` and ``c_e`` its size: the two coefficients
        are drawn to opposite values.

    Attributes
    ----------
    levels_ : ndarray, shape of ``coef_``
        Number of the level of each column; joined columns with the same number are equal, or
        opposite where edges are negative.
    """

    graph: Any = "chain"

    def _operator(self, columns: Columns) -> Operator:
        return columns.graph(self.graph)

    def _drawn_grid(self) -> Any:
        return None if np.size(self.unpenalized) else as_grid(self.graph)


@estimator
class FusedLassoRegressor(Regressor, Fused):
    """Fused lasso: linear regression with coefficients piecewise constant along the columns.

    Minimizes ``mean loss + alpha ((1 - l1_ratio) sum_j |w_{j+1} - w_j| + l1_ratio |w|_1)``.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import FusedLassoRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 6))
    >>> y = X @ [0, 0, 1, 1, 1, 0]
    >>> model = FusedLassoRegressor(alpha=0.1).fit(X, y)
    >>> model.levels_
    array([0, 0, 1, 1, 1, 2])
    """


@estimator
class FusedLassoClassifier(Classifier, Fused):
    """Linear classification with the fused lasso penalty: piecewise constant along the columns.

    Minimizes ``mean loss + alpha ((1 - l1_ratio) sum_j |w_{j+1} - w_j| + l1_ratio |w|_1)``.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import FusedLassoClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 6))
    >>> model = FusedLassoClassifier(alpha=0.05).fit(X, X @ [0, 0, 1, 1, 1, 0] > 0)
    >>> model.levels_
    array([[0, 0, 1, 1, 1, 2]])
    """


@estimator
class GraphFusedRegressor(Regressor, GraphFused):
    """Graph-guided fused lasso: linear regression with coefficients equal along edges.

    Minimizes ``mean loss + alpha ((1 - l1_ratio) sum_e c_e |w_i - s_e w_j| + l1_ratio |w|_1)``.
    The penalty ``mu |[G; I] w|_1`` is ``alpha = 2 mu`` with ``l1_ratio = 0.5``.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import GraphFusedRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 4))
    >>> y = X @ [1, 0, 1, 0]
    >>> GraphFusedRegressor(alpha=0.1, graph=[(0, 2), (1, 3)]).fit(X, y).levels_
    array([0, 1, 0, 1])
    """


@estimator
class GraphFusedClassifier(Classifier, GraphFused):
    """Linear classification with the graph-guided fused lasso penalty: equal along the edges.

    Minimizes ``mean loss + alpha ((1 - l1_ratio) sum_e c_e |w_i - s_e w_j| + l1_ratio |w|_1)``.
    The penalty ``mu |[G; I] w|_1`` is ``alpha = 2 mu`` with ``l1_ratio = 0.5``.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import GraphFusedClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 4))
    >>> y = np.where(X @ [1, 0, 1, 0] > 0, "a", "b")
    >>> model = GraphFusedClassifier(alpha=0.05, graph=[(0, 2), (1, 3)]).fit(X, y)
    >>> bool(model.coef_[0, 0] == model.coef_[0, 2]), float(model.coef_[0, 1])
    (True, 0.0)
    """
