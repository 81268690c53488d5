"""The inequalities of docs/explain/opt-sadmm.md on runs whose noise is known."""

import cvxpy as cp
import numpy as np
import pytest

import stochadmm as sa

N_STEPS, BETA, GROWTH, BATCH = 60, 0.3, 0.5, 4


def fused(seed=0, A1=-1.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((40, 6))
    y = X @ np.repeat([1.0, -0.5], 3) + 0.5 * rng.standard_normal(40)
    first = sa.Identity(5, scale=A1) if np.ndim(A1) == 0 else A1
    return sa.Problem(
        sa.FiniteSum(sa.Squared(), X, y), h1=sa.L1(0.05), A1=first, A2=sa.Differences(6),
        b=0.1 * rng.standard_normal(5),
    )  # fmt: skip


def solution(p):
    """Return a solution and its value by a conic solver."""
    x1, x2 = cp.Variable(p.shape1), cp.Variable(p.shape2)
    A1, A2 = (A.matvec(np.eye(A.shape[1])) for A in (p.A1, p.A2))
    value = cp.sum_squares(p.f2.X @ x2 - p.f2.y) / 80 + 0.05 * cp.norm1(x1)
    best = cp.Problem(cp.Minimize(value), [A1 @ x1 + A2 @ x2 == p.b]).solve(cp.CLARABEL)
    return sa.Pair(x1.value, x2.value), best


class Trace:
    """One run, step by step: points, multipliers, and the error of every gradient."""

    def __init__(self, p, seed):
        self.p, f, self.L = p, p.f2, p.f2.lipschitz_mean
        solver = sa.OptSADMM(
            beta=BETA,
            batch_size=BATCH,
            n_inner=1,
            growth=GROWTH,
            curvature=self.L,
            sampling="rows",
        )
        rng = np.random.default_rng(seed)
        start = sa.Pair(rng.standard_normal(p.shape1), rng.standard_normal(p.shape2))
        state, generator = solver.start(p, start), np.random.default_rng(seed)
        self.x, self.duals, self.errors, self.sigma2 = [state.x], [state.dual], [], []
        for t in range(1, N_STEPS + 1):
            share = 2 / (t + 1)
            middle = share * state.x.x2 + (1 - share) * state.ergodic.x2
            force = state.dual + BETA * p.constraint(state.x)
            solver.epoch(p, state, generator)
            eta = 2 * self.L / t + BETA * p.A2.norm2 + GROWTH * np.sqrt(t)
            moved = state.x.x2 - self.x[-1].x2
            self.errors.append(-eta * moved - p.A2.rmatvec(force) - f.gradient(middle))
            rows = f.X * (f.X @ middle - f.y)[:, None]
            self.sigma2.append(rows.var(axis=0).sum() / BATCH)
            self.x.append(state.x)
            self.duals.append(state.dual)
        self.output = state.ergodic

    def lagrangian(self, best, multiplier):
        """Return P at the aggregate point."""
        return self.p.objective(self.output) - best + multiplier @ self.p.constraint(self.output)

    def radii(self, optimum, multiplier):
        far2 = max(np.sum((x.x2 - optimum.x2) ** 2) for x in self.x)
        far1 = max(self.weight1() * np.sum((x.x1 - optimum.x1) ** 2) for x in self.x)
        dual = max(np.sum((u - multiplier) ** 2) for u in self.duals)
        return far2, far1, dual

    def weight1(self):
        return BETA * self.p.A1.norm2

    def without_noise(self, optimum, multiplier):
        """Return N (N + 1) / 2 times the terms of the bound that hold for every run."""
        far2, far1, dual = self.radii(optimum, multiplier)
        n = N_STEPS
        constant = BETA * self.p.A2.norm2 * far2 + far1 + dual / BETA
        return self.L * far2 + n / 2 * constant + GROWTH / 2 * n**1.5 * far2


def problems():
    A1 = np.random.default_rng(5).standard_normal((5, 4))
    return {"identity": fused(), "scaled": fused(1, A1=2.5), "general": fused(2, A1=A1)}


@pytest.mark.parametrize("name", ["identity", "scaled", "general"])
def test_the_bound_holds_on_every_run_for_every_multiplier(name):
    p = problems()[name]
    optimum, best = solution(p)
    rng = np.random.default_rng(0)
    for seed in range(5):
        trace = Trace(p, seed)
        noise = sum(
            t * (e @ e / (2 * GROWTH * np.sqrt(t)) - e @ (x.x2 - optimum.x2))
            for t, e, x in zip(range(1, N_STEPS + 1), trace.errors, trace.x, strict=False)
        )
        for size in (0.0, 0.1, 10.0):
            multiplier = size * rng.standard_normal(p.shape_dual)
            allowed = trace.without_noise(optimum, multiplier) + noise
            reached = N_STEPS * (N_STEPS + 1) / 2 * trace.lagrangian(best, multiplier)
            assert reached <= allowed + 1e-6 * abs(allowed)


def test_the_expected_bound_holds_on_average_for_objective_and_infeasibility():
    p, n, rho = fused(), N_STEPS, 0.5
    optimum, best = solution(p)
    reached, allowed = [], []
    for seed in range(20):
        trace = Trace(p, seed)
        residual = p.constraint(trace.output)
        worst = rho * residual / np.linalg.norm(residual)
        reached.append(trace.lagrangian(best, worst))
        noise = 2 * max(trace.sigma2) / (3 * GROWTH) * np.sqrt(n + 1) / n
        allowed.append(2 / (n * (n + 1)) * trace.without_noise(optimum, worst) + noise)
    assert np.mean(reached) <= np.mean(allowed)
    assert np.mean(reached) > 0  # F - F* alone could be negative, with rho |r| it is not
