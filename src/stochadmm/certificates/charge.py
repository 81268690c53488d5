"""What is left of the dual equation in floating point, and what that costs at most.

For any derivatives u and multiplier mu the inequality of Fenchel and Young gives, for every x,

    F(x) >= D(u, mu) + <r, x>,      r = X'(q u)/n + S' mu.

Only |r_j| <= rho_j is known: what is computed plus its rounding, in the units of coordinate j. The
bound is D minus the largest ``<rho, |x|>`` over the level set {F <= F(point at hand)}, which
contains every solution. ``docs/design/certificates.md`` derives what follows:

- rows of S that a penalty holds (its level set bounds them: ``reach``), or whose multiplier has
  room on both sides, take what they can of r;
- along the directions that these rows do not see, a second dual point bounds the solution:
derivatives
  moved by at most theta along the curvature of the loss, which tilts F by theta in each direction;
- where no row bends, derivatives at points far along these directions do.

Where neither works the charge is infinite: no bound is better than one that is not proved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from ..base.capabilities import Has, offers
from ..base.protocols import Array
from ..base.terms import compiled_terms
from ..base.workspace import Workspace
from ..forms.one_block import OneBlock, outputs_by_mask
from ..forms.structure import StructureSolver
from ..penalties import segments
from ..risk import FiniteSum
from ..risk.dual import dual_margin, has_margins, least_conjugate, mean_conjugate, pull_back
from ..risk.metrics import column_energies
from ..risk.targets import weighted
from .dependence import nullity
from .null_space import LIVE, FreeSpace
from .rounding import TINY, UNIT, conjugate_rounding, mean_size, per_row, rounding, unsettled

NEXT = 1e-3
"""How far a dual point beside the one at hand is, as a share: any is proved."""
SAFE = 1.001
"""Accuracy of pseudo-inverses."""
STRONG = 1e11
"""Times rounding that a penalty must be to bound its rows: it costs one over that."""
OFTEN, FARTHER = 40, 4.0
"""How often the room of a multiplier, or a far point, is looked for, and how much farther."""


def charge(
    f2: FiniteSum,
    form: OneBlock,
    z: Array | None,
    u: Array | None,
    mu: Array,
    residual: Array,
    error: Array,
    objective: float,
    enough: float = 0.0,
    *,
    workspace: Workspace,
) -> float:
    """Return a bound on ``|<r, x>|`` over all x with ``F(x) <= objective``.

    ``residual`` is r as computed, ``error`` its rounding, ``z`` predictions near those of u.
    Without z and u only penalties bound x. A bound of at most ``enough`` is not improved.
    """
    rho = np.abs(residual) + error
    if not np.isfinite(objective) or not np.isfinite(rho).all():
        return np.inf
    least = workspace.rows.once(least_conjugate, f2)
    level = objective + least + workspace.once(_rest, form)
    held = workspace.once(two_sided, form)
    if not np.isfinite(level):
        # a part without a least value, such as a linear one: no level of the others follows, and
        # the loss alone bounds a solution; the number is but a scale for how far derivatives move
        level, held = abs(objective) + (abs(least) if np.isfinite(least) else 0.0), held & False
    level = max(level, TINY)
    best = _proved(f2, form, z, u, mu, rho, held, level, objective, enough, workspace)
    if enough < best < np.inf and u is not None:
        nearer = _level(f2, form, u, mu, objective + best)
        if nearer < 0.5 * level:
            again = _proved(f2, form, z, u, mu, rho, held, nearer, objective, enough, workspace)
            best = min(best, again)
    return best


def _proved(
    f2: FiniteSum,
    form: OneBlock,
    z: Array | None,
    u: Array | None,
    mu: Array,
    rho: Array,
    held: Array,
    level: float,
    objective: float,
    enough: float,
    workspace: Workspace,
) -> float:
    """Return a bound on ``<rho, |x|>`` over the level set, where the penalties are below level."""
    best = np.inf
    for _ in range(2):
        split = Split(form, mu, rho, held)
        rows, free = split.absorb(rho)
        total = split.cost(rows, level)
        if np.isfinite(total) and any(c.any() for c in free):
            if z is None or u is None:  # nothing is known along free directions
                break
            total += _along_free(
                f2, form, split, z, u, mu, free, level, objective + total, workspace
            )
        best = min(best, total)
        if best <= enough:
            break
        weak = split.weak(rows)
        if best <= level / STRONG or not weak.any():
            break
        held = held & ~weak  # the loss may bound these coordinates better
    return best


def _level(f2: FiniteSum, form: OneBlock, u: Array, mu: Array, objective: float) -> float:
    """Return a bound on the penalties over the level set, from a dual point next to this one.

    ``H >= (1 - t) H + t (<mu, z> - H*(mu))`` beside derivatives t u leaves (1 - t) H over. With t
    near one this is about the penalty of a solution; with t = 0 it is all that losses can give.
    """
    t = 1.0 - NEXT
    loss, penalty = mean_conjugate(f2, t * u), form.conjugate(mu)
    if not np.isfinite(loss + penalty):
        return np.inf
    most = objective + loss + t * penalty
    # these cancel: their rounding
    most += 1e-13 * (abs(objective) + abs(loss) + abs(penalty)) + conjugate_rounding(f2, u)
    return max(most / NEXT + _rest(form), TINY)


def least_value(f2: FiniteSum, form: OneBlock, *, workspace: Workspace) -> float:
    """Return the bound of the dual point zero: the least losses plus the least penalties.

    Its equation holds without rounding, so that it needs no proof of a bounded solution.
    """
    total = workspace.rows.once(least_conjugate, f2) + workspace.once(_rest, form)
    return -total if np.isfinite(total) else -np.inf


def _rest(form: OneBlock) -> float:
    """Return minus the sum of the infima of the penalties."""
    zero = np.zeros_like(form.offset)
    if form.off(zero).any():  # the least value found may be that of a derivative without an end
        return np.inf
    return float(sum(float(part.conjugate(zero[rows])) for part, rows in flat(form)))


def flat(form: OneBlock) -> list[tuple[Any, slice]]:
    """Return the penalties and their rows, stacks taken apart."""
    return [
        (piece, slice(rows.start + own.start, rows.start + own.stop))
        for part, rows in form.parts
        for piece, own in segments(part, rows.stop - rows.start)
    ]


@dataclass(frozen=True)
class Group:
    """Outputs whose residuals are absorbed by the same rows of S."""

    index: Any
    free: Any
    """Directions that these rows do not see, as sparse columns."""
    row: Array | None = None
    """For every coordinate a row with this coordinate alone, -1 where it is free;"""
    factor: Array | None = None
    """the inverse of its entry."""
    solver: StructureSolver | None = None
    flow: Array | None = None
    """For every row the inverse of its entries, where all are differences of two coordinates."""

    def absorb(self, rho: Array, n_rows: int) -> tuple[Array, Array]:
        """Return sizes of a multiplier and of free components that make up for any |r| <= rho."""
        outputs = rho.shape[1:]
        if self.row is not None and self.factor is not None:
            rows = np.zeros((n_rows, *outputs))
            own = self.row >= 0
            factor = self.factor[own]
            rows[self.row[own]] = rho[own] * (factor if rho.ndim == 1 else factor[:, None])
            return rows, rho[~own]
        if self.flow is not None:
            return self._flows(rho, self.flow)
        solver = cast(StructureSolver, self.solver)
        N = self.free.toarray()
        part = np.abs(np.linalg.pinv(N)) @ rho if N.shape[1] else np.zeros((0, *outputs))
        return SAFE * solver.absorbed(rho), SAFE * part

    def _flows(self, rho: Array, flow: Array) -> tuple[Array, Array]:
        """Return the most that an edge of a spanning forest carries of any |r| <= rho.

        Less its mean on every component, r is sent along a tree: no edge carries more than half
        of the sum of sizes.
        """
        total = rho.sum(axis=0)
        rows = flow * total if rho.ndim == 1 else flow[:, None] * total
        sizes = np.asarray(self.free.sum(axis=0)).ravel()
        part = self.free.T @ rho
        return rows, part / (sizes if rho.ndim == 1 else sizes[:, None])


class Split:
    """Which rows of S take residuals, and which directions are left to the loss."""

    def __init__(self, form: OneBlock, mu: Array, rho: Array, held: Array) -> None:
        self.form = form
        self.room = np.where(held, np.inf, 0.0)
        if not held.all():
            self.room = np.where(held, np.inf, _room(form, mu, per_row(form, rho), ~held))
        mask = self.room > 0
        self.held = held
        self.groups = [self._group(index, column) for index, column in outputs_by_mask(mask)]

    def _group(self, index: Any, mask: Array) -> Group:
        S, d = self.form.S, self.form.shape[0]
        count = np.diff(S.indptr)
        alone = np.flatnonzero((count == 1) & mask)
        entry = np.abs(S.data[S.indptr[alone]])
        alone, entry = alone[entry > 0], entry[entry > 0]
        order = np.argsort(entry, kind="stable")
        row, factor = np.full(d, -1), np.zeros(d)
        column = S.indices[S.indptr[alone[order]]]
        row[column], factor[column] = alone[order], 1.0 / entry[order]
        others = S.indices[np.repeat((count > 1) & mask, count)]
        if not (row[others] < 0).any():
            left = np.flatnonzero(row < 0)
            ones = (np.ones(left.size), (left, np.arange(left.size)))
            return Group(index, sparse.csc_array(ones, (d, left.size)), row, factor)
        if (
            d > 300 and alone.size == 0
        ):  # a pseudo-inverse of fewer columns costs less, and is tighter
            found = _forest(index, S, mask)
            if found is not None:
                return found
        known = self.form.mask[index].reshape(len(mask), -1)
        if (known == mask[:, None]).all():
            solver = self.form.solver(mask)
        elif d <= 1000:  # factorized for one certificate only
            solver = self.form.structure.passing_solver(mask)
        else:  # nothing is absorbed
            return Group(index, sparse.eye_array(d, format="csc"), np.full(d, -1), np.zeros(d))
        return Group(index, solver.null, solver=solver)

    def absorb(self, rho: Array) -> tuple[Array, list[Array]]:
        """Return sizes of a multiplier on the rows and of components along free directions."""
        rows, free = np.zeros((self.form.S.shape[0], *rho.shape[1:])), []
        for group in self.groups:
            rows[group.index], part = group.absorb(rho[group.index], len(rows))
            free.append(part)
        return rows, free

    def along(self, r: Array, *, sizes: bool = False) -> tuple[Array, Array]:
        """Return the components of r along the free directions, and the size of what is left.

        With ``sizes`` r are sizes, and the components are the largest that they allow.
        """
        found, off = [], np.zeros_like(r)
        for group in self.groups:
            N = group.free.toarray()
            inverse = np.linalg.pinv(N)
            part = (np.abs(inverse) if sizes else inverse) @ r[group.index]
            rest = np.abs(r[group.index] - N @ part)
            off[group.index] = rest + UNIT * (np.abs(N) @ np.abs(part))
            found.append(part.ravel())
        return np.concatenate(found), off

    def weak(self, rows: Array) -> Array:
        """Return the held entries whose penalty is too small for what they absorb."""
        far = STRONG * rows
        project = self.form.project
        return np.asarray(self.held & ((project(far) != far) | (project(-far) != -far)))

    def cost(self, rows: Array, level: float) -> float:
        """Return a bound on ``<rows, |S x|>`` over the level set."""
        if (rows > self.room).any():
            return np.inf
        rows = np.where(self.held, rows, 0.0)  # the others are absorbed at no cost
        total = float(np.vdot(rows, np.abs(self.form.offset)))
        for part, own in flat(self.form):
            if rows[own].any():
                total += float(part.reach(rows[own], level))
        return total


def _forest(index: Any, S: Any, mask: Array) -> Group | None:
    """Return how a graph of differences absorbs; None where some row is no difference."""
    rows = np.flatnonzero(mask)
    used = sparse.csr_array(S[rows])
    if (np.diff(used.indptr) != 2).any() or used.data.reshape(-1, 2).sum(axis=1).any():
        return None
    size = np.abs(used.data.reshape(-1, 2)[:, 0])
    if not (size > 0).all():
        return None
    ends, d = used.indices.reshape(-1, 2), S.shape[1]
    graph = sparse.csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), (d, d))
    _, labels = connected_components(graph, directed=False)
    free = sparse.csc_array((np.ones(d), (np.arange(d), labels)))
    flow = np.zeros(S.shape[0])
    flow[rows] = 1.0 / size
    return Group(index, free, flow=flow)


def two_sided(form: OneBlock) -> Array:
    """Return the entries of z = S x that the level sets of their penalty bound on both sides."""
    probe = np.random.default_rng(0).standard_normal((form.S.shape[0], *form.shape[1:]))
    probe = np.abs(probe) + 1.0
    held = (form.project(probe) != 0) & (form.project(-probe) != 0)
    for part, rows in flat(form):
        if not offers(part, Has.REACH):
            held[rows] = False
    return np.asarray(held)


def _room(form: OneBlock, mu: Array, least: Array, asked: Array) -> Array:
    """Return how far mu may move both ways inside the dual set at no cost, entry by entry.

    Entries that are not asked for do not move.
    """
    size, best = np.maximum(least, TINY), np.zeros_like(mu)
    inside = asked
    for _ in range(OFTEN):
        for end in (mu + size, mu - size):
            inside = inside & (form.project(end) == end)
        if not inside.any():
            break
        best = np.where(inside, size, best)
        size = FARTHER * size
    if not best.any():
        return best
    # a cone's conjugate is zero on its domain; where it is not, a move would cost something
    for part, rows in flat(form):
        base = float(part.conjugate(mu[rows]))
        if not _separable(part, rows.stop - rows.start):
            best[rows] = 0.0
        for end in (mu[rows] + best[rows], mu[rows] - best[rows]):
            if float(part.conjugate(end)) != base:
                best[rows] = 0.0
    return best


def _separable(part: Any, n_rows: int) -> bool:
    terms = compiled_terms(part, n_rows)
    return terms is not None and all(term.separable for term in terms)


def _along_free(
    f2: FiniteSum,
    form: OneBlock,
    split: Split,
    z: Array,
    u: Array,
    mu: Array,
    free: list[Array],
    level: float,
    objective: float,
    workspace: Workspace,
) -> float:
    """Return a bound on ``sum_k c_k |<n_k, x>|`` over the level set, n_k the free directions."""
    kept = [(group, c) for group, c in zip(split.groups, free, strict=True) if len(c)]
    space = FreeSpace(f2, [(group.index, group.free) for group, _ in kept])
    c = np.concatenate([part.ravel() for _, part in kept])
    turned, inverses = space.turned()
    pulls = [
        (abs(N.T @ N) @ (part if R is None else np.abs(R) @ part)).ravel()
        for (_, N), R, (_, part) in zip(turned.directions, inverses, kept, strict=True)
    ]
    found = _by_curvature(
        turned, space, form, split, z, u, mu, np.concatenate(pulls), level, objective, workspace
    )
    if np.isfinite(found):
        return found
    return _by_far_points(space, form, split, z, u, mu, c, level, objective, workspace)


def _by_curvature(
    space: FreeSpace,
    given: FreeSpace,
    form: OneBlock,
    split: Split,
    z: Array,
    u: Array,
    mu: Array,
    c: Array,
    level: float,
    objective: float,
    workspace: Workspace,
) -> float:
    """Return what derivatives near u prove, moved along their curvature; c is N'N of r's.

    ``given`` are the directions before they were turned.
    """
    f2 = space.f2
    known = offers(f2.loss, Has.CURVATURE) and has_margins(f2.loss, u)
    if not known or space.size > 2000:
        return np.inf
    energies = workspace.rows.once(column_energies, f2)
    made = _moves(space, given, form, z, u, c, np.sqrt(level), np.sqrt(energies), workspace)
    if made is None:
        return np.inf
    most, size, theta = made
    if most == 0.0 or theta == 0.0:
        return 0.0 if most == 0.0 else np.inf
    # what the moved derivatives do to the coordinates that penalties hold
    columns, pulled = np.sqrt(energies), mean_size(f2, theta * size)
    rows, _ = split.absorb(columns * pulled if u.ndim == 1 else columns[:, None] * pulled)
    with np.errstate(divide="ignore", invalid="ignore"):
        fits = np.where(rows > 0, split.room / rows, np.inf).min(initial=np.inf)
    share = min(1.0, 0.5 * float(fits))
    theta *= share
    low = -mean_conjugate(f2, u, theta * size) - form.conjugate(mu)
    left = objective - low + split.cost(share * rows, level)
    if not np.isfinite(left) or not 0.5 * theta > most:
        return np.inf
    return most * max(left, 0.0) / (0.5 * theta - most)


def _by_far_points(
    space: FreeSpace,
    form: OneBlock,
    split: Split,
    z: Array,
    u: Array,
    mu: Array,
    c: Array,
    level: float,
    objective: float,
    workspace: Workspace,
) -> float:
    """Return the bound that derivatives at points far along each direction prove, both ways.

    With derivatives v of any point, ``F(x) >= D(v, mu) + <r, x>``. The part of r that rows absorb
    costs as ever, and what is left is ``<a, y>``, y the components of x along the directions. A
    point beyond a plateau, along direction k in the sense s, has ``s a_k > 0``; where the
    components of these derivatives along k outweigh those along the others (an M-matrix), all
    |y_k| are bounded.
    """
    f2, K = space.f2, space.size
    if K > 20 or not c.any():  # each direction costs two passes
        return 0.0 if not c.any() else np.inf
    own, cross, left = np.full(K, np.inf), np.zeros((K, K)), np.zeros(K)
    for k, unit in enumerate(np.eye(K)):
        ahead = space.predictions(unit)
        for sense in (1.0, -1.0):
            v = _beyond(space, z, u, sense * ahead, sense * unit)
            if v is None:
                return np.inf
            r = pull_back(f2, v) + form.St @ mu
            error = rounding(f2, form, v, mu, workspace=workspace) + unsettled(form, mu)
            a, off = split.along(r)
            wide = split.along(error, sizes=True)[0]
            rows, _ = split.absorb(off + error)
            value = -mean_conjugate(f2, v) - form.conjugate(mu)
            left[k] = max(left[k], objective - value + split.cost(rows, level))
            own[k] = min(own[k], sense * a[k] / SAFE - SAFE * wide[k])
            cross[k] = np.maximum(cross[k], SAFE * (np.abs(a) + wide))
    np.fill_diagonal(cross, 0.0)
    if not np.isfinite(left).all() or not (own > 0).all():
        return np.inf
    # |y| <= M^-1 left where M is an M-matrix: M^-1 1 > 0 shows that its inverse has no sign
    try:
        found = np.linalg.solve(np.diag(own) - cross, np.stack([left, np.ones(K)], axis=1))
    except np.linalg.LinAlgError:
        return np.inf
    if not (found > 0).all():
        return np.inf
    return SAFE * float(c @ found[:, 0])


def _beyond(space: FreeSpace, z: Array, u: Array, ahead: Array, direction: Array) -> Array | None:
    """Return derivatives so far ahead that F rises there by a share of what single rows do."""
    top = float(np.abs(ahead).max(initial=0.0))
    if top == 0.0:
        return None
    # any share and any first step are proved
    enough = 0.1 * float(np.abs(weighted(space.q, u * ahead)).mean())
    step = 1e-6 * (1.0 + float(np.abs(z).max(initial=0.0))) / top
    for _ in range(OFTEN):
        v = np.asarray(space.loss.derivative(z + step * ahead, space.f2.y), dtype=np.float64)
        if not np.isfinite(v).all():
            return None
        if float(space.gradient(v) @ direction) > max(enough, TINY):
            return v
        step *= FARTHER
    return None


def _moves(
    space: FreeSpace,
    given: FreeSpace,
    form: OneBlock,
    z: Array,
    u: Array,
    c: Array,
    length: float,
    columns: Array,
    workspace: Workspace,
) -> tuple[float, Array, float] | None:
    """Return the largest component in whitened directions, sizes of moved derivatives, and theta.

    In these directions the Hessian of the rows that may move is the identity: derivatives that
    move by at most ``theta * size`` tilt F by theta in every one of them. Rows with little room
    may move where the others do not bend along every direction. ``columns`` are the sizes of the
    columns.
    """
    found: tuple[float, Array, float] | None = None
    error = space.error(columns)
    # where predictions are rounding nothing bends: only an exact dependence may be left out
    unseen = space.sizes() <= 10.0 * error
    for _ in range(3):
        H = space.hessian(z)
        H[unseen], H[:, unseen] = 0.0, 0.0
        size = np.sqrt(np.diag(H))
        scale = np.where(size > 0, size, 1.0)
        values, vectors = np.linalg.eigh(H / np.outer(scale, scale))
        live = values > LIVE * max(float(values[-1]), TINY)
        dropped = int((~live).sum())
        if dropped > 0 and dropped > dependences(given, form, workspace):
            break
        T = vectors[:, live] / np.sqrt(values[live]) / scale[:, None]
        most = float((np.abs(T).T @ c).max(initial=0.0))
        moved = space.spread(z, T)
        # T' H T is the identity up to the rounding of X N and of H
        whole = np.abs(T).T @ size
        off = np.abs(T).T @ error * float(np.max(mean_size(space.f2, moved)))
        if float((off + UNIT * whole * whole.sum()).max(initial=0.0)) > 0.5:
            break
        margin, q = dual_margin(space.loss, u, length * moved, space.f2.y), space.q
        if q is not None:
            margin = np.where((q if q.ndim == 1 else q.max(axis=1)) == 0, 1.0, margin)
        theta = 0.5 * length * float(margin.min())
        if found is None or theta * found[0] >= found[2] * most:
            found = most, moved, theta
        narrow = margin < 1e-3  # of the move: rows with so little room stay where they are
        if not narrow.any():
            break
        space.active = ~narrow if space.active is None else space.active & ~narrow
    return found


def dependences(space: FreeSpace, form: OneBlock, workspace: Workspace) -> int:
    """Return along how many of the free directions F is constant, exactly: at least so many.

    A solution can then be chosen without a part in them, whatever the complement: the directions
    that bend F are independent of them.
    """
    pairs, common = [], None
    for index, basis in space.directions:
        mask = form.mask[index].reshape(len(form.mask), -1).any(axis=1)
        N = np.ascontiguousarray(basis.toarray())
        pairs.append((mask, N, space.outputs(index).size))
    found = [_nullity(space, form, mask, N, workspace) for mask, N, _ in pairs]
    total = sum(both * count for (_, both), (_, _, count) in zip(found, pairs, strict=True))
    if space.q is not None and space.q.ndim == 2:
        # F does not know an output whose targets are all missing
        missing = np.flatnonzero(~(space.q > 0).any(axis=0))
        for (index, _), (free, both) in zip(space.directions, found, strict=True):
            total += (free - both) * int(np.isin(space.outputs(index), missing).sum())
    if not space.coupled:
        return total
    # one step for all outputs at once changes no probability
    if sum(count for _, _, count in pairs) < cast(int, space.f2.n_outputs):
        return total
    if len(pairs) == 1:
        free, both = found[0]
        return total + free - both
    columns = [{column.tobytes() for column in N.T} for _, N, _ in pairs]
    common = set.intersection(*columns)
    N = np.array([np.frombuffer(column) for column in sorted(common)]).T
    if not common:
        return total
    mask = np.any([mask for mask, _, _ in pairs], axis=0)
    free, both = _nullity(space, form, mask, np.ascontiguousarray(N), workspace)
    return total + free - both


def _nullity(
    space: FreeSpace, form: OneBlock, mask: Array, N: Array, workspace: Workspace
) -> tuple[int, int]:
    return workspace.rows.once(
        nullity, space.f2, form.structure, mask.tobytes(), N.tobytes(), N.shape
    )
