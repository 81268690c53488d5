"""A penalty of your own: the l-infinity norm, which makes the largest coefficients equal.

A penalty is any object with ``value`` and ``prox``. ``conjugate`` adds the duality gap,
``dual_scale`` and ``project_dual`` make it tight. Here all of them are a projection onto the l1
ball, the unit ball of the dual norm.

    python examples/own_penalty.py
"""

import numpy as np

import stochadmm as sa
from stochadmm.testing import check_penalty


class LInfinity:
    """alpha max_j |x_j|."""

    def __init__(self, alpha):
        self.alpha = alpha

    def value(self, x):
        return self.alpha * float(np.abs(x).max(initial=0.0))

    def prox(self, v, step, out=None):
        """By Moreau's identity, v minus its projection onto the l1 ball of radius step alpha."""
        result = v - project_l1(v, float(step) * self.alpha)
        if out is None:
            return result
        out[...] = result
        return out

    def conjugate(self, u):
        return 0.0 if np.abs(u).sum() <= self.alpha * (1 + 1e-14) else np.inf

    def dual_scale(self, u):
        size = float(np.abs(u).sum())
        return 1.0 if size <= self.alpha else self.alpha / size

    def project_dual(self, u):
        return project_l1(u, self.alpha)


def project_l1(v, radius):
    """Return the nearest point with sum |x_j| <= radius, by sorting."""
    size = np.abs(v)
    if size.sum() <= radius:
        return v.copy()
    ordered = np.sort(size)[::-1]
    excess = (np.cumsum(ordered) - radius) / np.arange(1, v.size + 1)
    threshold = excess[np.flatnonzero(ordered > excess)[-1]]
    return (np.sign(v) * np.maximum(size - threshold, 0)).astype(v.dtype)


def main():
    """Classify with coefficients of bounded size."""
    check_penalty(LInfinity(0.3), shape=(8,))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 8))
    y = np.sign(X @ np.r_[np.ones(4), np.zeros(4)] + rng.logistic(size=300))
    problem = sa.Problem.linear(sa.Logistic(), X, y, on_structure=LInfinity(0.1), intercept=True)
    result = sa.minimize(problem, stop=sa.Gap(1e-6), max_passes=1000)
    largest = np.isclose(np.abs(result.coef), np.abs(result.coef).max(), rtol=1e-6)
    print(f"{result.status.name}: {result.message}")
    print(f"{largest.sum()} coefficients share the largest size {np.abs(result.coef).max():.3f}")
    return problem, result


if __name__ == "__main__":
    main()
