"""The inner loop of VR-PDDY, compiled; step by step the loop of ``solvers/vr_pddy.py``."""

from __future__ import annotations

from ._jit import kernel
from .algebra import flat, multiply_transposed
from .primal_dual import dual_step
from .prox import prox
from .rows import batch_gradient


@kernel
def inner_loop(
    p, batches, n_runs, row_weight, slopes, full_gradient, step, sigma, tight, x1, x2, lead, dual,
    total1, total2, work, work1, work2,
):  # fmt: skip
    """Run the steps of one span in place.

    ``total1`` and ``total2`` grow by every x. The ``work`` arrays hold 3 vectors of the
    multiplier's shape, 1 of x1's and 3 of x2's.
    """
    n_inner = batches.shape[0]
    change, back, target = work2[0], work2[1], work2[2]
    f_x1, f_x2, f_lead = flat(x1), flat(x2), flat(lead)
    f_change, f_back, f_target = flat(change), flat(back), flat(target)
    f_full = flat(full_gradient)
    f_total1, f_total2 = flat(total1), flat(total2)
    multiply_transposed(p.A2, dual, back)
    for k in range(n_inner):
        prox(p.h2, lead, step, x2)
        following = batches[min(k + 1, n_inner - 1), 0]
        batch_gradient(p.f, batches[k], following, n_runs, x2, slopes, row_weight, change)
        for j in range(f_x2.size):
            f_change[j] += f_full[j]
            f_target[j] = 2 * f_x2[j] - f_lead[j] - step * (f_change[j] + f_back[j])
        dual_step(p, target, sigma, tight, dual, x1, work, work1)
        multiply_transposed(p.A2, dual, back)
        for j in range(f_x2.size):
            f_lead[j] = f_x2[j] - step * (f_change[j] + f_back[j])
            f_total2[j] += f_x2[j]
        for j in range(f_x1.size):
            f_total1[j] += f_x1[j]
