"""An operator of your own: differences of all pairs of columns of the same kind.

An operator is any object with ``shape``, ``matvec``, ``rmatvec`` (on vectors and on matrices) and
``norm2``, a bound on its squared norm; methods never form a matrix. ``tosparse`` is
optional: it unlocks compiled loops, exact ties in the answer and second-order steps on many
columns.

    python examples/own_operator.py
"""

import numpy as np

import stochadmm as sa
from stochadmm.testing import check_operator


class AllPairs:
    """x_i - x_j for every i < j: coefficients of similar columns are drawn together."""

    def __init__(self, n):
        self.first, self.second = np.triu_indices(n, k=1)
        self.shape = (len(self.first), n)
        self.norm2 = float(n)  # A'A = n I - 11'

    def matvec(self, x, out=None):
        return np.subtract(x[self.first], x[self.second], out=out)

    def rmatvec(self, u, out=None):
        result = np.zeros((self.shape[1], *u.shape[1:]), dtype=u.dtype)
        np.add.at(result, self.first, u)
        np.subtract.at(result, self.second, u)
        if out is None:
            return result
        out[...] = result
        return out


def main():
    """Cluster coefficients: as few different values as the data allow."""
    check_operator(AllPairs(6))
    rng = np.random.default_rng(0)
    coef = np.repeat([2.0, -1.0], 4)
    X = rng.standard_normal((200, 8))
    problem = sa.Problem.linear(
        sa.Squared(),
        X,
        X @ coef + rng.standard_normal(200),
        structure=AllPairs(8),
        on_structure=sa.L1(0.1),
    )
    result = sa.minimize(problem, stop=sa.Gap(1e-8), max_passes=1000)
    print(f"{result.status.name}: {result.message}")
    print(f"{len(np.unique(result.coef.round(6)))} different values among {result.coef.round(3)}")
    return problem, result


if __name__ == "__main__":
    main()
