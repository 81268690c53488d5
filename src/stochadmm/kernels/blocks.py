"""The block steps of ADMM inside compiled loops; see ``solvers/_steps.py`` for the same in words.

Every function is called once per step of a method. ``a1x`` and ``a2x`` are the products A1 x1 and
A2 x2, kept beside the blocks so that a step costs one product with each operator and one with each
transpose.
"""

from __future__ import annotations

from ._jit import kernel
from .algebra import flat, multiply, multiply_transposed
from .prox import prox


@kernel
def set_force(b, dual, beta, a1x, a2x, force):
    """Write dual + beta (A1 x1 + A2 x2 - b) into force."""
    f_b, f_dual, f_a1x, f_a2x, result = flat(b), flat(dual), flat(a1x), flat(a2x), flat(force)
    for j in range(result.size):
        result[j] = f_dual[j] + beta * (f_a1x[j] + f_a2x[j] - f_b[j])


@kernel
def move_x1(p, force, step, x1, a1x, back):
    """Take the x1 step under a force, in place."""
    if x1.size == 0:
        return
    multiply_transposed(p.A1, force, back)
    f_x1, f_back = flat(x1), flat(back)
    for j in range(f_x1.size):
        f_back[j] = f_x1[j] - step * f_back[j]
    prox(p.h1, back, step, x1)
    multiply(p.A1, x1, a1x)


@kernel
def move_x2(p, force, gradient, step, center, x2, a2x, back):
    """Write the x2 step from ``center`` into x2; ``center`` may be x2 itself."""
    multiply_transposed(p.A2, force, back)
    f_center, f_gradient, f_back = flat(center), flat(gradient), flat(back)
    for j in range(f_back.size):
        f_back[j] = f_center[j] - step * (f_gradient[j] + f_back[j])
    prox(p.h2, back, step, x2)
    multiply(p.A2, x2, a2x)


@kernel
def approach(x, share, mean):
    """Move a mean towards x by a share of the way."""
    f_x, f_mean = flat(x), flat(mean)
    for j in range(f_x.size):
        f_mean[j] += share * (f_x[j] - f_mean[j])


@kernel
def add(x, total):
    """Add x to a sum."""
    f_x, f_total = flat(x), flat(total)
    for j in range(f_x.size):
        f_total[j] += f_x[j]


@kernel
def blend(share, x, y, out):
    """Write share x + (1 - share) y into out."""
    f_x, f_y, result = flat(x), flat(y), flat(out)
    for j in range(result.size):
        result[j] = share * f_x[j] + (1 - share) * f_y[j]
