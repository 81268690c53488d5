"""Groups of columns that enter the model together, overlapping or with single zeros inside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..operators import Identity, Selection
from ..penalties import GroupL2, SparseGroupNorm
from ..plots import plot_groups
from ..problem import Problem
from ..run.result import Result
from ._base import Fitting, StructuredModel
from ._classifier import Classifier
from ._docs import estimator
from ._regressor import Regressor
from ._structure import Columns, Structure


@dataclass(eq=False, repr=False, kw_only=True)
class InGroups(StructuredModel):
    """Columns in named groups: what is said of those in none, and which groups are active.

    Attributes
    ----------
    active_groups_ : list
        Names or numbers of the groups that are not zero.
    n_groups_ : int
        Number of groups.
    """

    l1_ratio: float = 0.0
    groups: Any = None
    group_weights: Any = None

    def _notices(self, fitting: Fitting, exposure: Any) -> list[str]:
        _, copies = fitting.columns.groups(self.groups, self.group_weights)
        listed = np.concatenate([np.empty(0, dtype=np.intp), *map(np.asarray, copies.groups)])
        alone = np.setdiff1d(fitting.columns.penalized, listed)
        notices = super()._notices(fitting, exposure)
        if self._ratio > 0 or not alone.size:
            return notices
        names = fitting.columns.names
        shown = ", ".join(str(j if names is None else names[j]) for j in alone[:3])
        count = "1 column is" if alone.size == 1 else f"{alone.size} columns are"
        return [
            *notices,
            f"{count} in no group and, as l1_ratio is 0, not penalized ({shown}"
            f"{', ...' if alone.size > 3 else ''}); extend the groups, or name what is "
            "meant in unpenalized",
        ]

    def _inspect(self, fitting: Fitting, problem: Problem, result: Result) -> None:
        labels, members = fitting.structure.labels or [], fitting.structure.members or []
        copies = fitting.structure.copies
        columns = members if copies is None else [copies[group] for group in members]
        self._groups = dict(zip(labels, columns, strict=True))
        self.n_groups_ = len(labels)
        self.active_groups_ = [
            label for label, group in zip(labels, members, strict=True) if result.coef[group].any()
        ]

    def _found(self) -> list[str]:
        return [f"{len(self.active_groups_)} of {self.n_groups_} groups are active"]

    def plot_groups(self, ax: Any = None, most: int = 30) -> Any:
        """Draw the length of the coefficients of each group, the longest first.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Where to draw; returned.
        most : int, default=30
            Groups drawn.

        Returns
        -------
        matplotlib axes
        """
        check_is_fitted(self)
        return plot_groups(self.coef_, self._groups, ax, most)


@dataclass(eq=False, repr=False, kw_only=True)
class Grouped(InGroups):
    """Norms of overlapping groups, or of latent vectors that live on the groups.

    Parameters
    ----------
    l1_ratio : float, default=0.0
        Share of the l1 norm in the penalty, between 0 and 1.
    groups : mapping, list or labels, optional
        Group name to columns, or lists of columns, by name or index, or one label per column. One
        group per column by default. Columns in no group are penalized by the l1 norm only; with
        ``l1_ratio=0`` they are not penalized, and there is a warning.
    group_weights : array or mapping, optional
        The c_g, all ones by default; the square root of the size is the other usual choice.
    latent : bool, default=False
        The latent group lasso: groups are switched on (a union of groups) instead of off.
    """

    latent: bool = False

    def _structure(self, columns: Columns) -> Structure:
        labels, copies = columns.groups(self.groups, self.group_weights)
        share = 1 - self._ratio
        members = [np.asarray(group) for group in copies.groups]
        if not labels or (share == 0 and not self.latent):
            return Structure(l1=self._ratio, labels=labels, members=members)
        if self.latent:
            return _latent(columns, labels, copies, share)
        norms = GroupL2(share, copies.sizes)
        return Structure([(copies, norms)], l1=self._ratio, labels=labels, members=members)


def _latent(columns: Columns, labels: list[Any], copies: Selection, share: float) -> Structure:
    """Return the latent variant: a variable with one entry per member of a group.

    Its data are columns of X, repeated as often as groups hold them; columns in no group follow,
    unpenalized by the groups.
    """
    listed = np.concatenate([np.asarray(group) for group in copies.groups])
    alone = np.setdiff1d(np.arange(columns.n), listed)
    entries = np.concatenate([listed, alone])
    weights = np.ones(len(labels)) if copies.weights is None else np.asarray(copies.weights)
    first = (
        Identity(entries.size)
        if not alone.size
        else Selection([np.arange(listed.size)], entries.size)
    )
    terms: list[Any] = [(first, GroupL2(share, copies.sizes, weights))] if share else []
    members = np.split(np.arange(listed.size), np.cumsum(copies.sizes)[:-1])
    return Structure(terms, 1 - share, copies=entries, labels=labels, members=members)


@estimator
class OverlappingGroupRegressor(Regressor, Grouped):
    """Overlapping group lasso: linear regression with whole groups of zero coefficients.

    Minimizes ``mean loss + alpha ((1 - l1_ratio) sum_g c_g |w_g|_2 + l1_ratio |w|_1)``. The
    coefficients that remain are those in no vanished group. With ``latent=True`` the norms are
    those of vectors v_g on the groups with ``w = sum_g v_g``: the coefficients that remain are a
    union of groups. Overlaps then cost memory: a column is stored once per group that holds it.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import OverlappingGroupRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 5))
    >>> y = X @ [2, 1, 0, 0, 0]
    >>> groups = {"left": [0, 1], "middle": [1, 2, 3], "right": [3, 4]}
    >>> model = OverlappingGroupRegressor(alpha=0.1, groups=groups, latent=True).fit(X, y)
    >>> model.active_groups_
    ['left']
    """


@estimator
class OverlappingGroupClassifier(Classifier, Grouped):
    """Linear classification with the overlapping group lasso penalty: whole groups are zero.

    Minimizes ``mean loss + alpha ((1 - l1_ratio) sum_g c_g |w_g|_2 + l1_ratio |w|_1)``. The
    coefficients that remain are those in no vanished group. With ``latent=True`` the norms are
    those of vectors v_g on the groups with ``w = sum_g v_g``: the coefficients that remain are a
    union of groups. Overlaps then cost memory: a column is stored once per group that holds it.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm import OverlappingGroupClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((300, 4))
    >>> y = X[:, 0] + X[:, 1] > 0
    >>> model = OverlappingGroupClassifier(alpha=0.05, groups=[[0, 1], [1, 2], [2, 3]]).fit(X, y)
    >>> np.flatnonzero(model.coef_), model.active_groups_
    (array([0, 1]), [0, 1])
    """


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
                    "disjoint; OverlappingGroup... estimators take others"
                )
            labels[group] = g
        alone = (labels == len(members)) & (columns.factor * self._ratio == 0)
        if members and (alone & columns.bounded).any():
            # a column with only a bound would get no row of the structure, and certificates would
            # not treat it as free
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
