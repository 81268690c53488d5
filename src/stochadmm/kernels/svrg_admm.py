"""The inner loop of SVRG-ADMM and ASVRG-ADMM, compiled; see ``solvers/_reduced.py``.

The gradient is taken at mix x2 + (1 - mix) snapshot; mix = 1 is SVRG-ADMM.
"""

from __future__ import annotations

from ._jit import kernel
from .algebra import multiply
from .blocks import add, blend, move_x1, move_x2, set_force
from .rows import batch_gradient


@kernel
def inner_loop(
    p, batches, n_runs, row_weight, slopes, full_gradient, snapshot, mix, beta, step1, step2,
    x1, x2, dual, total1, total2, work, work1, work2,
):  # fmt: skip
    """Run one epoch in place; ``total1``, ``total2`` receive the sums of the iterates.

    The ``work`` arrays hold 3 vectors of the multiplier's shape, 1 of x1's and 3 of x2's.
    """
    n_inner = batches.shape[0]
    force, a1x, a2x = work[0], work[1], work[2]
    back1, back2, gradient, point = work1[0], work2[0], work2[1], work2[2]
    multiply(p.A1, x1, a1x)
    multiply(p.A2, x2, a2x)
    for k in range(n_inner):
        set_force(p.b, dual, beta, a1x, a2x, force)
        move_x1(p, force, step1, x1, a1x, back1)

        following = batches[min(k + 1, n_inner - 1), 0]
        blend(mix, x2, snapshot, point)
        batch_gradient(p.f, batches[k], following, n_runs, point, slopes, row_weight, gradient)
        add(full_gradient, gradient)
        set_force(p.b, dual, beta, a1x, a2x, force)
        move_x2(p, force, gradient, step2, x2, x2, a2x, back2)

        set_force(p.b, dual, beta, a1x, a2x, dual)
        add(x1, total1)
        add(x2, total2)
