"""The inner loop of Katyusha, compiled; step by step the loop of ``solvers/katyusha.py``."""

from __future__ import annotations

from ._jit import kernel
from .algebra import flat
from .prox import prox
from .rows import batch_gradient


@kernel
def inner_loop(
    p, batches, n_runs, row_weight, slopes, full_gradient, snapshot, momentum, anchor, length,
    weights, y, z, mean, work,
):  # fmt: skip
    """Run one epoch in place: y, z, and the weighted sum of the y in ``mean``, zero on entry.

    ``work`` holds 3 vectors of the variable's shape.
    """
    n_inner = batches.shape[0]
    middle, change, moved = work[0], work[1], work[2]
    f_y, f_z, f_mean, f_snapshot = flat(y), flat(z), flat(mean), flat(snapshot)
    f_middle, f_change, f_moved = flat(middle), flat(change), flat(moved)
    f_full = flat(full_gradient)
    rest = 1 - momentum - anchor
    for k in range(n_inner):
        for j in range(f_y.size):
            f_middle[j] = momentum * f_z[j] + anchor * f_snapshot[j] + rest * f_y[j]
        following = batches[min(k + 1, n_inner - 1), 0]
        batch_gradient(p.f, batches[k], following, n_runs, middle, slopes, row_weight, change)
        for j in range(f_y.size):
            f_change[j] = f_z[j] - length * (f_full[j] + f_change[j])
        prox(p.h2, change, length, moved)
        weight = weights[k]
        for j in range(f_y.size):
            f_y[j] = f_middle[j] + momentum * (f_moved[j] - f_z[j])
            f_z[j] = f_moved[j]
            f_mean[j] += weight * f_y[j]
