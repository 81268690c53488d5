"""How hard a certificate tries, for those who ask; and the numbers that its truth rests on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..base.immutable import field_values
from ..base.validation import is_whole


@dataclass(frozen=True)
class CertificateOptions:
    """How hard a bound is looked for: any choice gives a true one, more work a tighter one.

    They are passed to `stochadmm.certify`.

    Parameters
    ----------
    rounds, most_times, corrected_rounds : int
        Projections that look for a multiplier of the scaled point, how often as many again may
        follow while they help, and those of the corrected point, which is nearly feasible.
    hessian_passes, least_share, cheap_work : float, int, float
        Passes that the Hessian behind a corrected point may cost, the n-th part of the rows that
        it takes at least, and multiplications below which it takes all of them.
    model_rounds, model_iter, model_tol : int, int, float
        Models with rows held at the edge of their domain, iterations and accuracy of each.
    holds, usable : float
        Residuals of a model below which it has a minimum, and below which it is of use.
    most_capped, edge : float
        Share of rows at the edge beyond which there is no use in going on, and how far towards it
        a held derivative goes.
    damping : float
        Share of the curvature bound that a model without a minimum is damped by.
    charge, charge_share : float
        Share of the objective that rounding may cost a bound before a smaller price is proved in
        more directions, which may take longer than all else; and share of a gap that a run waits
        for up to which it is not asked for.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> from stochadmm.certificates import CertificateOptions
    >>> X, y = np.eye(3), np.array([3.0, 2.9, 0.0])
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), X, y, structure=sa.Differences(3), on_structure=sa.L1(0.1)
    ... )
    >>> point, once = sa.Pair(np.zeros(2), np.ones(3)), CertificateOptions(rounds=1, most_times=1)
    >>> bool(sa.certify(problem, point, options=once).gap >= sa.certify(problem, point).gap)
    True
    """

    rounds: int = 20
    most_times: int = 10
    corrected_rounds: int = 4
    hessian_passes: float = 1.0
    least_share: int = 14
    cheap_work: float = 2e7
    model_rounds: int = 5
    model_iter: int = 1000
    model_tol: float = 1e-11
    holds: float = 1e-4
    usable: float = 1e-2
    most_capped: float = 0.3
    edge: float = 0.99
    damping: float = 0.01
    charge: float = 1e-11
    charge_share: float = 0.1

    def __post_init__(self) -> None:
        counts = ("rounds", "most_times", "corrected_rounds", "model_rounds", "model_iter")
        for name, value in field_values(self).items():
            whole = name in counts
            if not value > 0 or (whole and not is_whole(value)):
                wanted = "an integer >= 1" if whole else "a number > 0"
                raise ValueError(f"{name} is {value!r}, expected {wanted}")

    def towards(self, target: float | None, scale: float = 1.0) -> CertificateOptions:
        """Return how hard to look for a bound where a relative gap is waited for.

        ``scale`` is what the gap is relative to, as a share of the objective.
        """
        if target is None:
            return self
        return replace(self, charge=max(1e-15, self.charge_share * target * scale))


@dataclass(frozen=True)
class ProofNumbers:
    """What the truth of a bound rests on, what follows from rounding, and what fits in memory.

    Nobody sets them: other values would not be other choices but other proofs.

    Parameters
    ----------
    near, open : float
        Times rounding up to which a multiplier beside the dual set is moved onto it, and up to
        which the dual equation counts as closed: it is charged for, and may be far from a dual
        point otherwise.
    live : float
        Share of the largest below which eigenvalues of the equilibrated Hessian say nothing.
    unseen : float
        Times rounding up to which predictions along a direction are nothing but rounding.
    ridge : float
        Added to the equilibrated Hessian of a least squares correction, which is refined.
    flat : float
        Share of the largest below which curvatures along single directions are rounding, in steps.
    narrow : float
        Share of a move below which rows with so little room stay where they are.
    strong : float
        Times rounding that a penalty must be to bound its rows: it costs one over that.
    small_charge : float
        Share of the distance to the dual value below which a charge is not made smaller.
    safe : float
        Accuracy of pseudo-inverses.
    often, farther : int, float
        How often the room of a multiplier is tried, each time so many times farther.
    small : int
        Columns up to which a pseudo-inverse is taken rather than a flow on a graph.
    most_free, largest_new : int
        Free directions whose solution is bounded, and columns of a structure that is factorized
        for one certificate only.
    most_far : int
        Free directions whose solution is bounded by far points, which cost two passes for each.
    rises, nearest : float
        Share of the mean size of derivatives that F must rise by at a far point, and where the
        first one is looked for, relative to predictions: any choice is proved.
    run_length : int
        Rows are sampled in runs of this length, which memory likes.
    idle : float
        Share of the largest change below which rows have nothing to give.
    most_newton, most_halvings, most_cleared : int
        Newton steps along free directions, more than a few only for losses that are straight but
        for a few rows; trials of the length of each; and directions up to which they are taken.
    lift : float
        Share of the largest curvature that each row has at least in steps along free directions:
        where all rows are straight steps still have a length, which a line search corrects.
    most_work : float
        Numbers up to which the moves of single directions are added up one by one.
    sparse_from : int
        Directions from which on predictions along them may be sparse.
    block : int
        Rows whose curvatures are taken at a time.
    block_bytes : int
        Rows of moves that are weighted at a time: a copy of all would double the memory.
    floor : float
        Share of |F(null model)| that a relative gap is relative to at least, for optima at zero.
    repair_rounds, beyond : int, float
        Reflections that look for a point inside a domain, and how far each goes.
    pulls : tuple of float
        Units of rounding by which rows at an edge are pulled inside, tried one after the other.
    ahead, wider_reach, first_reach, least_reach : float
        Curvature along free directions is averaged over so many times the last step; where there
        was none over so many times the reach before, at first a share of the predictions, and not
        below another share, where differences of derivatives are rounding.
    exact_fit : float
        Share of the floor of |F(0)| below which F(null) is rounding: squares of some thousand
        units of it.
    outside : float
        Share of what rows are to be by which rounding may take them out of a domain at most; the
        root of the unit of rounding where that is more.
    repair_columns : int
        Columns up to which the pseudo-inverse of a structure repairs a point.
    repair_digits, repair_steps : float, int
        First accuracy of the nearest point inside, which mostly tells the rows at an edge, and
        steps that look for it.
    """

    near: float = 8.0
    open: float = 100.0
    live: float = 1e-13
    unseen: float = 10.0
    ridge: float = 1e-11
    flat: float = 1e-12
    narrow: float = 1e-3
    strong: float = 1e11
    small_charge: float = 0.01
    safe: float = 1.001
    often: int = 40
    farther: float = 4.0
    small: int = 300
    most_free: int = 2000
    largest_new: int = 1000
    most_far: int = 20
    rises: float = 0.1
    nearest: float = 1e-6
    run_length: int = 64
    idle: float = 1e-12
    most_newton: int = 100
    most_halvings: int = 60
    most_cleared: int = 400
    lift: float = 1e-6
    most_work: float = 3e6
    sparse_from: int = 10
    block: int = 1 << 16
    block_bytes: int = 1 << 22
    floor: float = 1e-3
    repair_rounds: int = 60
    pulls: tuple[float, ...] = (2.0, 8.0, 32.0, 128.0)
    beyond: float = 1.5
    outside: float = 1e-6
    exact_fit: float = 1e-22
    ahead: float = 2.0
    wider_reach: float = 8.0
    first_reach: float = 1e-3
    least_reach: float = 1e-6
    repair_columns: int = 2000
    repair_digits: float = 1e-6
    repair_steps: int = 2000


OPTIONS = CertificateOptions()
PROOF = ProofNumbers()
