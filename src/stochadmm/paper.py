"""ACC-SADMM as in the paper, to be read beside it: the oracle of the tests.

    min  h1(x1) + f1(x1) + h2(x2) + (1/n) sum_i f2_i(x2)    s.t.  A1 x1 + A2 x2 = b         (1)

C. Fang, F. Cheng, Z. Lin, "Faster and Non-ergodic O(1/K) Stochastic ADMM", arXiv 1704.06793v1.
Its equation numbers stand on the right; (*) corrects the printed text, and
docs/explain/acc-sadmm.md says why. As there, x = (x1, x2) is one vector and A x = A1 x1 + A2 x2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class Run(NamedTuple):
    """What a run returns: x^ of every epoch as a pair (x1, x2), and the last lambda^ of (16)."""

    outputs: list[tuple[Array, Array]]
    lam: Array


def acc_sadmm(
    problem: Any,
    beta: float,
    m: int,
    b: int,
    S: int,
    L1: float | None = None,
    L2: float | None = None,
    tau: float = 2,
    c: float = 2,
    rng: np.random.Generator | None = None,
) -> Run:
    """Run S epochs of m >= 3 steps on batches of b rows from 0; L1, L2 are the problem's."""
    p, rng = problem, rng or np.random.default_rng(0)
    if p.A1 is None:
        raise ValueError("the problem has no constraint; state it with A1 and A2")
    h1, h2 = (h.prox if h is not None else lambda v, step: v for h in (p.h1, p.h2))
    grad_f1 = p.f1.gradient if p.f1 is not None else lambda x1: 0.0
    L1 = L1 if L1 is not None else 0.0 if p.f1 is None else p.f1.lipschitz
    L2 = p.f2.lipschitz_max if L2 is None else L2
    d1, b_ = p.shape1[0], 0.0 if p.b is None else p.b  # x1 = x[:d1], x2 = x[d1:], b of (1)

    def A(x: Array) -> Array:
        return np.asarray(p.A1.matvec(x[:d1]) + p.A2.matvec(x[d1:]))

    lam_t, outputs = np.zeros(p.shape_dual), []  # lambda~
    x = y = x_t = np.zeros((d1 + p.shape2[0], *p.shape2[1:]))  # x~
    theta2 = (m - tau) / (tau * (m - 1))
    for s in range(S):
        theta1, theta1_next = 1 / (c + tau * s), 1 / (c + tau * (s + 1))
        eta1 = L1 + beta * p.A1.norm2 / theta1  # norm2: |Ai'Ai|, or a bound of it             (6)
        eta2 = (1 + 1 / (b * theta2)) * L2 + beta * p.A2.norm2 / theta1  #                     (7)
        b_t = A(x_t)  # b~, also of the first epoch                                            (*)
        full, total = p.f2.gradient(x_t[d1:]), np.zeros_like(x)  # total = x^1 + ... + x^(m-1)
        for k, rows in enumerate(rng.integers(p.f2.n_terms, size=(m, b))):
            lam = lam_t + beta * theta2 / theta1 * (A(x) - b_t)  #                             (9)
            g1 = grad_f1(y[:d1]) + p.A1.rmatvec(lam + beta / theta1 * (A(y) - b_))  #          (*)
            x1 = h1(y[:d1] - g1 / eta1, 1 / eta1)  #                                           (6)
            v = p.f2.gradient_rows(rows, y[d1:]) - p.f2.gradient_rows(rows, x_t[d1:]) + full  # (5)
            u = np.concatenate([x1, y[d1:]])  # what the second block sees, at y2              (*)
            g2 = v + p.A2.rmatvec(lam + beta / theta1 * (A(u) - b_))  #                        (*)
            x2 = h2(y[d1:] - g2 / eta2, 1 / eta2)  #                                           (7)
            x_old, x = x, np.concatenate([x1, x2])
            lam_t = lam + beta * (A(x) - b_)  #                                               (10)
            y = x + (1 - theta1 - theta2) * (x - x_old)  #                                     (8)
            total = total + x if k < m - 1 else total
        x_hat = (x + (theta1 + theta2) * total) / ((m - 1) * (theta1 + theta2) + 1)  # output
        outputs.append((x_hat[:d1], x_hat[d1:]))
        q = (tau - 1) * theta1_next / theta2
        x_t_old, x_t = x_t, ((1 - q) * x + (1 + q / (m - 1)) * total) / m  #                  (12)
        lam_t = lam + beta * (1 - tau) * (A(x) - b_)  #                                       (11)
        drift = (1 - theta1) * x - (1 - theta1 - theta2) * x_old - theta2 * x_t_old
        y = (1 - theta2) * x + theta2 * x_t + theta1_next / theta1 * drift  # below (12)
    return Run(outputs, lam + beta / theta1 * (A(x) - b_))  #                                 (16)
