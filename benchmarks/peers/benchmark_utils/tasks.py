"""The problems, stated once: data, formula, and the same in the words of stochadmm.

F(w) = (1/n) sum_i loss(x_i' w, y_i) + alpha * penalty(w)

loss      squared    1/2 (z - y)^2, summed over the columns of y
          logistic   log(1 + exp(-y z)), y = -1 or +1
penalty   l1         |w|_1
          graph      sum over edges (i, j) of |w_i - w_j|, plus |w|_1
          groups     sum over groups g of |w_g|_2; groups may overlap
          low-rank   sum of the singular values of w, plus |w|_1
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import expit
from sklearn.datasets import load_digits

import stochadmm as sa
from stochadmm import structures
from stochadmm_reproduction import datasets


@dataclass(frozen=True, eq=False)
class Task:
    """Data and penalty of one problem."""

    loss: str
    penalty: str
    X: Any
    y: np.ndarray
    alpha: float
    edges: np.ndarray | None = None
    groups: tuple[tuple[int, ...], ...] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.X.shape[1], *self.y.shape[1:])

    @property
    def is_chain(self) -> bool:
        """Whether the graph joins every column to the next, and nothing else."""
        d = self.shape[0]
        chain = np.stack([np.arange(d - 1), np.arange(1, d)], axis=1)
        return self.edges is not None and np.array_equal(self.edges, chain)

    @cached_property
    def differences(self) -> sparse.csr_array:
        """One row per edge."""
        m, d = len(self.edges), self.shape[0]
        rows = np.repeat(np.arange(m), 2)
        return sparse.csr_array((np.tile([1.0, -1.0], m), (rows, self.edges.ravel())), (m, d))

    # ------------------------------------------------------------ the formula

    def mean_loss(self, w: np.ndarray) -> float:
        z = self.X @ w
        losses = (
            np.logaddexp(0.0, -self.y * z) if self.loss == "logistic" else (z - self.y) ** 2 / 2
        )
        return float(losses.sum() / len(self.y))

    def mean_loss_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient, for methods that ask for them."""
        z = self.X @ w
        if self.loss == "logistic":
            losses, derivatives = np.logaddexp(0.0, -self.y * z), -self.y * expit(-self.y * z)
        else:
            losses, derivatives = (z - self.y) ** 2 / 2, z - self.y
        return float(losses.sum() / len(z)), self.X.T @ derivatives / len(z)

    def value(self, w: np.ndarray) -> float:
        """F(w)."""
        if not np.isfinite(w).all():
            return np.inf
        if self.penalty == "groups":
            size = sum(np.linalg.norm(w[list(g)]) for g in self.groups)
        else:
            size = np.abs(w).sum()
        if self.penalty == "graph":
            size += np.abs(self.differences @ w).sum()
        if self.penalty == "low-rank":
            size += np.linalg.svd(w, compute_uv=False).sum()
        return self.mean_loss(w) + self.alpha * float(size)

    # ------------------------------------------------------------ stochadmm's words

    def problem(self) -> sa.Problem:
        d, on_coefficients, structure = self.shape[0], None, None
        on_structure: Any = sa.L1(self.alpha)
        if self.penalty == "graph":
            structure = sa.VStack([sa.Incidence(self.edges, d), sa.Identity(d)])
        elif self.penalty == "groups":
            structure = structures.groups(self.groups, n_features=d)
            on_structure = sa.GroupL2(self.alpha, structure.sizes)
        elif self.penalty == "low-rank":
            on_structure, on_coefficients = sa.Nuclear(self.alpha), sa.L1(self.alpha)
        loss = sa.Logistic() if self.loss == "logistic" else sa.Squared()
        return sa.Problem.linear(
            loss,
            self.X,
            self.y,
            structure=structure,
            on_structure=on_structure,
            on_coefficients=on_coefficients,
        )


@dataclass(frozen=True)
class Optimum:
    """The optimal value lies between ``bound``, which is proved, and ``value``."""

    value: float
    bound: float

    @classmethod
    def of(cls, task: Task, seconds: float = 120.0) -> Optimum:
        found = sa.minimize(
            task.problem(), stop=sa.Gap(1e-10), max_passes=1e5, max_seconds=seconds
        )
        value = task.value(found.coef)
        return cls(value, min(found.objective - found.gap, value))

    def gap(self, value: float) -> float:
        """Proved upper limit of (F(w) - F*) / F*, where F(w) = ``value``."""
        return (value - self.bound) / self.bound


# ---------------------------------------------------------------- data


def generated(problem: str, size: str = "small") -> Task:
    """Return a problem on generated rows; a large one has ten times as many."""
    make, times = sa.datasets, {"small": 1, "large": 10}[size]
    if problem == "graph-fused-logistic":
        data = make.make_graph_fused(5_000 * times, 100)
        return Task("logistic", "graph", data.X, data.y, 1e-3, edges=data.graph)
    if problem == "fused-lasso":
        data = make.make_chain(2_000 * times, 200)
        return Task("squared", "graph", data.X, data.y, 1e-3, edges=data.graph)
    if problem == "overlapping-groups":
        data = make.make_overlapping_groups(2_000 * times, n_groups=30)
        return Task("squared", "groups", data.X, data.y, 2e-3, groups=_indices(data.groups))
    if problem == "lasso":
        data = make.make_chain(300, 1_000 * times, n_levels=20, noise=0.1)
        return Task("squared", "l1", data.X, data.y, _share(data.X, data.y))
    if problem == "sparse-logistic":
        data = make.make_graph_fused(1_000 * times, 500)
        return Task("logistic", "l1", data.X, data.y, 0.5 * _share(data.X, data.y))
    if problem == "sparse-low-rank":
        data = make.make_low_rank_tasks(1_000 * times, 40, 20)
        return Task("squared", "low-rank", data.X, data.y, 2e-3)
    raise ValueError(f"there is no generated problem {problem!r}")


def real(name: str, problem: str) -> Task:
    """Return a problem on a public data set; rows have unit norm."""
    if name == "digits":
        X, y, edges, groups = _digits()
    else:
        options = {"split": True} if name == "covtype" else {}
        data = datasets.load(name, unit_rows=True, **options)
        X, y, edges, groups = data.X, data.y, data.graph, data.groups
    if problem == "graph-fused-logistic":
        if name.startswith("dna"):  # the same letter at the next position
            edges = [(j, j + 4) for j in range(X.shape[1] - 4)]
        edges = np.asarray(structures.glasso_edges(X) if edges is None else edges)
        y = np.where(y % 2, 1.0, -1.0) if name == "digits" else np.asarray(y, dtype=float)
        return Task("logistic", "graph", X, y, 1e-4, edges=edges)
    if problem == "overlapping-groups":
        return Task("logistic", "groups", X, y, 1e-2, groups=_indices(groups))
    if problem == "lasso":
        return Task("squared", "l1", X, y, _share(X, y))
    if problem == "sparse-low-rank":
        return Task("squared", "low-rank", X, np.eye(int(y.max()) + 1)[y.astype(int)], 1e-3)
    raise ValueError(f"there is no problem {problem!r} on {name}")


def _digits() -> tuple[Any, ...]:
    """Return 1,797 images of 8 x 8 pixels that come with scikit-learn, and their grid."""
    X, y = load_digits(return_X_y=True)
    pixel = np.arange(64).reshape(8, 8)
    across = np.stack([pixel[:, :-1].ravel(), pixel[:, 1:].ravel()], axis=1)
    down = np.stack([pixel[:-1].ravel(), pixel[1:].ravel()], axis=1)
    return X / np.linalg.norm(X, axis=1, keepdims=True), y, np.concatenate([across, down]), None


def _indices(groups: dict[str, Any]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(int, group)) for group in groups.values())


def _share(X: Any, y: np.ndarray) -> float:
    """Return a tenth of the least alpha at which the lasso leaves only zeros."""
    return 0.1 * float(np.abs(X.T @ y).max()) / len(y)
