"""The inner loop of SDCA-ADMM, compiled; step by step the loop of ``solvers/sdca_admm.py``."""

from __future__ import annotations

from ._jit import kernel
from .algebra import copy, flat, multiply_transposed
from .dual_rows import data_step
from .primal_dual import dual_step
from .prox import prox


@kernel
def inner_loop(
    p, blocks, n_blocks, scale, sigma, tight, lengths, has_h2, x1, x2, dual, dual2, residual,
    slopes, work, work1, work2,
):  # fmt: skip
    """Run one epoch in place.

    The ``work`` arrays hold 4 vectors of the multiplier's shape, 1 of x1's and 4 of x2's.
    """
    at, before, change, moved = work2[0], work2[1], work2[2], work2[3]
    f_x2, f_dual2, f_residual = flat(x2), flat(dual2), flat(residual)
    f_at, f_before, f_change, f_moved = flat(at), flat(before), flat(change), flat(moved)
    old = work[3]
    f_dual, f_old = flat(dual), flat(old)
    share = 1 - 1 / n_blocks
    for k in range(blocks.size):
        copy(residual, before)
        for j in range(f_x2.size):
            f_at[j] = f_x2[j] - scale * f_before[j]
        if dual.size > 0:
            copy(dual, old)
            dual_step(p, at, sigma, tight, dual, x1, work, work1)
            for j in range(f_dual.size):
                f_old[j] = f_dual[j] - f_old[j]
            multiply_transposed(p.A2, old, change)
            for j in range(f_x2.size):
                f_residual[j] += f_change[j]
        if has_h2:
            for j in range(f_x2.size):
                f_change[j] = f_at[j] + f_dual2[j] / sigma
            prox(p.h2, change, 1 / sigma, moved)
            for j in range(f_x2.size):
                new = sigma * (f_change[j] - f_moved[j])
                f_residual[j] += new - f_dual2[j]
                f_dual2[j] = new
        for j in range(f_x2.size):
            f_at[j] = f_x2[j] - scale * f_residual[j]
        following = blocks[min(k + 1, blocks.size - 1)]
        data_step(p.f, blocks[k], following, n_blocks, at, lengths[blocks[k]], slopes, change)
        for j in range(f_x2.size):
            f_residual[j] += f_change[j]
            f_x2[j] -= scale * (f_residual[j] - share * f_before[j])
