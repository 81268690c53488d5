"""Disjoint groups of columns, and single columns within them: the sparse group lasso."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..operators import Identity
from ..penalties import GroupL2, SparseGroupNorm
from ._classifier import Classifier
from ._docs import estimator
from ._regressor import Regressor
from ._structure import Columns, Structure
from .groups import InGroups


@dataclass(eq=False, repr=False, kw_only=True)
class SparseGroups(InGroups):
    """Norms of disjoint groups and of their entries.

    Parameters
    ----------
    l1_ratio : float, default=0.5
        Share of the l1 norm in the penalty: 0 is the group lasso, 1 the lasso.
    groups : mapping, list or labels, optional
        Group name to columns, or lists of columns, by name or index, or one label per column. One
        group per column by default. Columns in no group are penalized by the l1 norm only.
    group_weights : array or mapping, optional
        The c_g, all ones by default; the square root of the size is the other usual choice.
    """

    l1_ratio: float = 0.5

    def _structure(self, columns: Columns) -> Structure:
        names, copies = columns.groups(self.groups, self.group_weights)
        members = [np.asarray(group) for group in copies.groups]
        # columns in no group come last, in one whose norm is free
        labels = np.full(columns.n, len(members))
        for g, group in enumerate(members):
            if (labels[group] < len(members)).any():
                j = int(group[labels[group] < len(members)][0])
                column = j if columns.names is None else columns.names[j]
                raise ValueError(
                    f"column {column!r} is in two groups; the groups of a sparse group lasso are "
                    "disjoint, OverlappingGroupRegressor and -Classifier take others"
                )
            labels[group] = g
        alone = (labels == len(members)) & (columns.factor * self._ratio == 0)
        if members and (alone & columns.bounded).any():
            # what only a bound holds has no row of its own: certificates would not see it free
            norms = GroupL2(1 - self._ratio, copies.sizes)
            return Structure([(copies, norms)], self._ratio, labels=names, members=members)
        found, sizes = np.unique(labels, return_counts=True)
        given = np.ones(len(members)) if copies.weights is None else np.asarray(copies.weights)
        order = np.argsort(labels, kind="stable")
        penalty = SparseGroupNorm(
            1.0,
            sizes,
            self._ratio,
            np.append(given, 0.0)[found],
            columns.factor * np.ones(columns.n),
            None if (np.diff(labels) >= 0).all() else order,
        )
        return Structure([(Identity(columns.n), penalty)], labels=names, members=members)


@estimator
class SparseGroupLassoRegressor(Regressor, SparseGroups):
    """Sparse group lasso: linear regression with few groups, and few coefficients in them.

    Minimizes ``mean loss + alpha ((1 - l1_ratio) sum_g c_g |w_g|_2 + l1_ratio |w|_1)`` over
    disjoint groups: whole groups vanish, and single coefficients within those that remain. Groups
    that overlap are for `OverlappingGroupRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import SparseGroupLassoRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 6))
    >>> y = X @ [2, 1, 0, 0, 0, 0]
    >>> groups = {"left": [0, 1, 2], "right": [3, 4, 5]}
    >>> model = SparseGroupLassoRegressor(alpha=0.1, groups=groups).fit(X, y)
    >>> np.flatnonzero(model.coef_), model.active_groups_
    (array([0, 1]), ['left'])
    """


@estimator
class SparseGroupLassoClassifier(Classifier, SparseGroups):
    """Linear classification with the sparse group lasso penalty: few groups, and few in them.

    Minimizes ``mean loss + alpha ((1 - l1_ratio) sum_g c_g |w_g|_2 + l1_ratio |w|_1)`` over
    disjoint groups: whole groups vanish, and single coefficients within those that remain. Groups
    that overlap are for `OverlappingGroupClassifier`.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import SparseGroupLassoClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 6))
    >>> y = X[:, 0] + X[:, 1] > 0
    >>> groups = {"left": [0, 1, 2], "right": [3, 4, 5]}
    >>> model = SparseGroupLassoClassifier(alpha=0.1, groups=groups).fit(X, y)
    >>> np.flatnonzero(model.coef_), model.active_groups_
    (array([0, 1]), ['left'])
    """
