"""The step of the multiplier in primal-dual methods; the twin of ``solvers/_primal_dual.py``."""

from __future__ import annotations

from ._jit import kernel
from .algebra import flat, multiply, multiply_transposed
from .prox import prox


@kernel
def dual_step(p, x2, sigma, tight, dual, x1, work, work1):
    """Write prox_{sigma H*}(dual + sigma A2 x2) into dual and the x1 that belongs to it into x1.

    ``tight`` is s of A1' A1 = s I; ``work`` holds 3 vectors of the multiplier's shape, ``work1``
    one of x1's.
    """
    if dual.size == 0:
        return
    rest, force, a1 = work[0], work[1], work[2]
    f_dual, f_rest, f_force, f_a1, f_b = flat(dual), flat(rest), flat(force), flat(a1), flat(p.b)
    back = work1[0]
    f_back = flat(back)
    multiply(p.A2, x2, rest)
    for j in range(f_dual.size):
        f_rest[j] -= f_b[j]
        f_force[j] = f_rest[j] + f_dual[j] / sigma
    multiply_transposed(p.A1, force, back)
    for j in range(f_back.size):
        f_back[j] /= -tight
    prox(p.h1, back, 1 / (sigma * tight), x1)
    multiply(p.A1, x1, a1)
    for j in range(f_dual.size):
        f_dual[j] += sigma * (f_a1[j] + f_rest[j])
