"""The inner loop of SAG-ADMM, compiled; step by step the loop of ``solvers/_reduced.py``."""

from __future__ import annotations

from ._jit import kernel
from .algebra import flat, multiply
from .blocks import add, move_x1, move_x2, set_force
from .rows import renewed_gradient


@kernel
def _remember(n, runs, n_runs, x, points, mean, share):
    """Set the points of the rows of the runs to x, and keep the mean of all points."""
    f_x, f_mean = flat(x), flat(mean)
    for r in range(runs.size):
        for i in range(runs[r] * n // n_runs, (runs[r] + 1) * n // n_runs):
            for j in range(f_x.size):
                f_mean[j] += share * (f_x[j] - points[i, j])
                points[i, j] = f_x[j]


@kernel
def inner_loop(
    p, batches, n_runs, share, table, mean_gradient, points, mean_point, curvature, beta, step1,
    step2, x1, x2, dual, total1, total2, work, work1, work2,
):  # fmt: skip
    """Run one epoch in place; with ``points``, x2 steps start between x2 and the mean point.

    The ``work`` arrays hold 3 vectors of the multiplier's shape, 1 of x1's and 3 of x2's.
    """
    force, a1x, a2x = work[0], work[1], work[2]
    back1, back2, change, center = work1[0], work2[0], work2[1], work2[2]
    f_mean, f_change = flat(mean_gradient), flat(change)
    f_x2, f_center, f_point = flat(x2), flat(center), flat(mean_point)
    n_inner = batches.shape[0]
    multiply(p.A1, x1, a1x)
    multiply(p.A2, x2, a2x)
    for k in range(n_inner):
        set_force(p.b, dual, beta, a1x, a2x, force)
        move_x1(p, force, step1, x1, a1x, back1)

        following = batches[min(k + 1, n_inner - 1), 0]
        renewed_gradient(p.f, batches[k], following, n_runs, x2, table, share, change)
        for j in range(f_mean.size):
            f_mean[j] += f_change[j]
        if points.size > 0:
            _remember(p.f.y.shape[0], batches[k], n_runs, x2, points, mean_point, share)
        for j in range(f_x2.size):
            f_center[j] = f_x2[j]
            if points.size > 0:
                f_center[j] += curvature * step2 * (f_point[j] - f_x2[j])
        set_force(p.b, dual, beta, a1x, a2x, force)
        move_x2(p, force, mean_gradient, step2, center, x2, a2x, back2)

        set_force(p.b, dual, beta, a1x, a2x, dual)
        add(x1, total1)
        add(x2, total2)
