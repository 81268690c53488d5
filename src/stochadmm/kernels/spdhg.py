"""The inner loop of SPDHG, compiled; step by step the loop of ``solvers/spdhg.py``."""

from __future__ import annotations

from ._jit import kernel
from .algebra import copy, flat, multiply_transposed
from .dual_rows import data_step
from .primal_dual import dual_step
from .prox import prox


@kernel
def inner_loop(
    p, picks, n_blocks, share, tau, sigma, tight, sigmas, x1, x2, dual, pull, ahead, slopes,
    total1, total2, work, work1, work2,
):  # fmt: skip
    """Run one epoch in place; a pick below zero is the structure.

    The ``work`` arrays hold 4 vectors of the multiplier's shape, 1 of x1's and 1 of x2's.
    """
    change, old = work2[0], work[3]
    f_x1, f_x2, f_pull, f_ahead = flat(x1), flat(x2), flat(pull), flat(ahead)
    f_change, f_dual, f_old = flat(change), flat(dual), flat(old)
    f_total1, f_total2 = flat(total1), flat(total2)
    for k in range(picks.size):
        for j in range(f_x2.size):
            f_change[j] = f_x2[j] - tau * f_ahead[j]
        prox(p.h2, change, tau, x2)
        if picks[k] < 0:
            copy(dual, old)
            dual_step(p, x2, sigma, tight, dual, x1, work, work1)
            for j in range(f_dual.size):
                f_old[j] = f_dual[j] - f_old[j]
            multiply_transposed(p.A2, old, change)
            chance = share
        else:
            following = picks[k]
            for later in range(k + 1, picks.size):
                if picks[later] >= 0:
                    following = picks[later]
                    break
            data_step(p.f, picks[k], following, n_blocks, x2, sigmas[picks[k]], slopes, change)
            chance = (1 - share) / n_blocks
        for j in range(f_x2.size):
            f_pull[j] += f_change[j]
            f_ahead[j] = f_pull[j] + f_change[j] / chance
            f_total2[j] += f_x2[j]
        for j in range(f_x1.size):
            f_total1[j] += f_x1[j]
