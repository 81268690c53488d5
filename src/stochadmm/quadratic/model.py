"""The penalties of small problems, prepared once for many quadratics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..base.clock import NEVER, Deadline
from ..base.protocols import Array, Shape
from ..base.workspace import Workspace
from ..forms.one_block import unfold
from ..forms.structure import structure
from ..linear_algebra.implicit import Implicit
from ..penalties import Stacked
from .implicit import ImplicitRun
from .options import DEFAULTS, QuadraticOptions
from .parts import Flat, Views, as_sparse, compiled_views, splitting_views
from .run import MatrixRun, Run

Accept = Callable[[Array], bool]


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
    H: Any,
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
    deadline: Deadline = NEVER,
    workspace: Workspace | None = None,
) -> QuadraticResult:
    """Minimize a quadratic plus ``h1(A w - b) + h2(w)``.

    Parameters
    ----------
    H : array of shape (d, d) or (d C, d C)
        Positive semidefinite; for w of shape (d, C) either one matrix for all columns or the
        matrix of all entries in row-major order; or an `Implicit` one.
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
    deadline : Deadline, optional
        When to end with what there is.
    workspace : Workspace, optional
        Where what depends on the structure alone is shared.

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
    model = QuadraticModel(A, h1, h2, np.shape(center), b, workspace=workspace)
    return model.minimize(
        H,
        c,
        center,
        start=start,
        dual=dual,
        tol=tol,
        max_iter=max_iter,
        penalty=penalty,
        deadline=deadline,
    )


class QuadraticModel:
    """The penalties and the structure of small problems, prepared for many H, c and centers.

    Parameters
    ----------
    A, h1, h2, b
        As in `minimize_quadratic`.
    shape : tuple of int
        Of w.
    options : QuadraticOptions, optional
        How the problems are solved.
    workspace : Workspace, optional
        Where what depends on the structure alone is shared. The last inverse is the only thing
        that is remembered from one problem to the next, so that equal problems have equal answers.
    """

    def __init__(
        self,
        A: Any,
        h1: Any,
        h2: Any = None,
        shape: Shape = (),
        b: Array | None = None,
        *,
        options: QuadraticOptions = DEFAULTS,
        workspace: Workspace | None = None,
    ) -> None:
        self.options = options
        self.workspace = Workspace() if workspace is None else workspace.run()
        d, outputs = shape[0], shape[1:]
        matrix = as_sparse(A, d)
        self.shape, self.matrix = shape, matrix
        self.b1 = 0.0 if b is None else b
        T, simple = unfold(h1, matrix.shape[0])
        self.unfold1 = None if T.shape[0] == T.shape[1] else T
        blocks, parts = [T @ matrix], [(simple, T.shape[0])]
        self.unfold2 = None
        if h2 is not None:
            T2, simple2 = unfold(h2, d)
            blocks.append(T2)
            parts.append((simple2, T2.shape[0]))
            self.unfold2 = T2
        self.structure = structure(sparse.vstack(blocks), self.workspace)
        self.S, self.St = self.structure.S, self.structure.St
        self.h = parts[0][0] if h2 is None else Stacked(parts)
        self.b = np.zeros((self.S.shape[0], *outputs))
        if b is not None:
            self.b[: T.shape[0]] = T @ b
        self.first = T.shape[0]
        self.sparse_gram = self.structure.sparse_gram
        self.gram_trace = float(self.sparse_gram.diagonal().sum())
        self.outputs = outputs
        self.views = compiled_views(self.S, self.h, outputs)

    @property
    def loop_views(self) -> Views | None:
        """Structure and penalty for compiled loops of the splitting; found when first used."""
        if self.views is not None or self.options.anchored:
            return self.views
        side = self.options.compiled_side
        return self.workspace.once(splitting_views, self.S, self.h, self.outputs, side)

    def gram(self) -> Array:
        """Return S'S as a dense matrix."""
        return self.structure.dense_gram

    def minimize(
        self,
        H: Any,
        c: Array,
        center: Array,
        *,
        start: Array | None = None,
        dual: Array | None = None,
        tol: float = 1e-10,
        max_iter: int = 5000,
        penalty: float | None = None,
        accept: Accept | None = None,
        deadline: Deadline = NEVER,
    ) -> QuadraticResult:
        """Solve one problem; see `minimize_quadratic`.

        With ``accept`` the accuracy is found on the way: from ``tol`` on it grows tenfold, down to
        ``options.least``, until ``accept(w)`` is true. The inverse of the last H is kept: do not
        change H in place. It may be an `Implicit` one.
        """
        implicit = isinstance(H, Implicit)
        if not implicit and self._flattens(H, c.size):
            return self._flattened(
                H, c, center, start, dual, tol, max_iter, penalty, accept, deadline
            )
        w = np.array(center if start is None else start, dtype=np.float64)
        mu = self._stacked_dual(dual)
        H = H if implicit else np.asarray(H, dtype=np.float64)
        kind: type[Run[Any]] = ImplicitRun if implicit else MatrixRun
        run = kind(self, H, c, center, w, mu, tol, deadline)
        least = self.options.least
        with np.errstate(over="ignore", invalid="ignore"):  # a problem may have no minimum
            run.choose_penalty(penalty)
            run.solve(max_iter)
            while accept is not None and not accept(run.w):
                over = run.n_iter >= max_iter or run.unbounded or deadline.passed()
                if run.tol <= least or over:
                    break
                run.tol = max(min(run.tol, run.residual) / 10, least)
                run.solve(max_iter)
            run.project_dual()
        return self._result(run)

    def _flattens(self, H: Any, size: int) -> bool:
        """Whether all entries are solved for as one vector."""
        return H.shape[0] != self.shape[0] or (
            len(self.shape) == 2 and self._coupled() and size <= self.options.flatten
        )

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
        self,
        H: Array,
        c: Array,
        center: Array,
        start: Any,
        dual: Any,
        tol: float,
        max_iter: int,
        penalty: float | None,
        accept: Accept | None,
        deadline: Deadline,
    ) -> QuadraticResult:
        """Solve for all entries as one vector."""
        outputs = self.shape[1]
        inner = self.workspace.once(
            _vector_model, self.S, self.h, self.b, outputs, self.options, self.workspace.shared
        )
        if H.shape[0] == self.shape[0]:
            H = np.kron(H, np.eye(outputs))
        mu = self._stacked_dual(dual)
        found = inner.minimize(
            H,
            np.ravel(c),
            np.ravel(center),
            start=None if start is None else np.ravel(start),
            dual=mu.ravel(),
            tol=tol,
            max_iter=max_iter,
            penalty=penalty,
            deadline=deadline,
            accept=None if accept is None else lambda w: accept(w.reshape(self.shape)),
        )
        mu = found.dual.reshape(self.b.shape)
        w = found.w.reshape(self.shape)
        return self._pack(
            w, found.z.reshape(self.b.shape), mu, found.residual, found.n_iter, found.penalty
        )

    def _result(self, run: Run[Any]) -> QuadraticResult:
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


def _vector_model(
    S: Any, h: Any, b: Array, outputs: int, options: QuadraticOptions, shared: Workspace
) -> QuadraticModel:
    """Return the model of all entries as one vector."""
    wide = sparse.csr_array(sparse.kron(S, sparse.eye_array(outputs)))
    flat, size = Flat(h, b.shape), S.shape[1] * outputs
    return QuadraticModel(wide, flat, None, (size,), b.ravel(), options=options, workspace=shared)
