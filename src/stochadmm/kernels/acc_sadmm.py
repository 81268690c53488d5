"""The inner loop of ACC-SADMM, compiled; step by step the loop of ``solvers/acc_sadmm.py``.

Products with A1 and A2 are kept for x and for the extrapolated point y, which is a combination of
two x's, so a step costs one product with each operator and one with each transpose. ``inverse`` is
either empty (linearized x2 step with ``step2`` and the prox of h2) or the inverse matrix of the x2
step.
"""

from __future__ import annotations

import numpy as np

from ._jit import kernel
from .algebra import copy, flat, multiply, multiply_transposed
from .prox import prox
from .rows import batch_gradient


@kernel
def inner_loop(
    p, batches, n_runs, row_weight, slopes, full_gradient, at_snapshot, beta, momentum, anchor,
    step1, step2, inverse, x1, x2, y1, y2, before1, before2, total1, total2, dual, ahead,
    work, work1, work2,
):  # fmt: skip
    """Run one epoch in place.

    ``dual`` holds lambda-tilde on entry and lambda of the last step on exit.
    ``ahead`` receives lambda-tilde after the last step. The ``work`` arrays hold 7 vectors of the
    multiplier's shape, 2 of x1's and 3 of x2's, zero on entry.
    """
    f, h1, h2, A1, A2 = p.f, p.h1, p.h2, p.A1, p.A2
    n_inner = batches.shape[0]
    pull, lead = beta / momentum, 1 - momentum - anchor
    a1x, a2x, a1y, a2y, a1n, a2n, force = (
        work[0],
        work[1],
        work[2],
        work[3],
        work[4],
        work[5],
        work[6],
    )
    new1, back1 = work1[0], work1[1]
    new2, back2, change = work2[0], work2[1], work2[2]
    multiply(A1, x1, a1x)
    multiply(A2, x2, a2x)
    multiply(A1, y1, a1y)
    multiply(A2, y2, a2y)
    copy(dual, ahead)

    f_dual, f_ahead, f_force = flat(dual), flat(ahead), flat(force)
    f_b, f_snap = flat(p.b), flat(at_snapshot)
    f_a1x, f_a2x, f_a1y, f_a2y = flat(a1x), flat(a2x), flat(a1y), flat(a2y)
    f_a1n, f_a2n = flat(a1n), flat(a2n)
    f_x1, f_y1, f_new1, f_back1 = flat(x1), flat(y1), flat(new1), flat(back1)
    f_x2, f_y2, f_new2, f_back2 = flat(x2), flat(y2), flat(new2), flat(back2)
    f_before1, f_before2, f_total1, f_total2 = (
        flat(before1), flat(before2), flat(total1), flat(total2),
    )  # fmt: skip
    f_change, f_full = flat(change), flat(full_gradient)

    for k in range(n_inner):
        for j in range(f_dual.size):
            gap = f_a1x[j] + f_a2x[j] - f_snap[j]
            f_dual[j] = f_ahead[j] + beta * anchor / momentum * gap
            f_force[j] = f_dual[j] + pull * (f_a1y[j] + f_a2y[j] - f_b[j])
        if x1.size > 0:
            multiply_transposed(A1, force, back1)
            for j in range(f_x1.size):
                f_back1[j] = f_y1[j] - step1 * f_back1[j]
            prox(h1, back1, step1, new1)
            multiply(A1, new1, a1n)

        following = batches[min(k + 1, n_inner - 1), 0]
        batch_gradient(f, batches[k], following, n_runs, y2, slopes, row_weight, change)
        for j in range(f_dual.size):
            f_force[j] = f_dual[j] + pull * (f_a1n[j] + f_a2y[j] - f_b[j])
        multiply_transposed(A2, force, back2)
        for j in range(f_x2.size):
            f_back2[j] += f_full[j] + f_change[j]
        if inverse.size > 0:
            np.dot(inverse, back2, change)
            for j in range(f_x2.size):
                f_new2[j] = f_y2[j] - f_change[j]
        else:
            for j in range(f_x2.size):
                f_back2[j] = f_y2[j] - step2 * f_back2[j]
            prox(h2, back2, step2, new2)
        multiply(A2, new2, a2n)

        keep = 1 if k < n_inner - 1 else 0
        for j in range(f_dual.size):
            f_ahead[j] = f_dual[j] + beta * (f_a1n[j] + f_a2n[j] - f_b[j])
            f_a1y[j] = f_a1n[j] + lead * (f_a1n[j] - f_a1x[j])
            f_a2y[j] = f_a2n[j] + lead * (f_a2n[j] - f_a2x[j])
            f_a1x[j], f_a2x[j] = f_a1n[j], f_a2n[j]
        for j in range(f_x1.size):
            f_y1[j] = f_new1[j] + lead * (f_new1[j] - f_x1[j])
            f_before1[j], f_x1[j] = f_x1[j], f_new1[j]
            f_total1[j] += keep * f_new1[j]
        for j in range(f_x2.size):
            f_y2[j] = f_new2[j] + lead * (f_new2[j] - f_x2[j])
            f_before2[j], f_x2[j] = f_x2[j], f_new2[j]
            f_total2[j] += keep * f_new2[j]
