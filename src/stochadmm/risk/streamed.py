"""The mean loss over rows that are read again for every pass: nothing is kept per row.

Before the first step a run reads the rows once. Second-order steps ask for the facts of that
pass. Stochastic methods ask for constants and the gradient at zero as well, and for rows in an
order that windows can be read from: that is the same read with more work on every block.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

import numpy as np

from .. import cluster
from ..base.capabilities import Has, has_members, offers
from ..base.protocols import Array, Loss
from ..base.workspace import Workspace
from ..data import Block, Scratch, Source, bytes_of, n_outputs, scratch_for, shuffle_for
from .evaluation import Evaluation
from .finite_sum import FiniteSum
from .lines import LineFromSource
from .mean_loss import MeanLoss
from .metrics import lifted, worst_energy
from .passes import Added, Sample, Sums, Work, add, over_source
from .sampling import Coin
from .windows import WindowRuns

T = TypeVar("T")

BUDGET = 1 << 28
"""Bytes of memory of our own by default."""
LEAST = 1 << 22
"""The same at least."""
UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
NEEDS = ("values", "derivative", "curvature", "conjugate", "dual_step_limit", "curvature_bound")
"""What a loss must offer to be streamed."""
SEVERAL = ("curvature_operator", "curvature_parts", "dual_margin", "largest_conjugate")
"""And beyond that with several outputs."""


def as_bytes(memory: Any) -> int:
    """Return a number of bytes from a number or a text such as ``"2GB"``.

    Examples
    --------
    >>> from stochadmm.risk.streamed import as_bytes
    >>> as_bytes("2GB"), as_bytes("512 MiB")
    (2000000000, 536870912)
    """
    found = re.fullmatch(r"\s*([0-9.]+(?:[eE][0-9]+)?)\s*([a-zA-Z]*)\s*", str(memory))
    unit = None if found is None else UNITS.get(found[2].upper())
    if found is None or unit is None:
        raise ValueError(f"memory is {memory!r}, expected bytes or a text such as '2GB'")
    amount = int(float(found[1]) * unit)
    if amount < LEAST:
        raise ValueError(f"memory is {memory!r}, expected at least {LEAST >> 20} MiB")
    return amount


def streams(loss: Any) -> bool:
    """Say whether a loss offers what passes over a source need."""
    return has_members(loss, *NEEDS)


@dataclass(frozen=True)
class Facts:
    """What the first pass finds out about the rows."""

    n: int
    weight: float
    """Sum of the weights."""
    energy: Array
    """Mean square of each column."""
    loss_at_zero: float
    floor: float
    """Mean conjugate at zero: minus the mean of the least losses."""
    sample: Sample
    """A uniform sample."""
    copy: Source | None = None
    """The same rows in files that read faster, made on the way."""


class StreamedSum(MeanLoss):
    """Mean loss of a linear model over a source of rows, ``f2(x) = sum_i w_i loss_i / sum_i w_i``.

    Sums are in float64 whatever the rows are stored in, and a pass is a sum over the source's
    shards: nothing is kept per row. The first pass also finds the sizes of the columns and a
    sample of rows.

    Parameters
    ----------
    loss : Loss
        With ``values``, ``curvature`` and ``conjugate``; one of classes knows how many there are.
    source : Source
        Rows, targets, weights and offsets.
    intercept : bool, default=False
        One more, last entry of ``x`` that is added to every prediction.
    memory : int, default=2**28
        Bytes of memory of our own, about.
    seed : int, default=0
        Of the sample.
    """

    in_memory: ClassVar[bool] = False
    opening_passes: ClassVar[float] = 1.0
    keeps_rows: ClassVar[bool] = False
    dtype = np.dtype(np.float64)

    def __init__(
        self,
        loss: Loss,
        source: Source,
        *,
        intercept: bool = False,
        memory: int = BUDGET,
        seed: int = 0,
    ) -> None:
        if not streams(loss):
            raise TypeError(
                f"{type(loss).__name__} cannot be streamed: it lacks one of {', '.join(NEEDS)}; "
                "use another loss, or rows in memory"
            )
        self.n_outputs = _outputs(loss, source)
        if self.n_outputs is not None and not has_members(loss, *SEVERAL):
            raise TypeError(
                f"{type(loss).__name__} of {self.n_outputs} outputs cannot be streamed: it lacks "
                f"one of {', '.join(SEVERAL)}; use one target at a time, or rows in memory"
            )
        self.loss, self.source, self.intercept = loss, source, bool(intercept)
        self.n_terms, self.n_features = source.n_rows, source.n_columns
        self.memory, self.seed = int(memory), int(seed)
        self.notes = [
            f"{source.n_rows:,} rows are read from their source in every pass, "
            f"{len(source.shards)} shards"
        ]

    def __fingerprint__(self) -> tuple[Any, ...]:
        return self.loss, self.source.fingerprint, self.intercept, self.memory, self.seed

    def changed(self, **parts: Any) -> StreamedSum:
        """Return the same term with another loss, source, or budget of memory."""
        same = {"intercept": self.intercept, "memory": self.memory, "seed": self.seed}
        return StreamedSum(**{"loss": self.loss, "source": self.source, **same, **parts})

    def with_loss(self, loss: Any) -> StreamedSum:
        return self.changed(loss=loss)

    def with_memory(self, memory: int) -> StreamedSum:
        """Return the same term with another budget."""
        return self.changed(memory=memory)

    def of_sample(self, rows: Sample, weight: Array) -> FiniteSum:
        """Return the mean loss of the rows of a sample in float64, with weights of their own."""
        return FiniteSum(
            self.loss,
            rows.rows.as_type(np.float64),
            rows.y,
            weight,
            intercept=self.intercept,
            offset=rows.offset,
        )

    # ---------------------------------------------------------------- facts

    @property
    def read_bytes(self) -> int:
        """Bytes of one read of all rows, as numbers in memory."""
        return bytes_of(self.source)

    @property
    def block_bytes(self) -> int:
        """Rows that are read at a time: a sixteenth of the memory, at most 16 MB."""
        return int(np.clip(self.memory // 16, 1 << 16, 1 << 24))

    @property
    def sample_rows(self) -> int:
        """Rows of a sample: an eighth of the memory in float64."""
        return max(1000, self.memory // (8 * 8 * max(1, self.n_columns, self.n_outputs or 1)))

    @property
    def rate(self) -> float:
        """Expected share of the rows in a sample."""
        return min(1.0, self.sample_rows / self.n_terms)

    @property
    def lipschitz_mean(self) -> float:
        """A bound on the constant of the mean, by the trace: a pass. `opening_of` has more."""
        return self.cheap_constant(Workspace())

    @property
    def lipschitz_max(self) -> float:
        """Not known: `opening_of` looks at single rows."""
        return np.inf

    def cheap_constant(self, workspace: Workspace) -> float:
        trace = float(facts_of(self, workspace).energy.sum()) + self.intercept
        return float(self.loss.curvature_bound) * trace

    def opened(self, workspace: Workspace) -> OpenedSum:
        return workspace.rows.once(OpenedSum, self, workspace.rows)

    def representative(self, workspace: Workspace) -> FiniteSum | None:
        sample = facts_of(self, workspace).sample
        return self.of_sample(sample, sample.weight) if sample.weight.any() else None

    def has_offset(self, workspace: Workspace) -> bool:
        return facts_of(self, workspace).sample.offset is not None

    # ---------------------------------------------------------------- passes

    def over_blocks(
        self,
        of_block: Callable[[Block], T],
        join: Callable[[T, T], T] = add,  # type: ignore[assignment]
    ) -> T:
        """Return what a pure function finds in all blocks, joined in their order: one read."""
        return over_source(self.source, of_block, join, self.block_bytes)

    def work(self, x: Array, **more: Any) -> Work:
        """Return what a pass at x does with every block."""
        return Work(self.loss, np.asarray(x, np.float64), self.intercept, **more)

    def first_work(self, scratch: Scratch | None) -> Work:
        """Return what the first pass does, which may leave a copy of the rows."""
        coin = Coin(self.seed, self.rate)
        return self.work(np.zeros(self.shape), coin=coin, opening=True, scratch=scratch)

    def run(self, x: Array, **more: Any) -> Sums:
        """Return the sums of one pass at x on the engine in use."""
        return self.over_blocks(self.work(x, **more))

    def value(self, x: Array) -> float:
        """Return the mean loss at x."""
        return self.evaluate(x).value

    def gradient(self, x: Array) -> Array:
        """Return the gradient of the mean loss at x."""
        return self.evaluate(x).gradient

    def evaluate(self, x: Array, coin: Coin | None = None) -> Evaluation:
        """Return value and gradient at x, and the sums behind them; with ``coin`` a sample."""
        sums = self.run(x, coin=coin)
        value, gradient = sums.value / sums.weight, sums.gradient / sums.weight
        sample = Sample.joined(sums.sample) if sums.sample else None
        sums = replace(sums, sample=())
        return Evaluation(np.array(x), value, gradient, n_passes=1.0, sums=sums, sample=sample)

    def evaluate_exactly(self, x: Array, known: Evaluation | None = None) -> Evaluation:
        return self.evaluate(x)

    def along(self, at: Evaluation, x: Array) -> LineFromSource:
        raise TypeError("lines need a first read of the rows; call opened(workspace)")

    def values_along(self, x: Array, step: Array, lengths: tuple[float, ...]) -> Array:
        """Return the mean losses at ``x + t step`` for several t: one read."""
        sums = self.run(x, line=(step, lengths))
        assert sums.along is not None
        return sums.along / sums.weight

    def anchor(self, x: Array) -> Evaluation:
        """Return the evaluation that differences of gradients start from; nothing per row."""
        return replace(self.evaluate(x), sums=None)

    def gradient_change(self, rows: Any, x: Array, anchor: Any) -> Array:
        """Refuse: rows are drawn from windows (`windows`), not one by one."""
        raise TypeError(
            "this method draws single rows, which a source of files does not serve; use 'auto', "
            "'acc-sadmm' or 'svrg-admm'"
        )


class OpenedSum(StreamedSum):
    """A streamed sum over the fastest files with its rows, and what the first pass has found."""

    def __init__(self, f2: StreamedSum, rows: Workspace) -> None:
        self.facts = facts_of(f2, rows)
        super().__init__(
            f2.loss,
            f2.source if self.facts.copy is None else self.facts.copy,
            intercept=f2.intercept,
            memory=f2.memory,
            seed=f2.seed,
        )

    def opened(self, workspace: Workspace) -> OpenedSum:
        return self

    def value(self, x: Array) -> float:
        return super().value(x) if np.any(x) else self.facts.loss_at_zero

    def evaluate_exactly(self, x: Array, known: Evaluation | None = None) -> Evaluation:
        """Read all rows, and draw a sample that sees rare columns.

        The sample of the opening pass is uniform; column sizes are known only after it.
        """
        at = self.evaluate(x, Coin(self.seed + 1, self.rate, self.facts.energy))
        return at if at.sample is not None else replace(at, sample=self.facts.sample)

    def evaluate_with(self, sample: Sample | None, x: Array) -> Evaluation:
        """Read all rows, and keep a sample that is at hand."""
        return replace(self.evaluate(x), sample=sample)

    def along(self, at: Evaluation, x: Array) -> LineFromSource:
        if np.array_equal(at.x, x):  # no step: nothing is read
            return LineFromSource(self, at, at, 0.0)
        return LineFromSource(self, at, self.evaluate_with(at.sample, x))


def _outputs(loss: Any, source: Source) -> int | None:
    """Return how many predictions a row has, None for one number."""
    if not offers(loss, Has.BY_CLASS):
        return n_outputs(source)
    if n_outputs(source) is not None:
        raise ValueError(
            f"{type(loss).__name__} takes one label per row, the rows have {n_outputs(source)}"
        )
    if loss.n_classes is None:
        raise ValueError(
            f"{type(loss).__name__} of rows that are not in memory needs the number of classes; "
            f"use {type(loss).__name__}(n_classes=...)"
        )
    return int(loss.n_classes)


def first_pass(f2: StreamedSum) -> Facts:
    """Return what the first pass over the rows finds; a copy of slow ones is made on the way."""
    scratch = copy_of(f2.source)
    sums = f2.over_blocks(f2.first_work(scratch))
    return facts_from(sums, scratch)


def copy_of(source: Source) -> Scratch | None:
    """Return where a copy of slow rows is written, None where none is made."""
    return scratch_for(source) if cluster.shares_disk(source) else None


def facts_from(sums: Sums, scratch: Scratch | None) -> Facts:
    """Return the facts behind the sums of a first pass."""
    if not sums.weight > 0:
        raise ValueError("the weights are zero everywhere; give a row a weight > 0")
    assert sums.energy is not None
    return Facts(
        sums.n,
        sums.weight,
        sums.energy / sums.n,
        sums.value / sums.weight,
        sums.floor / sums.weight,
        Sample.joined(sums.sample),
        None if scratch is None else scratch.files,
    )


def facts_of(f2: StreamedSum, workspace: Workspace) -> Facts:
    """Return what the first pass finds, found once per run, be it the one for more than that."""
    rows = workspace.rows
    if isinstance(f2, OpenedSum):
        return f2.facts
    if rows.holds(_opening, f2, rows) and not rows.holds(first_pass, f2):
        return opening_of(f2, rows).facts
    return rows.once(first_pass, f2)


# ---------------------------------------------------------------- for stochastic methods


GRAM_COLUMNS = 1024
"""Columns up to which the Gram matrix of all rows is made; beyond, its trace bounds its norm."""


@dataclass(frozen=True)
class RowSums:
    """Sums and largest values over rows; weights as given, intercept included."""

    weight: float
    gram: Array
    """The Gram matrix, or its diagonal where columns are many."""
    longest: float
    """Largest weighted squared norm of a row."""
    peaks: Array
    """Largest weighted square of each column."""

    def add(self, other: RowSums) -> RowSums:
        """Return the sums of two ranges of rows, this one first."""
        return RowSums(
            self.weight + other.weight,
            self.gram + other.gram,
            max(self.longest, other.longest),
            np.maximum(self.peaks, other.peaks),
        )


@dataclass(frozen=True)
class RowSumsWork:
    """What is done with every block."""

    intercept: bool
    square: bool
    """Whether all of the Gram matrix is made."""
    scratch: Scratch | None = None
    """Where the rows are written on the way."""

    def __call__(self, block: Block) -> RowSums:
        """Return the sums of one block."""
        if self.scratch is not None:
            self.scratch.write(block)
        q, rows = block.weights, block.rows.as_type(np.float64)
        gram = (
            rows.sandwich(q, ones=self.intercept)
            if self.square
            else np.append(rows.column_sums_of_squares(q), [q.sum()] * self.intercept)
        )
        norms = rows.row_sums_of_squares(np.ones(rows.shape[1])) + self.intercept
        longest = float(np.max(q * norms))
        edges = np.arange(len(q) + 1)
        peaks = rows.largest_sums_of_squares(q, edges)
        peaks = np.append(peaks, [q.max()] * self.intercept)
        return RowSums(float(q.sum()), gram, longest, peaks)


@dataclass(frozen=True)
class Constants:
    """Lipschitz constants of the mean and of its largest term; energies of the columns."""

    weight: float
    """Mean weight of a row."""
    mean: float
    largest: float
    energy: Array
    peaks: Array
    shuffled: Source | None = None
    """The same rows in another order, made on the way, for windows."""


def constants_from(f2: StreamedSum, sums: RowSums, scratch: Scratch | None) -> Constants:
    """Return the constants behind the sums of a pass."""
    bound, mean = float(f2.loss.curvature_bound), sums.weight / f2.n_terms
    gram, square = sums.gram / sums.weight, sums.gram.ndim == 2
    energy = np.diagonal(gram).copy() if square else gram
    top = float(np.linalg.eigvalsh(gram)[-1]) if square else np.inf
    return Constants(
        mean,
        bound * min(top * (1 + 1e-9), float(energy.sum())),
        bound * sums.longest / mean,
        energy,
        sums.peaks / mean,
        None if scratch is None else scratch.files,
    )


def streamed_metric(
    f2: StreamedSum, sample: Sample, about: Constants, batch_size: float, at: Array | None = None
) -> Array:
    """Return the matrix of the x2 step for batches of single rows.

    It is the bound on the Hessian of a sample, or that Hessian at a point.
    """
    few = f2.of_sample(sample, sample.weight / sample.probability)
    bound, loss = float(f2.loss.curvature_bound), few.loss
    curvature = np.full(few.n_terms, bound)
    if at is not None and offers(loss, Has.CURVATURE):
        curvature = np.asarray(loss.curvature(few.predict(at), few.y), np.float64)
    worst = worst_energy(about.energy, about.peaks, max(1, round(batch_size)))
    return lifted(few.gram(curvature), bound * worst)


@dataclass(frozen=True)
class OpeningSums(Added):
    """What that read leaves behind."""

    first: Sums
    rows: RowSums
    at_zero: Sums


@dataclass(frozen=True)
class OpeningWork:
    """What is done with every block."""

    first: Work
    rows: RowSumsWork
    at_zero: Work

    def __call__(self, block: Block) -> OpeningSums:
        """Return the sums of one block."""
        first = self.first(block)  # which checks the numbers
        return OpeningSums(first, self.rows(block), self.at_zero(block))


@dataclass(frozen=True)
class Opening:
    """What stochastic methods know of all rows before they begin."""

    facts: Facts
    constants: Constants
    at_zero: Evaluation
    """Value and gradient at zero."""


def opening(f2: StreamedSum) -> Opening:
    """Return what stochastic methods ask of a streamed sum first: one read.

    Rows that have to be decoded are copied on the way; those that several windows hold, in another
    order too, if the disk has room: rows that were neighbours come to different windows. Such a
    copy is of this machine, whatever engine is in use, because windows are read here.
    """
    lanes, zero = WindowRuns.of(f2, 1).lanes(f2.seed), np.zeros(f2.shape)
    copy = copy_of(f2.source)
    shuffled = shuffle_for(f2.source, lanes, copy) if lanes.count > 1 else None
    rows = RowSumsWork(f2.intercept, f2.n_columns <= GRAM_COLUMNS, shuffled)
    work = OpeningWork(f2.first_work(copy), rows, f2.work(zero))
    here = shuffled is None or cluster.shares_disk(f2.source)
    with nullcontext() if here else cluster.use(cluster.Local()):
        sums = f2.over_blocks(work)
    at = sums.at_zero
    return Opening(
        facts_from(sums.first, copy),
        constants_from(f2, sums.rows, shuffled),
        Evaluation(zero, at.value / at.weight, at.gradient / at.weight),
    )


def opening_of(f2: StreamedSum, workspace: Workspace) -> Opening:
    """Return what stochastic methods ask first, found once per run."""
    return workspace.rows.once(_opening, f2, workspace.rows)


def _opening(f2: StreamedSum, rows: Workspace) -> Opening:
    return opening(f2.opened(rows) if rows.holds(first_pass, f2) else f2)
