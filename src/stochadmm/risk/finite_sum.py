"""The data term: a loss averaged over rows.

A full pass goes through the rows in blocks that fit the processor's cache, so that predictions and
gradient cost one read of the matrix, not two. Blocks form parts that threads share; where both
begin and end depends on the data alone, so results do not depend on the number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from ..base.capabilities import Has
from ..base.protocols import Array, CompleteLoss, Loss, Shape
from ..base.validation import check_sparse
from ..base.workspace import Workspace
from ..data import ALL, CSR, Rows, check_finite, checked_rows, cut
from ..kernels.extension import available
from ..kernels.passes import full_pass, gram_pass
from ..kernels.views import DataView
from ..linear_algebra import threads
from .evaluation import Evaluation
from .lines import LineInMemory
from .mean_loss import MeanLoss, mean_loss
from .metrics import column_energies
from .sampling import Runs
from .targets import (
    check_loss,
    check_offset,
    check_targets,
    check_weight,
    n_outputs,
    weighted,
    weights_in,
)
from .views import data_view, pass_view


class FiniteSum(MeanLoss):
    """Mean loss of a linear model, ``f2(x) = sum_i w_i loss(a_i' x, y_i) / sum_i w_i``.

    Parameters
    ----------
    loss : Loss
        The loss of one row.
    X : ndarray or CSR matrix of shape (n, d)
        The rows; float32 or float64, not copied where the layout allows. If you change it between
        runs, the next run uses the numbers that it then finds in ``self.X``.
    y : array of shape (n,) or (n, C)
        Targets in the domain of the loss.
    sample_weight : array of shape (n,) or (n, C), optional
        Weights >= 0; one per entry for elementwise losses (0 = missing, w_i = the row's largest).
    intercept : bool, default=False
        One more, last row of ``x`` that is added to every prediction.
    offset : array, optional
        Added to the predictions.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.losses import Squared
    >>> f = FiniteSum(Squared(), np.eye(2), np.array([1.0, 3.0]))
    >>> f.value(np.zeros(2))
    2.5
    """

    loss: CompleteLoss
    in_memory: ClassVar[bool] = True
    opening_passes: ClassVar[float] = 0.0

    def __init__(
        self,
        loss: Loss,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        intercept: bool = False,
        offset: Any = None,
    ) -> None:
        self.loss = check_loss(loss)
        self.notes: list[str] = []
        self.rows: Rows = checked_rows(X, self.notes)
        self.X: Any = self.rows.X
        """The matrix, as it was given or converted."""
        self.storage: str = self.rows.storage
        """Either "dense" or "csr"."""
        self.dtype: np.dtype[Any] = self.rows.dtype
        """float32 or float64, that of X."""
        self.n_bytes, self.n_entries = self.rows.n_bytes, self.rows.n_entries
        """Of the data matrix; zeros of sparse ones left out."""
        self.intercept = bool(intercept)
        self.n_terms, self.n_features = self.rows.shape
        check_finite(self.row_norms2)
        self.y = check_targets(loss, y, self.n_terms, self.dtype)
        self.n_outputs: int | None = n_outputs(loss, self.y)
        per_entry = self.n_outputs if self.y.ndim == 2 else None
        self.weight = check_weight(sample_weight, self.n_terms, per_entry, self.dtype)
        self.offset = check_offset(offset, self._predictions_shape(self.n_terms), self.dtype)
        self.memory: int | None = None
        self.passes = Passes()
        work = self.n_bytes * (self.n_outputs or 1)
        self._parts = self.passes.parts(self.n_terms, work)
        self._view = pass_view(self)

    def __fingerprint__(self) -> Any:
        """Return what the sum is made of (see ``fingerprint``)."""
        return "FiniteSum", self.loss, self.X, self.y, self.weight, self.offset, self.intercept

    def check(self) -> None:
        """Raise where arrays that were changed since no longer hold numbers to work on."""
        if self.storage == "csr":
            check_sparse(self.X, "X")
        check_finite(self.row_norms2)
        check_targets(self.loss, self.y, self.n_terms, self.dtype)

    def with_memory(self, memory: int | None) -> FiniteSum:
        """Return the same sum for runs with so many bytes beyond the data, None for any number.

        It decides whether snapshots keep numbers of every row (`keeps_rows`).
        """
        other = copy(self)
        other.memory = memory
        return other

    def changed(self, **parts: Any) -> FiniteSum:
        """Return a mean loss with some parts of its own, named as arguments, and these others."""
        same: dict[str, Any] = {"loss": self.loss, "X": self.rows, "y": self.y}
        same |= {"sample_weight": self.weight, "offset": self.offset}
        return FiniteSum(**{**same, "intercept": self.intercept, **parts})

    def with_loss(self, loss: Any) -> FiniteSum:
        return self.changed(loss=loss)

    def opened(self, workspace: Workspace) -> FiniteSum:
        return self

    def representative(self, workspace: Workspace) -> FiniteSum | None:
        return self

    # ---------------------------------------------------------------- facts

    def has_offset(self, workspace: Workspace) -> bool:
        return self.offset is not None

    @property
    def row_weight(self) -> Array | None:
        """Sample weight of each row, the largest where entries have their own."""
        if self.weight is None or self.weight.ndim == 1:
            return self.weight
        return cast(Array, self.weight.max(axis=1))

    def _predictions_shape(self, n: int) -> Shape:
        return (n,) if self.n_outputs is None else (n, self.n_outputs)

    @property
    def row_norms2(self) -> Array:
        """Squared norm of each row of X; a read."""
        return self.rows.row_norms2()

    @property
    def longest_row(self) -> float:
        """Largest norm of a row of X; a read."""
        return float(np.sqrt(self.row_norms2.max()))

    @property
    def row_curvatures(self) -> Array:
        """Constant of each term without the loss's bound: q_i (|a_i|^2 + intercept); a read."""
        norms = self.row_norms2 + self.intercept
        return norms if self.row_weight is None else norms * self.row_weight

    @property
    def lipschitz_max(self) -> float:
        """Lmax, the largest constant of a single term; a read."""
        return float(self.loss.curvature_bound * self.row_curvatures.max())

    @property
    def lipschitz_mean(self) -> float:
        """Lf, a bound on the constant of the mean, within about one percent; several reads."""
        return mean_constant(self)

    def cheap_constant(self, workspace: Workspace) -> float:
        if self.n_bytes <= 1 << 20:
            return self.lipschitz_mean
        trace = float(workspace.rows.once(column_energies, self).sum())
        return float(self.loss.curvature_bound) * trace

    def run_lipschitz(self, runs: Runs) -> float:
        """Return a bound on the largest constant of the mean over one run of rows."""
        return run_constant(self, runs)

    # ---------------------------------------------------------------- products with the data

    def chunks(self, itemsize: int = 8, within: slice = ALL) -> Iterator[slice]:
        """Yield consecutive row ranges, of all rows or a part, whose part of X fits the cache."""
        return self.rows.ranges(within, itemsize)

    @property
    def n_threads(self) -> int:
        """How many threads a pass over all rows uses now."""
        return 1 if len(self._parts) == 1 else min(threads.count(), len(self._parts))

    def predict(self, x: Array, rows: Any = ALL) -> Array:
        """Return the predictions of some rows, intercept and offset included."""
        if not x[: self.n_features].any():  # no need to read the rows
            return self._shifted(self._no_products(len(self.y[rows]), x), x, rows)
        if not self._shared(rows):
            return self._predict(self.rows.take(rows), x, rows)
        z = np.empty((self.n_terms, *x.shape[1:]), dtype=np.result_type(self.dtype, x.dtype))

        def part(rows: slice) -> None:
            z[rows] = self._predict(self.rows.take(rows), x, rows)

        threads.run(part, self._parts)
        return z

    def _shared(self, rows: Any) -> bool:
        """Say whether these are all rows, and enough of them for threads."""
        return rows is ALL and len(self._parts) > 1

    def _predict(self, block: Rows, x: Array, rows: Any) -> Array:
        coefficients = x[: self.n_features]
        n = block.shape[0]
        z = block.matvec(coefficients) if coefficients.any() else self._no_products(n, x)
        return self._shifted(z, x, rows)

    def _no_products(self, n: int, x: Array) -> Array:
        """Return the products of n rows with coefficients that are all zero."""
        return np.zeros((n, *x.shape[1:]), dtype=np.result_type(self.dtype, x.dtype))

    def _shifted(self, z: Array, x: Array, rows: Any) -> Array:
        """Add intercept and offset to products of some rows, in place."""
        if self.intercept:
            z += x[-1]
        if self.offset is not None:
            z += self.offset[rows]
        return z

    def derivative(self, z: Array, rows: Any = ALL) -> Array:
        """Return the derivative of the loss of some rows in their predictions, unweighted."""
        return self.loss.derivative(z, self.y[rows])

    def derivatives(self, z: Array, rows: Any = ALL) -> Array:
        """Return the derivative of the terms of some rows in their predictions."""
        return self.weighted(self.derivative(z, rows), rows)

    def weighted(self, u: Array, rows: Any = ALL) -> Array:
        """Return rows of ``u`` times their sample weights."""
        return u if self.weight is None else weighted(self.weight[rows], u)

    def pull_back(self, u: Array, rows: Any = ALL) -> Array:
        """Return ``sum_i u_i a_i`` over some rows (with the intercept's column of ones)."""
        if not self._shared(rows):
            return self.pull_back_block(self.rows.take(rows), u)

        def part(rows: slice) -> Array:
            block = self.rows.take(rows)
            return self.pull_back_block(block, u[rows]).astype(np.float64, copy=False)

        total = threads.add_up(part, self._parts)
        return total.astype(np.result_type(self.dtype, u.dtype), copy=False)

    def pull_back_block(self, block: Rows, u: Array) -> Array:
        """Return ``sum_i u_i a_i`` over rows that were taken, with the intercept's ones."""
        g = block.rmatvec(u)
        return np.concatenate([g, u.sum(axis=0, keepdims=True)]) if self.intercept else g

    def value_at(self, z: Array) -> float:
        """Return the mean loss of given predictions, in float64 where they are."""
        q = weights_in(self, z.dtype)
        return self._add_numbers(lambda rows: self._loss_sum(z[rows], rows, q)) / self.n_terms

    def _add_numbers(self, part: Callable[[slice], float]) -> float:
        numbers: list[float] = []
        threads.run(part, self._parts, numbers.append)
        return sum(numbers)

    def _loss_sum(self, z: Array, rows: Any, weight: Array | None) -> float:
        """Return the weighted sum of the losses of some rows, from the loss's weighted mean."""
        y = self.y[rows]
        if weight is None:
            return self.loss.value(z, y) * len(y)
        q = weight[rows]
        total = float((q if q.ndim == 1 else q.max(axis=1)).sum(dtype=np.float64))
        return self.loss.value(z, y, q) * total if total > 0 else 0.0

    def value(self, x: Array) -> float:
        """Return the mean loss at x, in float64 where x is."""
        q, take = weights_in(self, np.result_type(self.dtype, x.dtype)), self.rows.take

        def part(rows: slice) -> float:
            few = self.passes.few(rows, self.n_outputs or 1)
            return sum(self._loss_sum(self._predict(take(r), x, r), r, q) for r in few)

        return self._add_numbers(part) / self.n_terms

    def gradient(self, x: Array) -> Array:
        """Return the gradient of the mean loss at x."""
        return self.evaluate(x, rows=False).gradient

    @property
    def keeps_rows(self) -> bool:
        """Whether there is memory for predictions and derivatives of all rows at a snapshot."""
        size = 2 * self.n_terms * (self.n_outputs or 1) * self.dtype.itemsize
        return self.memory is None or size <= self.memory

    def anchor(self, x: Array) -> Evaluation:
        """Return the evaluation that differences of gradients start from.

        Without memory for the parts of rows it has none, and `gradient_change` computes those of
        its rows again; iterates are the same up to rounding.
        """
        return self.evaluate(x, rows=self.keeps_rows)

    def evaluate_exactly(self, x: Array, known: Evaluation | None = None) -> Evaluation:
        if known is not None and known.is_exact_at(x):
            return replace(known, n_passes=0.0)
        return self.evaluate(x, dtype=np.float64)

    def along(self, at: Evaluation, x: Array) -> LineInMemory:
        return LineInMemory(self, at, self.evaluate_exactly(x))

    def at_predictions(self, x: Array, z: Array) -> Evaluation:
        """Return the evaluation at x, whose predictions are known: half a read of the rows."""
        u = self.derivative(z)
        gradient = self.pull_back(self.weighted(u)) / self.n_terms
        return Evaluation(x, self.value_at(z), gradient.astype(self.dtype, copy=False), z, u)

    def evaluate(self, x: Array, rows: bool = True, dtype: Any = None) -> Evaluation:
        """Return value and gradient at x: one pass over the data.

        With ``rows`` those of all rows are kept too; ``dtype`` is by default that of the data.
        """
        dtype = self.dtype if dtype is None else np.dtype(dtype)
        x, q = np.asarray(x, dtype=dtype), weights_in(self, dtype)
        # one piece of memory: of two, allocators give the upper one back after every pass
        z, u = np.empty((2, *self._predictions_shape(self.n_terms if rows else 0)), dtype=dtype)
        values: dict[int, float] = {}
        view = self._view if self.compiled and dtype == self.dtype else None

        def part(part: slice) -> Array:
            total, value = np.zeros(self.shape, dtype=np.float64), 0.0
            for block in self._pass_blocks(part, view is not None, dtype.itemsize):
                if rows:
                    here = z[block], u[block]
                else:
                    shape = self._predictions_shape(block.stop - block.start)
                    here = np.empty(shape, dtype), np.empty(shape, dtype)
                loss, gradient = self._pass(view, block, x, q, *here)
                value += loss
                total += gradient
                del here, gradient
            values[part.start] = value
            return total

        total = self._add_up(part, few=not rows)
        value = sum(values[part.start] for part in self._parts) / self.n_terms
        total /= self.n_terms
        gradient = total.astype(dtype, copy=False)
        return Evaluation(x.copy() if rows else x, value, gradient, z, u, 1.0)

    def _add_up(self, part: Callable[[slice], Array], few: bool) -> Array:
        """Return the sum over the parts; with ``few`` never more than two large gradients."""
        if not few or 8 * math.prod(self.shape) < self.passes.part_bytes:
            return threads.add_up(part, self._parts)
        total = part(self._parts[0])
        for rows in self._parts[1:]:
            total += part(rows)
        return total

    def _pass_blocks(self, part: slice, compiled: bool, itemsize: int) -> Iterator[slice]:
        if compiled:  # its own steps fit the cache
            return cut(part.start, part.stop, self.passes.rows_per_sum)
        return self.rows.ranges(part, itemsize)

    def _pass(
        self, view: DataView | None, rows: slice, x: Array, q: Array | None, z: Array, u: Array
    ) -> tuple[float, Array]:
        """Write predictions and derivatives of a block; return its sums of losses, gradients."""
        if view is not None:
            self.rows.note_read(len(z))
            gradient = np.zeros(self.shape, dtype=self.dtype)
            return full_pass(view, rows.start, rows.stop, x, z, u, gradient), gradient
        block = self.rows.take(rows)
        z[:] = self._predict(block, x, rows)
        u[:] = self.derivative(z, rows)
        derivatives = u if q is None else weighted(q[rows], u)
        return self._loss_sum(z, rows, q), self.pull_back_block(block, derivatives)

    @property
    def compiled(self) -> bool:
        """Whether passes are compiled: single output, a known loss, an extension."""
        return self._view is not None and available()

    @property
    def view(self) -> DataView:
        """The rows as compiled loops see them; nothing is copied."""
        return data_view(self) if self._view is None else self._view

    def gradient_change(self, rows: NDArray[np.intp], x: Array, anchor: Evaluation) -> Array:
        """Return the mean over ``rows`` of the gradients at x minus those at the anchor."""
        if not anchor.has_rows:
            return self._recomputed_change(rows, x, anchor.x)
        block = self.rows.take(rows)
        change = self.derivative(self._predict(block, x, rows), rows) - anchor.derivative[rows]
        return self.pull_back_block(block, self.weighted(change, rows)) / len(rows)

    def _recomputed_change(self, rows: NDArray[np.intp], x: Array, origin: Array) -> Array:
        """Return the mean change of gradients since a point, a few rows in memory at a time."""
        total = np.zeros(self.shape, dtype=self.dtype)
        for part in self.rows.ranges(slice(0, len(rows)), self.dtype.itemsize):
            few = rows[part]
            block = self.rows.take(few)
            change = self.derivative(self._predict(block, x, few), few)
            change -= self.derivative(self._predict(block, origin, few), few)
            total += self.pull_back_block(block, self.weighted(change, few))
            del block, change  # before the next ones are there
        total /= len(rows)
        return total

    def gradient_rows(self, rows: NDArray[np.intp], x: Array) -> Array:
        """Return the mean over ``rows`` of the terms' gradients at x."""
        block = self.rows.take(rows)
        derivatives = self.derivatives(self._predict(block, x, rows), rows)
        return self.pull_back_block(block, derivatives) / len(rows)

    def gram(self, curvature: Array | None = None, rows: Any = None) -> Array:
        """Return ``mean_i c_i q_i a_i a_i'`` in float64 over all or some rows, with intercept.

        ``curvature`` (c_i, one number per row used) is 1 when absent.
        """
        n, weight = self.n_terms if rows is None else len(rows), self.row_weight
        numbers = np.ones(n) if curvature is None else curvature
        if weight is not None:
            numbers = numbers * (weight if rows is None else weight[rows])
        return self.rows.sandwich(numbers, rows, ones=self.intercept) / n

    def gram_product(self, v: Array) -> Array:
        """Return ``mean_i q_i a_i (a_i'v)`` in one read."""
        v = np.asarray(v, dtype=self.dtype).ravel()
        view = self._view if self.compiled else None

        def part(part: slice) -> Array:
            total = np.zeros(self.n_columns)
            for rows in self._pass_blocks(part, view is not None, self.dtype.itemsize):
                total += self._gram_pass(view, rows, v)
            return total

        return threads.add_up(part, self._parts) / self.n_terms

    def _gram_pass(self, view: DataView | None, rows: slice, v: Array) -> Array:
        weight = self.row_weight
        if view is not None:
            n = rows.stop - rows.start
            self.rows.note_read(n)
            z, out = np.empty(n, self.dtype), np.zeros(self.n_columns, self.dtype)
            gram_pass(view, rows.start, rows.stop, v, weight is not None, z, out)
            return out
        block = self.rows.take(rows)
        product = block.matvec(v[: self.n_features]) + (v[-1] if self.intercept else 0)
        return self.pull_back_block(block, product if weight is None else product * weight[rows])


GRAM_COLUMNS = 128
"""Columns up to which one Gram matrix is cheaper than a Lanczos iteration."""


def mean_constant(f2: FiniteSum) -> float:
    """Return Lf, a bound on the constant of the mean, within about one percent."""
    d, curvatures = f2.n_columns, f2.row_curvatures
    if f2.n_terms == 1 or not curvatures.any():
        return float(f2.loss.curvature_bound * curvatures.max())
    if d <= GRAM_COLUMNS:
        top = float(np.linalg.eigvalsh(f2.gram())[-1]) * (1 + 1e-9)
    else:
        # A'A and AA' have the same largest eigenvalue; ARPACK keeps twenty vectors of its side
        wide = d > 10 * f2.n_terms
        side, of = (f2.n_terms, _row_product(f2)) if wide else (d, f2.gram_product)
        start = np.ones(side, dtype=np.float64)
        product = LinearOperator((side, side), matvec=of, dtype=np.float64)
        top = 1.01 * float(eigsh(product, k=1, v0=start, tol=3e-3, return_eigenvectors=False)[0])
    mean = float(curvatures.astype(np.float64).mean())
    return float(f2.loss.curvature_bound * min(top, mean))


def _row_product(f2: FiniteSum) -> Callable[[Array], Array]:
    """Return the product with ``Q^(1/2) A A' Q^(1/2) / n``, rows on both sides."""
    root = np.ones(f2.n_terms) if f2.row_weight is None else np.sqrt(f2.row_weight)

    def product(v: Array) -> Array:
        u = root * np.ravel(v)
        image = f2.rows.matvec(f2.rows.rmatvec(u.astype(f2.dtype))) + f2.intercept * u.sum()
        return np.asarray(root * image / f2.n_terms, dtype=np.float64)

    return product


def mean_row_curvature(f2: FiniteSum) -> float:
    """Return the mean constant of the terms without the loss's bound; one read."""
    return float(np.mean(f2.row_curvatures, dtype=np.float64))


def run_constant(f2: FiniteSum, runs: Runs) -> float:
    """Return a bound on the largest constant of the mean over one run of rows.

    By the largest absolute row sum of the run's Gram matrix, which is at least its norm.
    """
    if runs.n_runs == runs.n_rows:
        return f2.lipschitz_max
    largest = 0.0
    edges = np.arange(runs.n_runs + 1) * runs.n_rows // runs.n_runs
    # sums over the runs of a block are dense for dense rows only
    dense = f2.storage != CSR
    width = 8 * f2.n_features if dense else 1 + f2.n_entries // f2.n_terms
    per_block = max(1, (1 << 19) // (width * runs.length))
    for first in range(0, runs.n_runs, per_block):
        largest = max(largest, _largest_sum(f2, edges[first : first + per_block + 1]))
    return float(min(f2.loss.curvature_bound * largest, f2.lipschitz_max))


def _largest_sum(f2: FiniteSum, edges: Array) -> float:
    """Return the largest row sum of a run's Gram matrix, over consecutive runs."""
    rows, sizes = slice(int(edges[0]), int(edges[-1])), np.diff(edges)
    root = None if f2.row_weight is None else np.sqrt(f2.row_weight[rows])
    block = abs(f2.rows.take(rows).X)
    which = np.repeat(np.arange(sizes.size), sizes)
    ones = np.ones(which.size, dtype=f2.dtype)
    member = sparse.csr_array((ones, (which, np.arange(which.size))))
    # |G|_inf <= max_i sum_k |a_i|.|a_k|, with equality for rows of one sign
    if f2.storage == CSR:
        block = block if root is None else sparse.diags_array(root) @ block
        near = np.asarray(block.multiply((member @ block)[which]).sum(axis=1)).ravel()
    else:
        block = block if root is None else block * root[:, None]
        near = np.einsum("ij,ij->i", block, (member @ block)[which])
    if f2.intercept:
        own = np.ones(which.size) if root is None else root
        near = near + own * (member @ own)[which]
    return float((near / sizes[which]).max())


@dataclass(frozen=True)
class Passes:
    """How a pass over all rows is cut.

    Parameters
    ----------
    part_bytes : int
        Work below which a part is not worth another thread.
    most_parts : int
        Parts at most: each adds up a gradient of its own.
    fewest_rows : int
        Rows of a part at least.
    rows_per_sum : int
        Rows whose sums a compiled pass keeps in the data's type before they are added in float64.
    predictions : int
        Predictions that are in memory at a time where only their sum is asked for.
    """

    part_bytes: int = 1 << 21
    most_parts: int = 16
    fewest_rows: int = 256
    rows_per_sum: int = 1 << 14
    predictions: int = 1 << 20

    def parts(self, n_rows: int, n_bytes: int) -> list[slice]:
        """Return the row ranges that threads share, one where there is little work."""
        parts = min(n_bytes // self.part_bytes, n_rows // self.fewest_rows, self.most_parts)
        return threads.ranges(n_rows, parts)

    def few(self, part: slice, n_outputs: int) -> Iterator[slice]:
        """Yield ranges of a part whose predictions are few."""
        return cut(part.start, part.stop, max(self.fewest_rows, self.predictions // n_outputs))


def loss_of_rows(f2: object, *wanted: Has) -> FiniteSum | None:
    """Return a data term that is a mean loss over rows in memory; None for any other.

    None also where its loss does not offer all that is wanted.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.base.capabilities import Has
    >>> from stochadmm.losses import Squared
    >>> from stochadmm.risk import FiniteSum, loss_of_rows
    >>> f2 = FiniteSum(Squared(), np.eye(2), np.ones(2))
    >>> loss_of_rows(f2, Has.CONJUGATE) is f2, loss_of_rows(f2, Has.BY_CLASS), loss_of_rows(None)
    (True, None, None)
    """
    found = mean_loss(f2, *wanted)
    return found if isinstance(found, FiniteSum) else None


def as_finite_sum(f2: object) -> FiniteSum:
    """Return a data term that is a mean loss over rows in memory; raise for any other."""
    found = loss_of_rows(f2)
    if found is None:
        raise TypeError(
            f"f2 is {type(f2).__name__}, expected a FiniteSum of rows in memory; use 'auto'"
        )
    return found


def some_rows(f2: FiniteSum, rows: NDArray[np.intp]) -> FiniteSum:
    """Return the mean loss over some rows."""
    weight, offset = (None if a is None else a[rows] for a in (f2.weight, f2.offset))
    return f2.changed(X=f2.rows.take(rows), y=f2.y[rows], sample_weight=weight, offset=offset)


def as_matrix(f2: FiniteSum) -> FiniteSum:
    """Return the same mean loss of a matrix of coefficients: one column where it had a vector."""
    if f2.n_outputs is not None:
        return f2
    return f2.changed(y=f2.y[:, None], offset=None if f2.offset is None else f2.offset[:, None])


def some_columns(f2: FiniteSum, columns: NDArray[np.intp]) -> FiniteSum:
    """Return the mean loss where all coefficients but those of some columns are zero.

    An intercept stays, whether its column is named or not.
    """
    return f2.changed(X=f2.rows.columns(columns[columns < f2.n_features]))


def row_products(f2: FiniteSum, scattered: float) -> float:
    """Return the multiplications that a row's part of a Gram matrix is worth.

    One of sparse rows, which write to scattered places, takes as long as ``scattered`` of dense.
    """
    d = f2.n_columns
    if f2.storage != CSR:
        return float(d * d)
    filled = f2.rows.entries_per_row() + f2.intercept
    return float(min(d * d, 1 + scattered * np.mean(filled**2)))


def dense_rows(f2: FiniteSum) -> Array:
    """Return the rows in float64 as a dense matrix, with the intercept's column of ones."""
    return (f2.rows.with_ones() if f2.intercept else f2.rows).dense()


def times_sparse(f2: FiniteSum, P: Any) -> Array:
    """Return the rows, intercept included, times a sparse matrix as a dense one in float64."""
    d = f2.n_features
    used = np.flatnonzero(np.diff(P.indptr[: d + 1]))
    turned = sparse.csr_array(P[used].T)
    out = np.empty((f2.n_terms, P.shape[1]))
    for rows, block in f2.rows.blocks():
        product: Any = (turned @ block.X[:, used].T).T
        out[rows] = product.toarray() if f2.storage == CSR else product
    return out + P[[d]].toarray() if f2.intercept else out
