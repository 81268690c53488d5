"""A loss of your own: log-cosh, a smooth relative of the absolute error.

A loss is any object with ``value``, ``derivative`` and ``curvature_bound``. Each further member
unlocks something: ``conjugate`` and ``dual_step_limit`` the duality gap, ``curvature`` and
``curvature_apply`` second-order steps and the tight certificate. There is no base class and
nothing to register.

    python examples/own_loss.py
"""

import numpy as np

import stochadmm as sa
from stochadmm.testing import check_loss


class LogCosh:
    """log(cosh(z - y)): quadratic for small errors, linear for large ones."""

    curvature_bound = 1.0

    def value(self, z, y, weight=None):
        r = np.abs(z - y)
        rows = r + np.log1p(np.exp(-2 * r)) - np.log(2)
        return float(np.average(rows, weights=weight))

    def derivative(self, z, y):
        return np.tanh(z - y).astype(z.dtype)  # float32 rows stay float32

    def curvature(self, z, y):
        return 1 - self.derivative(z, y) ** 2

    def curvature_apply(self, z, y, v):
        return self.curvature(z, y) * v

    def conjugate(self, u, y):
        """sup_z u z - loss(z, y), row by row; infinite unless |u| <= 1."""
        inside = np.clip(u, -1, 1)
        entropy = (1 + inside) * np.log1p(inside, where=inside > -1, out=np.zeros_like(inside))
        entropy += (1 - inside) * np.log1p(-inside, where=inside < 1, out=np.zeros_like(inside))
        return np.where(np.abs(u) <= 1 + 1e-15, u * y + entropy / 2, np.inf)

    def dual_step_limit(self, u, du, y):
        """The largest t in [0, 1] with |u + t du| <= 1."""
        room = np.where(du > 0, 1 - u, 1 + u) / np.maximum(np.abs(du), 1e-300)
        return np.clip(room, 0, 1)


def main():
    """Fit piecewise constant coefficients to data with gross errors."""
    check_loss(LogCosh())
    data = sa.datasets.make_chain(400, 30, n_levels=4, noise=0.3, random_state=0)
    y = data.y.copy()
    y[::20] += 50.0
    problem = sa.Problem.linear(
        LogCosh(),
        data.X,
        y,
        structure=sa.Differences(30),
        on_structure=sa.L1(0.05),
        intercept=True,
    )
    result = sa.minimize(problem, stop=sa.Gap(1e-8))
    print(f"{result.status.name}: {result.message}")
    jumps, planted = (np.count_nonzero(np.diff(coef)) for coef in (result.coef, data.coef))
    print(f"{jumps} jumps between levels, planted {planted}")
    return problem, result


if __name__ == "__main__":
    main()
