"""Numbers of the low-rank steps, each with its reason; `benchmarks/low_rank.py` chose them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class SplittingOptions:
    """Numbers of the splitting."""

    relaxation: float = 1.7
    """Longer steps than 1 save a third of the iterations; 2 is the limit of convergence."""
    first_look: int = 5
    """Iterations before the penalty is first adapted; each later look is twice as far."""
    ignored: float = 1.5
    """Changes of the penalty by less than this factor are not worth a new inverse."""
    largest_change: float = 10.0
    """Largest factor of one change: the residuals of a few iterations are noisy."""
    lowest: float = 1e-3
    """Least penalty relative to the first: residuals at zero say nothing."""
    highest: float = 1e4
    """Largest penalty relative to the first, likewise."""
    compiled_side: int = 16
    """Shorter side of a matrix up to which Jacobi's rotations are sooner done than a call of
    LAPACK,"""
    compiled_length: int = 128
    """and longer side up to which a product needs no BLAS: such iterations are compiled."""


@dataclass(frozen=True)
class MetricOptions:
    """Shares of the largest or mean curvature below which none is trusted."""

    memory: int = 10
    """Pairs of L-BFGS: more cost as much as they save,"""
    most_numbers: int = 1 << 26
    """and fewer are kept where they would take more numbers than this (half a gigabyte),"""
    fewest: int = 2
    """but for the last ones."""
    little: float = 0.1
    """Share of the mean curvature of steps below which they say little of a direction,"""
    spread: float = 10.0
    """and the largest factor between its scale and that of all: single steps are noisy."""
    flat_rows: float = 1e-7
    """Of the largest eigenvalue of the Gram matrix, made in float32: its rounding."""
    flat_outputs: float = 1e-3
    """Of the mean curvature of the outputs: rare classes have next to none."""
    flat_entries: float = 1e-2
    """Of the mean of the diagonal: rare columns have next to none."""

    def pairs(self, size: int) -> int:
        """Return how many pairs of matrices of a size are kept; each is held in two bases."""
        return min(self.memory, max(self.fewest, self.most_numbers // (4 * size)))


@dataclass(frozen=True)
class DualOptions:
    """Numbers of the search for a lower bound."""

    rounds: int = 15
    """Alternating projections that divide a gradient between the norms."""
    patient_rounds: int = 30
    """The same at the end of an epoch where nothing is kept per row: a read costs as much."""
    early: int = 6
    """Rounds after which a bound is given up"""
    far: float = 100.0
    """whose gap is still so many targets: the others bring up to half of that."""
    hopeful: float = 10.0
    """Gap in targets up to which a split is worth more projections,"""
    more_rounds: int = 60
    """namely so many."""
    close: float = 0.9
    """Scale of a split above which the point is near a solution, and no other is better;"""
    halvings: int = 10
    """of that of derivatives far from it otherwise: a percent of the scale is one of the bound."""
    products: int = 30
    """Products with the Hessian in a first corrected certificate, twice as many in each next."""
    near: float = 0.9
    """Share of a norm's strength from which on a coefficient at zero counts as about to leave."""
    farthest: float = 10.0
    """Lengths of the point beyond which no move is believed: there may be no minimizer."""
    forcing: float = 0.2
    """Residual of a Newton step's equations relative to that of the point (Eisenstat, Walker)."""
    hopeless: int = 100
    """Products after which a residual that has not even halved is given up,"""
    astray: float = 100.0
    """and times by which it may grow before: along directions with next to no curvature the first
    product makes it a thousand times as large, and no other brings it back."""
    most_held: int = 1000
    """Coefficients of one output, not held at zero, up to which their Hessian is factored,"""
    ridge: float = 1e-6
    """its diagonal raised by this share of the mean: rounding."""


@dataclass(frozen=True)
class BlockOptions:
    """Numbers of a loss of which nothing is kept per row."""

    most_predictions: int = 1 << 26
    """Predictions up to which several arrays of them are kept, half a gigabyte each,"""
    numbers: int = 1 << 23
    """and numbers of the rows that are worked on together where they are not: enough that adding
    up their gradient costs little beside its product."""


@dataclass(frozen=True)
class NewtonOptions:
    """Numbers of the proximal Newton steps."""

    inner: int = 200
    """Most iterations of the splitting for one step."""
    look_every: int = 5
    """Iterations between two looks at the model's residuals, which cost about one."""
    accuracy: float = 0.1
    """Residuals of a model relative to its step: more digits would describe the model only."""
    certified_accuracy: float = 0.01
    """The same where its subgradients are corrected: they cost less than products with the rows
    that make up for them."""
    regram: tuple[int, ...] = (3,)
    """Steps at which the Gram matrix is weighted anew: the curvature has settled by then."""
    split_from: float = 1.0
    """A bound by splitting is tried when the last decrease is at most this many targets,"""
    correct_from: float = 3e-3
    """a corrected one at this many where that by splitting is not far: steps that cost as much as
    its products bring derivatives that need no correction nearly as soon, and from farther away a
    search is lost,"""
    correct_at_last: float = 1e-4
    """at this many where it is: then steps do not bring what it lacks,"""
    correct_from_sparse: float = 0.3
    """and for sparse rows, whose products cost little beside a model, at this many."""
    worth: float = 0.1
    """Share of the gap that a corrected bound may leave: of more, its products do not see what is
    left (columns with next to no curvature), and another search takes over where there is one."""
    rest: float = 0.5
    """Steps between two corrected bounds, per read of the last: a step costs a read and a model,
    so that neither takes much more than the other."""
    single_until: float = 1e-6
    """Relative gain of a step up to which models in float32 are trusted, and where nothing is kept
    per row products are: their rounding changes an objective by some 1e-8."""
    free_steps: int = 30
    """Newton steps for the free rows: they converge in a handful."""
    metric: MetricOptions = field(default_factory=MetricOptions)
    dual: DualOptions = field(default_factory=DualOptions)
    splitting: SplittingOptions = field(default_factory=lambda: SplittingOptions(relaxation=1.6))


@dataclass(frozen=True)
class FistaOptions:
    """Numbers of the accelerated gradient steps."""

    rounds: int = 100
    """Most projections of a prox of the sum: a rough prox stops the acceleration near the end."""
    accuracy: float = 1e-2
    """Disagreement of the two sides of the prox, relative to the step."""
    rise: float = 1.5
    """Factor of L after a step that overshot,"""
    fall: float = 0.97
    """and after any other."""
    first: float = 0.02
    """First L as a share of its bound: the curvature of most losses is far below."""
    window: int = 5
    """Steps over which progress is measured."""
    patience: float = 3.0
    """Steps in all, relative to those after which they gain little, before Newton steps go on."""
    next_try: float = 0.1
    """Steps until the next certificate, as a share of those made."""
