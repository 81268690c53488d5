"""The data term: a loss averaged over the rows of a matrix.

Every product with the data that is not inside a compiled loop happens here. A full pass goes
through the rows in chunks that fit the processor's cache, so that predictions and gradient cost
one read of the matrix, not two. Chunks form parts that threads share; where both begin and end
depends on the data alone, so results do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, eigsh

from ..base.capabilities import Has, offers
from ..base.protocols import Array, CompleteLoss, Loss, Shape
from ..base.validation import as_csr, refuse_masked
from ..linear_algebra import threads
from ..linear_algebra.dense import weighted_gram
from .sampling import Runs

CHUNK_BYTES = 1 << 19
LARGE_BYTES = 1 << 20  # data worth a look before it is read again and again
ROWS_PER_SUM = 1 << 14
PART_BYTES = 1 << 21  # work below which a part is not worth another thread
MOST_PARTS = 16
FEWEST_ROWS = 256  # of a chunk
GRAM_COLUMNS = 128  # up to here one Gram matrix is cheaper than a Lanczos iteration
MOSTLY_ZERO = 0.15
"""Share of numbers other than zero up to which a dense matrix is worked on as a sparse one."""
DENSE = "dense"
CSR = "csr"
ALL = slice(None)


@dataclass(frozen=True)
class Snapshot:
    """What one pass over the data at ``x`` leaves behind."""

    x: Array
    predictions: Array
    slopes: Array
    """Derivative of each row's term in its prediction, sample weight included."""
    value: float
    gradient: Array


class FiniteSum:
    """Mean loss of a linear model, ``f2(x) = sum_i w_i loss(a_i' x, y_i) / sum_i w_i``.

    Parameters
    ----------
    loss : Loss
        The loss of one row.
    X : ndarray or CSR matrix of shape (n, d)
        The rows; float32 or float64, taken without a copy where the layout allows. Change it
        between runs if you must: the next run works on the numbers it then finds in ``self.X``.
    y : array of shape (n,) or (n, C)
        Targets in the domain of the loss.
    sample_weight : array of shape (n,) or (n, C), optional
        Weights >= 0; one per entry for elementwise losses (0 = entry missing).
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
        self.loss = _check_loss(loss)
        self.notes: list[str] = []
        self.X = self._check_matrix(X)
        self.intercept = bool(intercept)
        self.n_terms, self.n_features = cast(tuple[int, int], self.X.shape)
        self._check_numbers()
        self.y = self._check_targets(y)
        outputs = self.loss.n_outputs(self.y) if offers(loss, Has.N_OUTPUTS) else None
        if outputs is None and not offers(loss, Has.N_OUTPUTS) and self.y.ndim == 2:
            outputs = self.y.shape[1]
        self.n_outputs: int | None = outputs
        self.weight = self._check_weight(sample_weight)
        self.offset = self._check_offset(offset)
        self.kept: dict[str, Any] | None = None
        self._seen = ""
        self._given = frozenset(self.__dict__) | {"_given"}

    def __fingerprint__(self) -> Any:
        """Return what the sum is made of (see ``fingerprint``)."""
        data = (self.X, self.y, self.weight, self.offset)
        return ("FiniteSum", self.loss, *data, self.intercept)

    def renew(self, seen: str) -> None:
        """Forget what was computed from rows that have another fingerprint than before."""
        if self._seen not in ("", seen):
            for name in set(self.__dict__) - self._given:
                del self.__dict__[name]
            self.kept = None if self.kept is None else {}
            self._check_numbers()
            self.y = self._check_targets(self.y)
        self._seen = seen

    def remember(self) -> None:
        """Let methods keep what a later run on the same rows can use, a path's next strength.

        By default nothing is kept, so that equal runs do equal work.
        """
        if self.kept is None:
            self.kept = {}

    # ---------------------------------------------------------------- validation, once

    def _check_matrix(self, X: Any) -> Any:
        is_sparse: bool = sparse.issparse(X)
        if is_sparse:
            if X.format != "csr":
                self.notes.append(f"X converted from {X.format} to CSR")
            X, given = as_csr(X, "X"), X
            if given.format == "csr" and X.nnz < given.nnz:
                self.notes.append("duplicate entries of the CSR matrix X were summed in a copy")
        else:
            refuse_masked(X, "X")
            X = np.asarray(X)
        if X.ndim != 2:
            raise ValueError(
                f"X has {X.ndim} dimension(s), expected 2 (rows, columns); reshape it, e.g. "
                "X.reshape(-1, 1) for one column"
            )
        if X.shape[0] == 0 or X.shape[1] == 0:
            raise ValueError(f"X has shape {X.shape}; pass at least one row and one column")
        if X.dtype not in (np.float32, np.float64):
            if not np.issubdtype(X.dtype, np.number) and X.dtype != bool:
                raise ValueError(
                    f"X has dtype {X.dtype}, expected numbers; encode text columns first, e.g. "
                    "with sklearn.preprocessing.OneHotEncoder"
                )
            if np.issubdtype(X.dtype, np.complexfloating):
                raise ValueError("X is complex, expected real numbers; split it into two columns")
            self.notes.append(f"X converted from {X.dtype} to float64")
            X = X.astype(np.float64)
        if not sparse.issparse(X) and not X.flags.c_contiguous:
            self.notes.append("X copied to row-major order")
            X = np.ascontiguousarray(X)
        if not is_sparse and X.nbytes > LARGE_BYTES and _density(X) <= MOSTLY_ZERO:
            from ..kernels.passes import sparse_copy

            X = sparse_copy(X)
            share = 1 - X.nnz / (X.shape[0] * X.shape[1])
            self.notes.append(f"{100 * share:.0f} % of X are zeros: a sparse copy is worked on")
        return X

    def _check_numbers(self) -> None:
        norms = self._row_norms2()
        if not np.isfinite(norms).all():
            bad = int(np.flatnonzero(~np.isfinite(norms))[0])
            raise ValueError(
                f"X contains NaN, infinite or overflowing values (first in row {bad}); remove or "
                "impute them, e.g. with sklearn.impute.SimpleImputer, and rescale huge columns"
            )

    def _row_norms2(self) -> Array:
        if self.storage == CSR:
            norms = np.add.reduceat(
                np.append(self.X.data**2, 0.0), np.minimum(self.X.indptr[:-1], self.X.data.size)
            )
            norms[np.diff(self.X.indptr) == 0] = 0.0
        else:
            norms = np.einsum("ij,ij->i", self.X, self.X)
        return norms

    def _check_targets(self, y: Any) -> Array:
        refuse_masked(y, "y")
        y = np.asarray(y)
        if y.ndim not in (1, 2) or y.shape[0] != self.n_terms:
            raise ValueError(
                f"y has shape {y.shape}, expected ({self.n_terms},) or ({self.n_terms}, C) to "
                "match the rows of X; pass one target per row"
            )
        if offers(self.loss, Has.CHECK_TARGETS):
            y = self.loss.check_targets(y)
        elif not np.isfinite(y).all():
            raise ValueError("y contains NaN or infinite values; remove these rows")
        if np.issubdtype(y.dtype, np.integer) and not offers(self.loss, Has.CHECK_TARGETS):
            y = y.astype(self.dtype)
        if np.issubdtype(y.dtype, np.floating):
            y = y.astype(self.dtype, copy=False)
        return cast(Array, y)

    def _check_weight(self, weight: Any) -> Array | None:
        if weight is None:
            return None
        refuse_masked(weight, "sample_weight")
        weight = np.asarray(weight, dtype=np.float64)
        allowed: set[Shape] = {(self.n_terms,)}
        if self.n_outputs is not None and self.y.ndim == 2:
            allowed.add((self.n_terms, self.n_outputs))
        if weight.shape not in allowed:
            raise ValueError(
                f"sample_weight has shape {weight.shape}, expected ({self.n_terms},); pass one "
                "weight per row of X"
            )
        if not np.isfinite(weight).all() or (weight < 0).any():
            raise ValueError(
                "sample_weight contains negative, NaN or infinite values; use weights >= 0 (0 "
                "drops a row)"
            )
        rows = weight if weight.ndim == 1 else weight.max(axis=1)
        total = rows.sum()
        if total <= 0:
            raise ValueError(
                "sample_weight is zero everywhere; give at least one row a weight > 0"
            )
        return np.ascontiguousarray(weight * (self.n_terms / total), dtype=self.dtype)

    def _check_offset(self, offset: Any) -> Array | None:
        if offset is None:
            return None
        refuse_masked(offset, "offset")
        offset = np.ascontiguousarray(offset, dtype=self.dtype)
        if offset.shape != self._predictions_shape(self.n_terms) or not np.isfinite(offset).all():
            raise ValueError(
                f"offset has shape {offset.shape}, expected "
                f"{self._predictions_shape(self.n_terms)} with finite values; pass one "
                "number per prediction"
            )
        return cast(Array, offset)

    # ---------------------------------------------------------------- facts

    @property
    def storage(self) -> str:
        """Either "dense" or "csr"."""
        return CSR if sparse.issparse(self.X) else DENSE

    @property
    def dtype(self) -> np.dtype[Any]:
        """float32 or float64, that of X."""
        return cast("np.dtype[Any]", self.X.dtype)

    @property
    def n_columns(self) -> int:
        """Rows of the variable: the columns of X, and one for the intercept."""
        return self.n_features + self.intercept

    @property
    def shape(self) -> Shape:
        """Shape of the variable."""
        return (self.n_columns,) if self.n_outputs is None else (self.n_columns, self.n_outputs)

    @property
    def n_bytes(self) -> int:
        """Bytes of the data matrix."""
        if self.storage == CSR:
            return int(self.X.data.nbytes + self.X.indices.nbytes + self.X.indptr.nbytes)
        return int(self.X.nbytes)

    @property
    def n_entries(self) -> int:
        """Numbers in the data matrix, zeros of sparse ones left out."""
        return int(self.X.nnz if self.storage == CSR else self.X.size)

    @property
    def row_weight(self) -> Array | None:
        """Sample weight of each row, the largest where entries have their own."""
        if self.weight is None or self.weight.ndim == 1:
            return self.weight
        return cast(Array, self.weight.max(axis=1))

    def _predictions_shape(self, n: int) -> Shape:
        return (n,) if self.n_outputs is None else (n, self.n_outputs)

    @cached_property
    def row_norms2(self) -> Array:
        """Squared norm of each row of X."""
        return self._row_norms2()

    @cached_property
    def row_curvatures(self) -> Array:
        """Constant of each term without the loss's bound: q_i (|a_i|^2 + intercept)."""
        norms = self.row_norms2 + self.intercept
        return norms if self.row_weight is None else norms * self.row_weight

    @cached_property
    def lipschitz_max(self) -> float:
        """Lmax, the largest constant of a single term."""
        return float(self.loss.curvature_bound * self.row_curvatures.max())

    @cached_property
    def lipschitz_mean(self) -> float:
        """Lf, a bound on the constant of the mean, within about one percent."""
        d = self.n_columns
        if self.n_terms == 1 or not self.row_curvatures.any():
            return self.lipschitz_max
        if d <= GRAM_COLUMNS:
            top = float(np.linalg.eigvalsh(self.gram())[-1]) * (1 + 1e-9)
        else:
            start = np.ones(d, dtype=np.float64)
            product = LinearOperator((d, d), matvec=self._gram_product, dtype=np.float64)
            top = 1.01 * float(
                eigsh(product, k=1, v0=start, tol=3e-3, return_eigenvectors=False)[0]
            )
        mean = float(self.row_curvatures.astype(np.float64).mean())
        return float(self.loss.curvature_bound * min(top, mean))

    def run_lipschitz(self, runs: Runs) -> float:
        """Return a bound on the largest constant of the mean over one run of rows.

        By the largest absolute row sum of the run's Gram matrix, which is at least its norm.
        """
        if runs.n_runs == runs.n_rows:
            return self.lipschitz_max
        largest = 0.0
        edges = np.arange(runs.n_runs + 1) * runs.n_rows // runs.n_runs
        root = None if self.row_weight is None else np.sqrt(self.row_weight)
        # sums over the runs of a chunk are dense for dense rows only
        width = 8 * self.n_features if self.storage == DENSE else 1 + self.X.nnz // self.n_terms
        per_chunk = max(1, CHUNK_BYTES // (width * runs.length))
        for first in range(0, runs.n_runs, per_chunk):
            last = min(first + per_chunk, runs.n_runs)
            rows = slice(edges[first], edges[last])
            block = self.X[rows]
            if root is not None:
                block = (
                    sparse.diags_array(root[rows]) @ block
                    if self.storage == CSR
                    else (block * root[rows, None])
                )
            sizes = np.diff(edges[first : last + 1])
            which = np.repeat(np.arange(last - first), sizes)
            member = sparse.csr_array(
                (np.ones(which.size, dtype=self.dtype), (which, np.arange(which.size)))
            )
            # |G|_inf <= max_i sum_k |a_i|.|a_k|, with equality for rows of one sign
            sums = member @ abs(block)
            if self.storage == CSR:
                near = np.asarray((abs(block).multiply(sums[which])).sum(axis=1)).ravel()
            else:
                near = np.einsum("ij,ij->i", abs(block), sums[which])
            if self.intercept:
                ones = np.ones(which.size) if root is None else root[rows]
                near = near + ones * (member @ ones)[which]
            largest = max(largest, float((near / sizes[which]).max()))
        return float(min(self.loss.curvature_bound * largest, self.lipschitz_max))

    # ---------------------------------------------------------------- products with the data

    def chunks(self, itemsize: int = 8, within: slice = ALL) -> Iterator[slice]:
        """Yield consecutive row ranges, of all rows or a part, whose part of X fits the cache."""
        if self.storage == CSR:
            mean_row = max(1, self.X.nnz // self.n_terms) * 12
        else:
            mean_row = self.n_features * itemsize
        start, stop, _ = within.indices(self.n_terms)
        yield from _cut(start, stop, max(FEWEST_ROWS, CHUNK_BYTES // mean_row))

    @cached_property
    def _parts(self) -> list[slice]:
        """Row ranges that threads share, one where the data is small."""
        work = self.n_bytes * (self.n_outputs or 1)
        parts = min(work // PART_BYTES, self.n_terms // FEWEST_ROWS, MOST_PARTS)
        return threads.ranges(self.n_terms, parts)

    @property
    def n_threads(self) -> int:
        """How many threads a pass over all rows uses now."""
        return 1 if len(self._parts) == 1 else min(threads.count(), len(self._parts))

    def _rows(self, rows: Any) -> Any:
        if self.storage == CSR and isinstance(rows, slice):
            start, stop, _ = rows.indices(self.n_terms)
            return _csr_rows(self.X, start, stop)
        return self.X[rows]

    def predict(self, x: Array, rows: Any = ALL) -> Array:
        """Return the predictions of some rows, intercept and offset included."""
        if not self._shared(rows) or not x[: self.n_features].any():
            return self._predict(self._rows(rows), x, rows)
        z = np.empty((self.n_terms, *x.shape[1:]), dtype=np.result_type(self.dtype, x.dtype))

        def part(rows: slice) -> None:
            z[rows] = self._predict(self._rows(rows), x, rows)

        threads.run(part, self._parts)
        return z

    def _shared(self, rows: Any) -> bool:
        """Say whether these are all rows, and enough of them for threads."""
        return isinstance(rows, slice) and rows == ALL and len(self._parts) > 1

    def _predict(self, block: Any, x: Array, rows: Any) -> Array:
        slopes = x[: self.n_features]
        if slopes.any():
            z = block @ slopes
        else:  # no need to read the rows
            z = np.zeros((block.shape[0], *x.shape[1:]), dtype=self.dtype)
        if self.intercept:
            z += x[-1]
        if self.offset is not None:
            z += self.offset[rows]
        return cast(Array, z)

    def slopes(self, z: Array, rows: Any = ALL) -> Array:
        """Return the derivative of the terms of some rows in their predictions."""
        u = self.loss.slope(z, self.y[rows])
        return self.weighted(u, rows)

    def weighted(self, u: Array, rows: Any = ALL) -> Array:
        """Return rows of ``u`` times their sample weights."""
        if self.weight is None:
            return u
        q = self.weight[rows]
        return cast(Array, u * (q[:, None] if u.ndim > q.ndim else q))

    def pull_back(self, u: Array, rows: Any = ALL) -> Array:
        """Return ``sum_i u_i a_i`` over some rows (with the intercept's column of ones)."""
        if not self._shared(rows):
            return self._pull_back(self._rows(rows), u)

        def part(rows: slice) -> Array:
            return self._pull_back(self._rows(rows), u[rows]).astype(np.float64, copy=False)

        total = threads.add_up(part, self._parts)
        return total.astype(np.result_type(self.dtype, u.dtype), copy=False)

    def _pull_back(self, block: Any, u: Array) -> Array:
        g = (_transposed(block) if self.storage == CSR else block.T) @ u
        if self.intercept:
            g = np.concatenate([g, u.sum(axis=0, keepdims=True)])
        return cast(Array, g)

    def value_at(self, z: Array) -> float:
        """Return the mean loss of given predictions."""
        return self._add_numbers(lambda rows: self._loss_sum(z[rows], rows)) / self.n_terms

    def _add_numbers(self, part: Callable[[slice], float]) -> float:
        numbers: list[float] = []
        threads.run(part, self._parts, numbers.append)
        return sum(numbers)

    def _loss_sum(self, z: Array, rows: Any) -> float:
        """Return the weighted sum of the losses of some rows, from the loss's weighted mean."""
        y = self.y[rows]
        if self.weight is None:
            return self.loss.value(z, y) * len(y)
        q = self.weight[rows]
        total = float(q.sum(dtype=np.float64)) / (1 if q.ndim == 1 else q.shape[1])
        return self.loss.value(z, y, q) * total if total > 0 else 0.0

    def value(self, x: Array) -> float:
        """Return the mean loss at x."""

        def part(rows: slice) -> float:
            return self._loss_sum(self._predict(self._rows(rows), x, rows), rows)

        return self._add_numbers(part) / self.n_terms

    def gradient(self, x: Array) -> Array:
        """Return the gradient of the mean loss at x."""
        return self.snapshot(x).gradient

    def snapshot(self, x: Array) -> Snapshot:
        """Return predictions, slopes, value and gradient at x: one pass over the data."""
        x = np.asarray(x, dtype=self.dtype)
        z = np.empty(self._predictions_shape(self.n_terms), dtype=self.dtype)
        u = np.empty_like(z)
        values: dict[int, float] = {}

        def part(rows: slice) -> Array:
            total, value = np.zeros(self.shape, dtype=np.float64), 0.0
            for chunk in self._pass_chunks(rows):
                loss, gradient = self._pass(chunk, x, z, u)
                value += loss
                total += gradient
            values[rows.start] = value
            return total

        total = threads.add_up(part, self._parts)
        value = sum(values[rows.start] for rows in self._parts) / self.n_terms
        gradient = (total / self.n_terms).astype(self.dtype, copy=False)
        return Snapshot(x.copy(), z, u, value, gradient)

    def _pass_chunks(self, part: slice) -> Iterator[slice]:
        if self.compiled:  # its own steps fit the cache
            return _cut(part.start, part.stop, ROWS_PER_SUM)
        return self.chunks(self.dtype.itemsize, part)

    def _pass(self, rows: slice, x: Array, z: Array, u: Array) -> tuple[float, Array]:
        """Write predictions and slopes of a chunk; return its sums of losses and gradients."""
        if self.compiled:
            from ..kernels.passes import full_pass

            gradient = np.zeros(self.shape, dtype=self.dtype)
            return full_pass(self.view, rows.start, rows.stop, x, z, u, gradient), gradient
        block = self._rows(rows)
        z[rows] = self._predict(block, x, rows)
        u[rows] = self.slopes(z[rows], rows)
        return self._loss_sum(z[rows], rows), self._pull_back(block, u[rows])

    @property
    def compiled(self) -> bool:
        """Whether passes are compiled: single output, a known loss, an extension."""
        from ..kernels.extension import available

        plain = self.weight is None or self.weight.ndim == 1
        known = offers(self.loss, Has.KERNEL)
        return self.n_outputs is None and plain and known and available()

    @cached_property
    def view(self) -> Any:
        """The rows as compiled loops see them."""
        from .views import data_view

        return data_view(self)

    def gradient_change(self, rows: NDArray[np.intp], x: Array, anchor: Snapshot) -> Array:
        """Return the mean over ``rows`` of the gradients at x minus those at the snapshot."""
        block = self.X[rows]
        change = self.slopes(self._predict(block, x, rows), rows) - anchor.slopes[rows]
        return self._pull_back(block, change) / len(rows)

    def gradient_rows(self, rows: NDArray[np.intp], x: Array) -> Array:
        """Return the mean over ``rows`` of the terms' gradients at x."""
        block = self.X[rows]
        return self._pull_back(block, self.slopes(self._predict(block, x, rows), rows)) / len(rows)

    def gram(self, curvature: Array | None = None, rows: Any = None) -> Array:
        """Return ``mean_i c_i q_i a_i a_i'`` in float64 over all or some rows, with intercept.

        ``curvature`` (c_i, one number per row used) is 1 when absent.
        """
        n, weight = self.n_terms if rows is None else len(rows), self.row_weight
        numbers = np.ones(n) if curvature is None else curvature
        if weight is not None:
            numbers = numbers * (weight if rows is None else weight[rows])
        return weighted_gram(self.X, numbers, self.intercept, rows=rows) / n

    def _gram_product(self, v: Array) -> Array:
        v = np.asarray(v, dtype=self.dtype).ravel()
        z, weight = np.empty(self.n_terms, dtype=self.dtype), self.row_weight

        def part(part: slice) -> Array:
            total = np.zeros(self.n_columns)
            for rows in self._pass_chunks(part):
                total += self._gram_pass(rows, v, weight, z)
            return total

        return threads.add_up(part, self._parts) / self.n_terms

    def _gram_pass(self, rows: slice, v: Array, weight: Array | None, z: Array) -> Array:
        if self.compiled:
            from ..kernels.passes import gram_pass

            out = np.zeros(self.n_columns, dtype=self.dtype)
            gram_pass(self.view, rows.start, rows.stop, v, weight is not None, z, out)
            return out
        block = self._rows(rows)
        product = block @ v[: self.n_features] + (v[-1] if self.intercept else 0)
        return self._pull_back(block, product if weight is None else product * weight[rows])


def _cut(start: int, stop: int, length: int) -> Iterator[slice]:
    for first in range(start, stop, length):
        yield slice(first, min(first + length, stop))


def _density(X: Array) -> float:
    """Return the share of numbers other than zero in some of the rows."""
    rows = X[:: max(1, len(X) // 500)]
    return float(np.count_nonzero(rows)) / rows.size


def _csr_rows(X: Any, start: int, stop: int) -> Any:
    """Return a view of consecutive rows of a CSR matrix: no entry is copied."""
    if start == 0 and stop == X.shape[0]:
        return X
    first, last = X.indptr[start], X.indptr[stop]
    view = sparse.csr_array((stop - start, X.shape[1]), dtype=X.dtype)
    view.data = X.data[first:last]
    view.indices = X.indices[first:last]
    view.indptr = X.indptr[start : stop + 1] - first
    return view


def _transposed(X: Any) -> Any:
    """Return a view of the transpose of a CSR matrix; SciPy's copies the entries of a view."""
    view = sparse.csc_array(X.shape[::-1], dtype=X.dtype)
    view.data, view.indices, view.indptr = X.data, X.indices, X.indptr
    return view


def _check_loss(loss: Any) -> CompleteLoss:
    for member in ("value", "slope", "curvature_bound"):
        if not hasattr(loss, member):
            raise TypeError(
                f"loss {type(loss).__name__} has no `{member}`; a loss offers value(z, y, "
                "weight), slope(z, y) and curvature_bound"
            )
    return cast(CompleteLoss, loss)
