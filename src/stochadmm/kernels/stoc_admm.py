"""The inner loop of the methods without variance reduction, compiled; see ``solvers/_plain.py``.

STOC-, OPG-, RDA-ADMM and OPT-SADMM take the same steps: a batch's gradient, x2, x1, multiplier,
average. They differ in the point of the gradient (``accelerated``), in what moves x2 (the present
gradient and force, or with ``averaged`` the means of all past ones, from the start ``origin``),
and in numbers that are given per step. A ``rotation`` makes the x2 step exact in the constraint:
its columns are the eigenvectors of A2'A2, ``spectrum`` the eigenvalues.
"""

from __future__ import annotations

import numpy as np

from ._jit import kernel
from .algebra import flat, multiply, multiply_transposed
from .blocks import approach, blend, move_x1, move_x2, set_force
from .rows import batch_gradient


@kernel
def _move_exactly(
    p, force, gradient, weight, beta, rotation, turned, spectrum, x2, a2x, back, work
):  # fmt: skip
    """Take the x2 step that keeps the constraint's square as it is, in place."""
    multiply_transposed(p.A2, force, back)
    f_gradient, f_back, f_x2 = flat(gradient), flat(back), flat(x2)
    for j in range(f_back.size):
        f_back[j] += f_gradient[j]
    np.dot(turned, back, work)
    for j in range(work.shape[0]):
        for c in range(work.shape[1]):
            work[j, c] /= weight + beta * spectrum[j]
    np.dot(rotation, work, back)
    for j in range(f_x2.size):
        f_x2[j] -= f_back[j]
    multiply(p.A2, x2, a2x)


@kernel
def inner_loop(
    p, batches, n_runs, row_weight, none, beta, step1, steps, weights, shares, accelerated,
    averaged, rotation, turned, spectrum, x1, x2, dual, mean1, mean2, origin, mean_gradient,
    mean_force, work, work1, work2,
):  # fmt: skip
    """Run one epoch in place; ``mean1``, ``mean2`` are the averages that the method keeps.

    The ``work`` arrays hold 3 vectors of the multiplier's shape, 1 of x1's and 3 of x2's.
    """
    n_inner = batches.shape[0]
    one = shares.dtype.type(1)
    force, a1x, a2x = work[0], work[1], work[2]
    back1, back2, gradient, point = work1[0], work2[0], work2[1], work2[2]
    multiply(p.A1, x1, a1x)
    multiply(p.A2, x2, a2x)
    for k in range(n_inner):
        following = batches[min(k + 1, n_inner - 1), 0]
        blend(shares[k] if accelerated else one, x2, mean2, point)
        batch_gradient(p.f, batches[k], following, n_runs, point, none, row_weight, gradient)

        set_force(p.b, dual, beta, a1x, a2x, force)
        if averaged:
            approach(gradient, shares[k], mean_gradient)
            approach(force, shares[k], mean_force)
        if rotation.size > 0:
            _move_exactly(
                p, force, gradient, weights[k], beta, rotation, turned, spectrum, x2, a2x, back2,
                point,
            )  # fmt: skip
        else:
            pulled, along = (mean_force, mean_gradient) if averaged else (force, gradient)
            center = origin if averaged else x2
            move_x2(p, pulled, along, steps[k], center, x2, a2x, back2)

        set_force(p.b, dual, beta, a1x, a2x, force)
        move_x1(p, force, step1, x1, a1x, back1)
        set_force(p.b, dual, beta, a1x, a2x, dual)
        approach(x1, shares[k], mean1)
        approach(x2, shares[k], mean2)
