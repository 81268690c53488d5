"""What an installed wheel must do: run as a script, outside of a checkout."""

import numpy as np

import stochadmm as sa
from stochadmm.kernels import extension


def main() -> None:
    assert extension.available(), extension.chosen().reason
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 12))
    y = np.where(X[:, :4].sum(axis=1) + rng.standard_normal(300) > 0, 1.0, -1.0)
    problem = sa.Problem.linear(
        sa.Logistic(), X, y, structure=sa.Differences(12), on_structure=sa.L1(0.02)
    )
    best = sa.minimize(problem)
    assert best.relative_gap <= 1e-4, best.relative_gap
    steps = sa.minimize(problem, "acc-sadmm", engine="compiled", max_passes=200)
    assert abs(steps.objective - best.objective) <= 1e-3 * best.objective
    print(f"stochadmm {sa.__version__}: compiled kernels ({extension.chosen().name}) work")


if __name__ == "__main__":
    main()
