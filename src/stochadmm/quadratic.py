"""The small problem that never touches the data.

    min_w  <c, w - x> + 1/2 <w - x, H (w - x)> + h1(A w - b) + h2(w)

It is solved in two phases. A splitting method (ADMM with over-relaxation and a balanced penalty)
finds most of the active set; the augmented Lagrangian with Newton's method in w then needs a few
linear systems for full accuracy, because its second derivative is exact once the active set is.
Throughout, the multiplier lies in the dual set of the penalties.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from .operators import as_operator
from .penalties import L1, Stacked
from .protocols import Array, Shape
from .terms import Elementwise, GroupNorms, TotalVariation

RELAXATION = 1.7
RIDGE = 1e-11
HOLD = 1e-3
DEAR, SYSTEMS = 700, 80
"""From so many columns on, one run of Newton's method may take so many linear systems."""
ROUGH = 1e-4
"""Relative residuals from here on are left to the splitting alone."""
UNBOUNDED = 1e8
"""A step that is longer than this many natural lengths has no end."""
FLATTEN = 1500
"""Coupled outputs are solved as one vector up to this length."""


@dataclass(frozen=True)
class QuadraticResult:
    """Solution of the small problem.

    Attributes
    ----------
    w : array
        The minimizer.
    z : array
        ``A w - b`` with the exact zeros that the prox of h1 makes.
    dual : array
        Multiplier of ``A w - b = z``, in the dual set of h1.
    dual2 : array or None
        The subgradient of h2 at w, in its dual set.
    residual : float
        The larger of two relative numbers: what is left of
        ``c + H (w - x) + A' dual + dual2 = 0``, and of ``A w - b = z``.
    n_iter : int
        Iterations of the splitting plus Newton steps.
    penalty : float
        Penalty of the splitting at the end, a good first value for the next problem.
    """

    w: Array
    z: Array
    dual: Array
    dual2: Array | None
    residual: float
    n_iter: int
    penalty: float


def minimize_quadratic(
    H: Array,
    c: Array,
    center: Array,
    A: Any,
    h1: Any,
    h2: Any = None,
    *,
    b: Array | None = None,
    start: Array | None = None,
    dual: Array | None = None,
    tol: float = 1e-10,
    max_iter: int = 5000,
    penalty: float | None = None,
) -> QuadraticResult:
    """Minimize a quadratic plus ``h1(A w - b) + h2(w)``.

    Parameters
    ----------
    H : array of shape (d, d) or (d C, d C)
        Positive semidefinite; for w of shape (d, C) either one matrix for all columns or the
        matrix of all entries in row-major order.
    c, center : array of shape (d,) or (d, C)
        Gradient at the center, and the center x.
    A : Operator or matrix
        Structure.
    h1, h2 : Penalty
        Penalties of the structure and, optionally, of w itself.
    b : array, optional
        Subtracted from ``A w``.
    start, dual : array, optional
        First guesses of w (the center otherwise) and of the multiplier.
    tol : float, default=1e-10
        For both relative residuals.
    max_iter : int, default=5000
        Most iterations of the splitting.
    penalty : float, optional
        First penalty of the splitting, e.g. that of a similar problem.

    Returns
    -------
    QuadraticResult

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.operators import Identity
    >>> from stochadmm.penalties import L1
    >>> from stochadmm.quadratic import minimize_quadratic
    >>> found = minimize_quadratic(
    ...     np.eye(2), np.array([-3.0, 0.2]), np.zeros(2), Identity(2), L1(1.0)
    ... )
    >>> found.w.round(9)
    array([ 2., -0.])
    """
    model = QuadraticModel(A, h1, h2, np.shape(center), b)
    return model.minimize(
        H, c, center, start=start, dual=dual, tol=tol, max_iter=max_iter, penalty=penalty
    )


class QuadraticModel:
    """The penalties and the structure of small problems, prepared for many H, c and centers.

    The penalty of the splitting is remembered from one problem to the next.
    """

    def __init__(
        self, A: Any, h1: Any, h2: Any = None, shape: Shape = (), b: Array | None = None
    ) -> None:
        d, outputs = shape[0], shape[1:]
        matrix = _as_sparse(A, d)
        self.shape, self.matrix = shape, matrix
        self.b1 = 0.0 if b is None else b
        T, simple = unfold(h1, matrix.shape[0], outputs)
        self.unfold1 = None if T.shape[0] == T.shape[1] else T
        blocks, parts = [T @ matrix], [(simple, T.shape[0])]
        self.unfold2 = None
        if h2 is not None:
            T2, simple2 = unfold(h2, d, outputs)
            blocks.append(T2)
            parts.append((simple2, T2.shape[0]))
            self.unfold2 = T2
        self.S = sparse.csr_array(sparse.vstack(blocks))
        self.St = sparse.csr_array(self.S.T)
        self.h = parts[0][0] if h2 is None else Stacked(parts)
        self.b = np.zeros((self.S.shape[0], *outputs))
        if b is not None:
            self.b[: T.shape[0]] = T @ b
        self.first = T.shape[0]
        self.gram = np.asarray((self.St @ self.S).toarray())
        self.penalty: float | None = None
        self.views = _views(self.S, self.h, outputs)

    def minimize(
        self,
        H: Array,
        c: Array,
        center: Array,
        *,
        start: Array | None = None,
        dual: Array | None = None,
        tol: float = 1e-10,
        max_iter: int = 5000,
        penalty: float | None = None,
    ) -> QuadraticResult:
        """Solve one problem; see `minimize_quadratic`."""
        if H.shape[0] != self.shape[0] or (
            len(self.shape) == 2 and self._coupled() and c.size <= FLATTEN
        ):
            return self._flattened(H, c, center, start, dual, tol, max_iter, penalty)
        w = np.array(center if start is None else start, dtype=np.float64)
        mu = self._stacked_dual(dual)
        run = _Run(self, np.asarray(H, dtype=np.float64), c, center, w, mu, tol)
        with np.errstate(over="ignore", invalid="ignore"):  # a problem may have no minimum
            run.choose_penalty(penalty if penalty is not None else self.penalty)
            run.solve(max_iter)
            run.project_dual()
        self.penalty = run.penalty
        return self._result(run)

    def _coupled(self) -> bool:
        """Whether the penalty ties the outputs together in a way that Newton must know."""
        return self.views is not None and bool(self.views[1].kinds.any())

    def _stacked_dual(self, dual: Array | None) -> Array:
        mu = np.zeros_like(self.b)
        if dual is None:
            return mu
        if dual.shape == self.b.shape:
            mu[:] = dual
        elif self.unfold1 is None:
            mu[: self.first] = dual
        return mu

    def _flattened(
        self, H: Array, c: Array, center: Array, start: Any, dual: Any, tol: float,
        max_iter: int, penalty: float | None,
    ) -> QuadraticResult:  # fmt: skip
        """Solve for all entries as one vector."""
        outputs = self.shape[1]
        inner = self._vector_model()
        if H.shape[0] == self.shape[0]:
            H = np.kron(H, np.eye(outputs))
        mu = self._stacked_dual(dual)
        found = inner.minimize(
            H, np.ravel(c), np.ravel(center), start=None if start is None else np.ravel(start),
            dual=mu.ravel(), tol=tol, max_iter=max_iter,
            penalty=penalty if penalty is not None else self.penalty,
        )  # fmt: skip
        self.penalty = found.penalty
        mu = found.dual.reshape(self.b.shape)
        w = found.w.reshape(self.shape)
        return self._pack(
            w, found.z.reshape(self.b.shape), mu, found.residual, found.n_iter, found.penalty
        )

    def _vector_model(self) -> QuadraticModel:
        kept = self.__dict__.get("_vector")
        if kept is None:
            outputs = self.shape[1]
            S = sparse.csr_array(sparse.kron(self.S, sparse.eye_array(outputs)))
            flat = _Flat(self.h, self.b.shape)
            size = self.shape[0] * outputs
            kept = self._vector = QuadraticModel(S, flat, None, (size,), self.b.ravel())
        return cast(QuadraticModel, kept)

    def _result(self, run: _Run) -> QuadraticResult:
        return self._pack(run.w, run.z, run.mu, run.residual, run.n_iter, run.penalty)

    def _pack(
        self, w: Array, z: Array, mu: Array, residual: float, n_iter: int, penalty: float
    ) -> QuadraticResult:
        own, image, dual2 = mu[: self.first], z[: self.first], None
        if self.unfold1 is not None:
            own, image = self.unfold1.T @ own, self.matrix @ w - self.b1
        if self.unfold2 is not None:
            dual2 = self.unfold2.T @ mu[self.first :]
        return QuadraticResult(w, image, own, dual2, residual, n_iter, penalty)


@dataclass(frozen=True)
class _Flat:
    """A penalty of a matrix as one of the vector of its entries."""

    penalty: Any
    shape: Shape

    def value(self, x: Array) -> float:
        return float(self.penalty.value(x.reshape(self.shape)))

    def prox(self, v: Array, step: float, out: Array | None = None) -> Array:
        result = self.penalty.prox(v.reshape(self.shape), step).ravel()
        if out is None:
            return cast(Array, result)
        out[:] = result
        return out

    def project_dual(self, u: Array) -> Array:
        return cast(Array, self.penalty.project_dual(u.reshape(self.shape)).ravel())

    def terms(self, n_rows: int) -> Any:
        made = self.penalty.terms(self.shape[0]) if hasattr(self.penalty, "terms") else None
        if made is None:
            return None
        outputs, found = self.shape[1], []
        for term in made:
            if isinstance(term, Elementwise):
                numbers = [term.l1, term.l2, term.lo, term.hi]
                wide = [n if n.size != term.size else np.repeat(n, outputs) for n in numbers]
                found.append(Elementwise(term.size * outputs, *wide))
            elif isinstance(term, GroupNorms):
                found.append(GroupNorms(term.sizes * outputs, term.weights))  # type: ignore[arg-type]
            else:
                return None
        return found


class _Run:
    """One solution in progress, relative to the center so that small steps are exact."""

    def __init__(
        self,
        model: QuadraticModel,
        H: Array,
        c: Array,
        center: Array,
        w: Array,
        mu: Array,
        tol: float,
    ) -> None:
        self.model, self.H, self.tol = model, H, tol
        self.center = _tall(center)
        self.c = _tall(c)
        self.step = np.ascontiguousarray(_tall(w) - self.center)
        self.at_center = model.S @ self.center - _tall(model.b)
        self.shift = np.ascontiguousarray(-self.at_center)
        self.dual = np.ascontiguousarray(_tall(mu))
        self.image = np.ascontiguousarray(self.at_center + model.S @ self.step)
        self.primal = self.stationary = np.inf
        self.n_iter = 0
        self.penalty = 1.0
        # sizes below which a number is zero for the relative residuals
        self.force = max(_top(self.c), 1e-300)
        reach = self.force / max(float(np.diag(H).max(initial=0.0)), 1e-300)
        self.length = max(_top(self.at_center), min(reach, 1.0), 1e-300)
        self.far = UNBOUNDED * max(_top(self.center), _top(self.step), min(reach, 1.0))
        self.unbounded = False
        self.ridge = RIDGE * max(float(np.trace(H)), np.finfo(float).tiny) / len(H)

    @property
    def w(self) -> Array:
        """The minimizer, in the shape of the center."""
        return cast(Array, (self.center + self.step).reshape(self.model.shape))

    @property
    def z(self) -> Array:
        """The structure of the minimizer as the prox leaves it."""
        return self.image.reshape(self.model.b.shape)

    @property
    def mu(self) -> Array:
        """The multiplier."""
        return self.dual.reshape(self.model.b.shape)

    @property
    def residual(self) -> float:
        """The larger of the relative residuals."""
        worst = float(np.max([self.primal, self.stationary]))
        return worst if np.isfinite(worst) else np.inf

    def choose_penalty(self, given: float | None) -> None:
        """Start from a penalty that is given, or from the sizes of multiplier and structure."""
        usual = float(np.trace(self.H)) / max(float(np.trace(self.model.gram)), 1e-300)
        size, pull = float(np.linalg.norm(self.image)), float(np.linalg.norm(self.dual))
        guess = 0.1 * usual if usual > 0 else 1.0
        if given is not None:
            guess = given
        elif size > 0 and pull > 0:
            guess = pull / size
        self.penalty = float(np.clip(guess, 1e-7 * usual, 1e4 * usual)) if usual > 0 else guess
        self.usual = usual if usual > 0 else max(guess, 1.0)

    def solve(self, max_iter: int) -> None:
        """Alternate between stretches of the splitting and Newton's method."""
        splitting = self._python if self.model.views is None else self._compiled
        # Newton's systems are dear: they pay when many digits are asked for
        rough = self.tol >= ROUGH
        stretch, newton_after = 50, 400 if rough else 50
        if self.model.views is not None and self.dual.any() and not rough:
            # a guess may be all but right
            self._newton()
            self.unbounded = False
        while self.n_iter < max_iter and self.residual > self.tol:
            inverse = self._inverse()
            before = self.n_iter
            splitting(inverse, min(stretch, max_iter - self.n_iter))
            if self.residual <= self.tol:
                break
            if self.model.views is not None and self.n_iter >= newton_after:
                self._newton()
                newton_after = 2 * self.n_iter + 50
            if self.unbounded or not _top(self.step) <= self.far:
                self.primal = np.inf
                break
            self._balance()
            stretch = max(50, self.n_iter - before)

    def _inverse(self) -> Array:
        matrix = self.H + self.penalty * self.model.gram
        matrix.flat[:: len(matrix) + 1] += self.ridge
        factor, info = lapack.dpotrf(matrix, lower=1)
        if info != 0:
            return cast(Array, np.linalg.pinv(matrix, hermitian=True))
        half, _ = lapack.dpotri(factor, lower=1)
        return np.ascontiguousarray(np.tril(half) + np.tril(half, -1).T)

    def _balance(self) -> None:
        """Move the penalty towards equal residuals, each in the unit of its own side."""
        length, force = _top(self.image), _top(self.model.St @ self.dual)
        primal = self.primal * max(length, self.length) * force
        stationary = self.stationary * max(force, self.force) * length
        if primal > 0 and stationary > 0:
            ratio = float(np.clip(np.sqrt(primal / stationary), 0.1, 10.0))
            if ratio > 2 or ratio < 0.5:
                new = self.penalty * ratio
                self.penalty = float(np.clip(new, 1e-9 * self.usual, 1e6 * self.usual))

    def project_dual(self) -> None:
        """Remove what rounding puts outside the dual set, and measure the rest again."""
        if hasattr(self.model.h, "project_dual"):
            self.dual = _tall(self.model.h.project_dual(self.mu))
            left = self.c + self.H @ self.step + self.model.St @ self.dual
            self.stationary = _top(left) / max(_top(self.model.St @ self.dual), self.force)

    # ---------------------------------------------------------------- splitting

    def _compiled(self, inverse: Array, n_iter: int) -> None:
        from .kernels.quadratic import splitting

        assert self.model.views is not None
        S, h = self.model.views
        done, self.primal, self.stationary = splitting(
            inverse, -self.c, S, h, self.shift, self.penalty, RELAXATION, self.step, self.image,
            self.dual, n_iter, 10, self.tol, self.length, self.force,
        )  # fmt: skip
        self.n_iter += done

    def _python(self, inverse: Array, n_iter: int) -> None:
        """Run the loop of ``kernels.quadratic.splitting`` for penalties without a view."""
        S, St, penalty = self.model.S, self.model.St, self.penalty
        shape = self.model.b.shape
        for k in range(n_iter):
            pull = penalty * (self.image + self.shift) - self.dual
            self.step = inverse @ (St @ pull - self.c)
            image = S @ self.step - self.shift
            exact = self.dual + penalty * (image - self.image)
            mixed = RELAXATION * image + (1 - RELAXATION) * self.image
            ahead = mixed + self.dual / penalty
            self.image = _tall(self.model.h.prox(ahead.reshape(shape), 1 / penalty))
            self.dual = penalty * (ahead - self.image)
            self.n_iter += 1
            if (k + 1) % 10 == 0 or k + 1 == n_iter:
                self.primal = _top(image - self.image) / max(_top(image), self.length)
                left, size = _top(St @ (self.dual - exact)), _top(St @ self.dual)
                self.stationary = left / max(size, self.force)
                if self.residual <= self.tol:
                    break

    # ---------------------------------------------------------------- Newton

    def _newton(self) -> None:
        """Run the augmented Lagrangian, output by output where there are several."""
        assert self.model.views is not None
        S, h = self.model.views
        outputs = self.c.shape[1]
        if outputs > 1 and h.kinds.any():
            return
        kept = (self.step.copy(), self.image.copy(), self.dual.copy())
        primal = stationary = 0.0
        for column in range(outputs):
            view = h if outputs == 1 else _column_view(h, column, outputs)
            found = _augmented_lagrangian(self, S, view, column)
            primal, stationary = max(primal, found[0]), max(stationary, found[1])
        if max(primal, stationary) < self.residual:
            self.primal, self.stationary = primal, stationary
        else:
            self.step, self.image, self.dual = kept


def _augmented_lagrangian(run: _Run, S: Any, h: Any, column: int) -> tuple[float, float]:
    """Solve for one output in place; return its relative residuals."""
    from .kernels.quadratic import augmented, newton_matrix

    St, H, c = run.model.St, run.H, run.c[:, column]
    shift = np.ascontiguousarray(run.shift[:, [column]])
    w, dual = run.step[:, [column]].copy(), run.dual[:, [column]].copy()
    shifted, z, new, weight = (np.zeros_like(dual) for _ in range(4))
    matrix = np.empty_like(H)
    penalty, primal, size = run.penalty, np.inf, max(run.force, _top(St @ dual))

    anchor, hold = w.copy(), 0.0

    def look(at: Array) -> Array:
        augmented(S, h, shift, dual, penalty, at, shifted, z, new, weight)
        return cast(Array, c + H @ at[:, 0] + hold * (at - anchor)[:, 0] + St @ new[:, 0])

    began = run.n_iter
    for _ in range(40):
        if len(H) >= DEAR and run.n_iter - began > SYSTEMS:
            break  # a stretch of the splitting costs less than further systems
        slope = look(w)
        for _ in range(25):
            if _top(slope) <= 0.1 * run.tol * size:
                break
            newton_matrix(H, S, h, shifted, weight, matrix)
            move = _solve(matrix, -slope, run.ridge + hold)
            run.n_iter += 1
            before = _top(slope)
            w, slope = _line_search(look, w, move, slope)
            if _top(slope) > 0.5 * before and before <= 1e3 * run.tol * size:
                break
        if not _top(w) <= run.far:
            run.unbounded = True
            return np.inf, np.inf
        last, image = primal, run.model.S @ w - shift
        primal = _top(image - z) / max(_top(image), run.length)
        dual = new.copy()
        size = max(run.force, _top(St @ dual))
        stationary = _top(slope - hold * (w - anchor)[:, 0]) / size
        anchor = w.copy()
        if max(primal, stationary) <= run.tol:
            break
        if _top(slope) > 0.1 * size * max(run.tol, primal):
            # too many pieces between here and the solution: smaller steps on smoother ground
            hold = max(hold, HOLD * run.ridge / RIDGE)
            penalty *= 0.1
        elif primal > max(run.tol, 0.2 * last):
            penalty *= 4.0
        hold *= 0.1
    run.step[:, column], run.dual[:, column], run.image[:, column] = w[:, 0], dual[:, 0], z[:, 0]
    return primal, stationary


def _line_search(look: Any, w: Array, move: Array, slope: Array) -> tuple[Array, Array]:
    """Go along a descent direction of a convex function until it no longer rises steeply."""
    first = float(slope @ move)
    t = 1.0
    for _ in range(12):
        ahead = w + t * move[:, None]
        there = look(ahead)
        rise = float(there @ move)
        if rise <= 0.5 * abs(first):
            break
        t *= max(0.1, abs(first) / (abs(first) + rise))
    return ahead, there


def _solve(matrix: Array, right: Array, ridge: float) -> Array:
    """Solve with the lower triangle of a positive semidefinite matrix, lifted until it can be."""
    diagonal = np.diag(matrix).copy()
    for _ in range(8):
        matrix.flat[:: len(matrix) + 1] = diagonal + ridge
        _, x, info = lapack.dposv(matrix.T, right, lower=0)
        if info == 0:
            return cast(Array, x)
        ridge *= 100.0
    return cast(Array, right / np.maximum(diagonal, ridge))


def _column_view(h: Any, column: int, outputs: int) -> Any:
    """Return the view of an elementwise penalty on one output."""
    if not h.per_entry:
        return h
    numbers = {
        name: np.ascontiguousarray(getattr(h, name).reshape(-1, outputs)[:, column])
        for name in ("l1", "l2", "lo", "hi")
    }
    return h._replace(per_entry=False, **numbers)


def _views(S: Any, h: Any, outputs: Shape) -> tuple[Any, Any] | None:
    from .kernels.views import operator_view, penalty_view

    columns = outputs[0] if outputs else 1
    made = penalty_view(h, S.shape[0], columns, np.dtype(np.float64))
    if made is None:
        return None
    return operator_view(as_operator(S), np.dtype(np.float64)), made


def _as_sparse(A: Any, d: int) -> Any:
    if hasattr(A, "tosparse"):
        A = A.tosparse()
    elif hasattr(A, "matvec"):
        A = A.matvec(np.eye(d))
    return sparse.csr_array(A).astype(np.float64)


def _tall(x: Array) -> Array:
    wide = np.asarray(x, dtype=np.float64)
    return wide.reshape(len(wide), int(np.prod(wide.shape[1:])))


def _top(x: Array) -> float:
    return float(np.abs(x).max(initial=0.0))


def unfold(penalty: Any, n_rows: int, outputs: Shape = ()) -> tuple[Any, Any]:
    """Write a penalty as ``simple(T x)`` where the dual set of ``simple`` spans whole coordinates.

    A total variation becomes the l1 norm of differences; everything else stays, with T = I.

    Returns
    -------
    T : CSR array
    simple : Penalty
    """
    if isinstance(penalty, Stacked):
        made = [unfold(part, size, outputs) for part, size in penalty.parts if size]
        if all(T.shape[0] == T.shape[1] for T, _ in made):
            return sparse.csr_array(sparse.eye_array(n_rows)), penalty
        T = sparse.csr_array(sparse.block_diag([T for T, _ in made]))
        return T, Stacked([(simple, T.shape[0]) for T, simple in made])
    terms = penalty.terms(n_rows) if hasattr(penalty, "terms") else None
    if terms and len(terms) == 1 and isinstance(terms[0], TotalVariation):
        ones: Any = np.ones(max(n_rows - 1, 0))
        D = sparse.diags_array([-ones, ones], offsets=[0, 1], shape=(ones.size, n_rows))
        return sparse.csr_array(D), L1(terms[0].weight)
    return sparse.csr_array(sparse.eye_array(n_rows)), penalty
