"""What a user's typed program looks like; checked by mypy --strict against the installed wheel."""

import numpy as np
from numpy.typing import NDArray

import stochadmm as sa


def solve(X: NDArray[np.float64], y: NDArray[np.float64]) -> sa.Result:
    problem = sa.Problem.linear(
        sa.Squared(), X, y, structure=sa.Differences(X.shape[1]), on_structure=sa.L1(0.1)
    )
    return sa.minimize(problem, stop=sa.Gap(1e-6), max_passes=100)


def report(result: sa.Result) -> str:
    status: sa.Status = result.status
    gap = float("nan") if result.relative_gap is None else float(result.relative_gap)
    return f"{status.name}: {result.objective:.3f}, gap {gap:.1e}, {result.coef.shape[0]} columns"


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 5))
    print(report(solve(X, X.sum(axis=1))))
    model = sa.FusedLassoRegressor(alpha=0.1, refit=0.5)
    print(model.fit(X, X.sum(axis=1)).score(X, X.sum(axis=1)))


if __name__ == "__main__":
    main()
