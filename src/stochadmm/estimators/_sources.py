"""Rows that are not in memory, as estimators take them: read for fits, lazy for predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from .. import cluster
from ..base.capabilities import Has, has_members, offers
from ..base.protocols import Array
from ..data import (
    Block,
    Changed,
    Combined,
    Fitted,
    Rescaled,
    Shard,
    Source,
    as_source,
    check_origins,
    is_dask,
    is_frame,
    is_source,
    open_for,
)
from ..losses import Logistic, Multinomial, Squared
from ..problem import Problem
from ..risk.looks import column_means
from ..risk.passes import Sample
from ..risk.sampling import Coin
from ..risk.streamed import BUDGET, StreamedSum, as_bytes
from ._data import Data, checked_offset, columns_of, given_source, several_weights, units
from ._scores import FAR, best_constant, share_explained

BLOCK = 1 << 24  # bytes of rows that predictions and scores read at a time


def scored_source(model: Any, X: Any, y: Any, weight: Any, offset: Any) -> Source | None:
    """Return other rows of a fitted model in the same way, with the columns of its fit."""
    if is_dask(X):
        X, y, weight, offset = columns_of(X, y, weight, offset)
        X = _of_fit(model, X)
    if isinstance(X, (str, Path)):
        weight = several_weights(weight)
        source: Source | None = open_for(X, _fitted(model, True), y, weight, offset)
    else:
        source = given_source(X, y, weight, offset)
    if source is not None:
        check_columns(model, source.n_columns, source.names)
    return source


def _fitted(model: Any, with_targets: bool) -> Fitted:
    """Return the columns of a model."""
    known = model._names
    return Fitted(model.n_features_in_, None if known is None else tuple(known), with_targets)


def _of_fit(model: Any, X: Any) -> Any:
    """Return the columns of a fit of a Dask frame, which may hold the target too."""
    known = model._names if is_frame(X) else None
    return X[known] if known is not None and set(known) < set(map(str, X.columns)) else X


def is_lazy(X: Any) -> bool:
    """Say whether predictions of these rows are made as they are asked for."""
    return is_dask(X) or is_source(X) or isinstance(X, (str, Path))


@dataclass(frozen=True)
class StreamedData(Data):
    """Rows and encoded targets in a source (``X``), and how columns were scaled."""

    streamed: ClassVar[bool] = True
    y: Any = field(repr=False)
    """None: targets are read together with the rows."""
    memory: int = BUDGET
    """Bytes of memory of our own."""

    @property
    def source(self) -> Source:
        """The rows."""
        found: Source = self.X
        return found

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    @property
    def outputs(self) -> int:
        return StreamedSum(self.loss, self.source).n_outputs or 1

    @property
    def n_rows(self) -> int:
        return self.source.n_rows

    def standardized(self) -> StreamedData:
        means = column_means(self.source)
        kind = np.result_type(self.source.dtype, np.float32)  # integers are read as floats
        center, constant, scale = units(means.mean, means.deviation, self.intercept, kind)
        if not self.intercept or means.is_sparse:
            return replace(self, X=Changed.of(self.source, Rescaled(None, scale)), scale=scale)
        # a constant column is one of zeros, not what rounding has left of it
        change = Rescaled(center, np.where(constant, np.inf, scale))
        return replace(self, X=Changed.of(self.source, change), center=center, scale=scale)

    def repeated(self, copies: Array) -> Source:
        n = self.source.n_columns
        ones, rows = np.ones(len(copies)), np.arange(len(copies))
        chosen = sparse.csr_array((ones, (copies, rows)), shape=(n, len(copies)))
        return Changed(self.source, Combined(chosen), len(copies))

    def within_memory(self, problem: Problem) -> Problem:
        """Return the problem for runs that keep to the memory."""
        f2: Any = problem.f2
        return replace(problem, f2=f2.with_memory(self.memory))

    def spread_of_columns(self) -> float:
        return 0.0

    def log_likelihood(self, total: float) -> float:
        if not isinstance(self.loss, (Logistic, Multinomial, Squared)):
            return float("nan")
        loss: Any = self.loss
        return float(loss.log_likelihood(total, np.empty(0), self.n_rows * self.outputs))


def streamed(model: Any, source: Source, memory: Any) -> StreamedData:
    """Return rows and targets of a fit that are not in memory."""
    if model.refit:
        raise ValueError("refit needs rows in memory; set refit=False")
    remember_columns(model, source)
    data: StreamedData = model._streamed_targets(source)
    return data if memory is None else replace(data, memory=as_bytes(memory))


# ---------------------------------------------------------------- predictions


class Predictions:
    """Predictions of a source, made block by block as they are asked for.

    Iterate over it for arrays of consecutive rows, or write them to a file; ``numpy.asarray``
    holds them all (the predictions, never the rows).
    """

    def __init__(self, source: Source, respond: Callable[[Block], Array]) -> None:
        self.source, self.respond = source, respond

    def __len__(self) -> int:
        return self.source.n_rows

    def __iter__(self) -> Iterator[Array]:
        for shard in self.source.shards:
            for block in shard.blocks(BLOCK):
                yield self.respond(block)
        check_origins(self.source)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        whole = np.concatenate(list(self))
        return whole if dtype is None else whole.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"Predictions of {len(self):,} rows, made block by block as they are asked for"

    def save(self, path: str | Path) -> None:
        """Write the predictions to a ``.npy`` file, block by block."""
        out: Any = None
        place = 0
        for part in self:
            if out is None:
                shape = (len(self), *part.shape[1:])
                out = np.lib.format.open_memmap(path, mode="w+", dtype=part.dtype, shape=shape)
            out[place : place + len(part)] = part
            place += len(part)
        out.flush()


@dataclass(frozen=True)
class _Block:
    """What becomes of the rows of a block; travels to other processes."""

    model: Any
    finish: Callable[[Array], Array]

    def __call__(self, block: Block) -> Array:
        z = self.model._predictions(block.X, None)
        return self.finish(z if block.offset is None else z + block.offset)

    def of_rows(self, rows: Any, offset: Any = None) -> Array:
        """Return the response to a partition of Dask collections, whose offsets are a table."""
        z = self.model._predictions(rows if sparse.issparse(rows) else np.asarray(rows), None)
        if offset is None:
            return self.finish(z)
        added = np.asarray(offset)
        return self.finish(
            z + checked_offset(added[:, 0] if z.ndim == 1 else added, z.shape, None)
        )


def lazily(model: Any, X: Any, offset: Any, finish: Callable[[Array], Array]) -> Any:
    """Return predictions that are made as they are asked for, in the form that X has."""
    work = _Block(model, finish)
    if not is_dask(X):
        given = None if isinstance(X, (str, Path)) else as_source(X, None, None, offset)
        source = open_for(X, _fitted(model, False), offset=offset) if given is None else given
        check_columns(model, source.n_columns, source.names)
        return Predictions(source, work)
    X, offset = columns_of(X, offset)
    X = _of_fit(model, X)
    check_columns(model, X.shape[1], [str(name) for name in X.columns] if is_frame(X) else None)
    rows = X.to_dask_array() if is_frame(X) else X
    nothing = np.zeros((1, model.n_features_in_))
    one = work.of_rows(nothing)
    shape: dict[str, Any] = (
        {"drop_axis": 1} if one.ndim == 1 else {"chunks": (rows.chunks[0], (one.shape[1],))}
    )
    others = []
    if offset is not None:
        others = [_offsets(offset, rows, model._predictions(nothing, None).shape[1:])]
    return rows.map_blocks(work.of_rows, *others, dtype=one.dtype, meta=one[:0], **shape)


def _offsets(offset: Any, rows: Any, outputs: tuple[int, ...]) -> Any:
    """Return offsets as a table cut like the rows: a vector would be laid along the columns."""
    if not is_dask(offset):
        raise TypeError(
            f"X is a Dask collection and offset a {type(offset).__name__}; pass offset as a Dask "
            "collection that is cut like X"
        )
    given = offset if has_members(offset, "chunks") else offset.to_dask_array()
    if given.shape[1:] != outputs:
        each = "row" if not outputs else "row and output"
        raise ValueError(
            f"offset has shape {given.shape}, expected {(rows.shape[0], *outputs)}: one number "
            f"per {each}"
        )
    if given.numblocks[0] != rows.numblocks[0]:
        raise ValueError(
            f"offset has {given.numblocks[0]} partitions and X has {rows.numblocks[0]}; rechunk "
            "them alike"
        )
    return given.rechunk({1: -1}) if outputs else given[:, None]


def check_columns(model: Any, n: int, names: list[str] | None) -> None:
    """Raise where rows have other columns than those of the fit."""
    if n != model.n_features_in_:
        raise ValueError(
            f"X has {n} features, but {type(model).__name__} is expecting "
            f"{model.n_features_in_} features as input"
        )
    known = model._names
    if known is not None and names is not None and known != list(names):
        raise ValueError(
            "the feature names should match those that were passed during fit, in their order; "
            f"got {', '.join(map(str, names[:5]))}"
        )


def remember_columns(model: Any, source: Source) -> None:
    """Set what scikit-learn keeps of the columns of a fit."""
    model.n_features_in_ = source.n_columns
    if source.names is not None:
        model.feature_names_in_ = np.array(source.names, dtype=object)
    elif model._names is not None:
        del model.feature_names_in_


# ---------------------------------------------------------------- scores


@dataclass(frozen=True)
class _Hits:
    """Weights of all rows and of those whose label is predicted."""

    work: _Block

    def __call__(self, shard: Shard) -> Array:
        total = np.zeros(2)
        for block in shard.blocks(BLOCK):
            q = np.ones(len(block)) if block.weight is None else block.weight
            total += q.sum(), q[self.work(block) == block.y].sum()
        return total


def accuracy(model: Any, source: Source, finish: Callable[[Array], Array]) -> float:
    """Return the share of rows whose label is predicted; one read."""
    engine = cluster.current(source)
    total = engine.map_reduce(source.shards, _Hits(_Block(model, finish)), np.add)
    check_origins(source)
    return float(total[1] / total[0])


def mean_loss(model: Any, source: Source, loss: Any) -> float:
    """Return the mean loss of a fitted model over encoded rows; one read."""
    f2 = StreamedSum(loss, source, intercept=True)
    return f2.value(_variable(model, f2.n_outputs))


def explained_by(model: Any, source: Source, loss: Any) -> float:
    """Return D2 of a source: the share of the deviance that a model explains; a few reads."""
    f2 = StreamedSum(loss, source, intercept=True)
    if f2.n_outputs is not None:
        raise ValueError("score of several targets needs rows in memory; score one at a time")
    coin = Coin(f2.seed, f2.rate)
    sums = f2.run(_variable(model, None), opening=True, coin=coin)
    perfect = -sums.floor / sums.weight
    null = _least_by_constant(f2, Sample.joined(sums.sample), perfect)
    return share_explained(sums.value / sums.weight - perfect, null - perfect, perfect, sums.n)


def _least_by_constant(f2: StreamedSum, sample: Sample, perfect: float) -> float:
    """Return the least mean loss of a constant, plus the offsets."""
    zero, unit = np.zeros(f2.shape), np.zeros(f2.shape)
    unit[-1] = 1.0
    if offers(f2.loss, Has.SQUARE):
        loss: Any = f2.loss
        return f2.value(-f2.gradient(zero)[-1] / loss.curvature_bound * unit)
    start = 0.0
    if sample.weight.any():
        start = best_constant(f2.loss, sample.y, sample.weight, sample.offset)
    if f2.rate == 1.0:  # the sample is all rows
        return f2.value(start * unit)
    reach = max(1.0, abs(start))
    # the constant of a sample of any size is off by one of these distances
    near = 0.5 ** np.arange(40)
    tried = start + reach * np.concatenate([-near, [0.0], near[::-1]])
    least, pieces = np.inf, 32  # of the bracket: values cost less than reading rows
    for _ in range(60):  # it shrinks below the digits of a number long before
        values = f2.values_along(zero, unit, tuple(tried))
        place = int(np.argmin(values))
        least = min(least, float(values[place]))
        if place in (0, len(tried) - 1):
            reach *= 2 * pieces
            if reach > FAR:
                break
            tried = start + reach * np.linspace(-1.0, 1.0, pieces + 1)
            continue
        # what convex functions have below their values at three points in a row
        missed = max(values[place - 1], values[place + 1]) - values[place]
        if missed <= 1e-14 * max(least - perfect, abs(least)):
            break
        tried = np.linspace(tried[place - 1], tried[place + 1], pieces + 1)
    return least


def _variable(model: Any, outputs: int | None) -> Array:
    coef = np.asarray(model.coef_, dtype=np.float64)
    intercept = np.asarray(model.intercept_, dtype=np.float64)
    if outputs is None:
        return np.append(np.ravel(coef), np.ravel(intercept)[:1])
    return np.concatenate([coef.T, np.broadcast_to(intercept, (1, outputs))])
