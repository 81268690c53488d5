"""The numbers of the small problem's solution, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class QuadraticOptions:
    """How small problems are solved.

    Parameters
    ----------
    relaxation : float
        Over-relaxation of the splitting; 1.5 to 1.8 save a third of its iterations.
    cancelled : float
        Share of the sizes of multipliers that their sum is taken for at least, when residuals are
        compared: two penalties of the same coordinates may pull against each other with no sum.
    near : float
        Relative residual from which on Newton's method needs few systems: most of the active set
        is found.
    patience : int
        Iterations of the splitting after which Newton's method is tried all the same.
    far : float
        Natural lengths beyond which a step has no end: the problem is unbounded.
    least : float
        Smallest relative residual that is asked for when the accuracy is found on the way.
    idle, gain : int, float
        So many stretches of the splitting that leave more than this share of a residual below
        ``least`` say that rounding has been reached.
    flatten : int
        Entries up to which coupled outputs are solved as one vector, with a matrix of that side.
    compiled_side : int
        Shorter side of a matrix up to which Jacobi's rotations find its singular values sooner
        than a call of LAPACK: the splitting with its nuclear norm is compiled.
    ridge : float
        Added to the diagonal, relative to its mean: collinear columns leave H singular.
    anchored : bool
        Whether that ridge pulls to the last step instead of zero. The solution is then that of
        the problem as it is, to rounding; but along directions that H hardly sees, such as the
        intercepts of classes with next to no weight, the splitting creeps.
    hold : float
        Weight of the proximal term, in units of the mean diagonal, that lets Newton's method go
        on where too many pieces of the penalty lie between it and the solution.
    costly_columns, most_systems : int
        From so many columns on, one run of Newton's method may take so many linear systems; a
        stretch of the splitting then costs less.
    sharper : float
        Share of the splitting's residual to which a system known by products is solved.
    first_steps, most_steps : int
        Steps of conjugate gradients in such a system: at first, and where they turn out too few.
    """

    relaxation: float = 1.7
    cancelled: float = 1e-3
    near: float = 1e-6
    patience: int = 400
    far: float = 1e8
    least: float = 1e-10
    idle: int = 3
    gain: float = 0.9
    flatten: int = 1500
    compiled_side: int = 16
    ridge: float = 1e-11
    anchored: bool = False
    hold: float = 1e-3
    costly_columns: int = 700
    most_systems: int = 80
    sharper: float = 0.3
    first_steps: int = 3
    most_steps: int = 48


DEFAULTS = QuadraticOptions()
