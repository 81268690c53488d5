"""A solver of your own: linearized ADMM in a few lines.

A solver is any object with ``start``, which returns a ``sa.solvers.State``, and ``epoch``, which
advances it. The driver does the rest: certificates, stopping, budgets, callbacks, history, exact
zeros and ties. ``state.output`` is the point that is returned if the run stops now, and
``state.dual`` the multiplier that goes with it.

    python examples/own_solver.py
"""

import numpy as np

import stochadmm as sa


class Linearized:
    """x1+ = prox, x2+ = a gradient step, for ``-x1 + A x2 = 0``; full gradients."""

    def __init__(self, beta=0.1, n_inner=50):
        self.beta, self.n_inner = beta, n_inner

    def start(self, problem, x=None, dual=None, workspace=None):
        pair = problem.zeros() if x is None else x
        multiplier = problem.zeros_dual() if dual is None else dual
        return sa.solvers.State(pair, pair.copy(), multiplier, self.beta)

    def epoch(self, problem, state, rng):
        A, beta = problem.A2, self.beta
        size = problem.f2.lipschitz_mean + beta * A.norm2
        x2, dual = state.x.x2, state.dual
        for _ in range(self.n_inner):
            x1 = problem.h1.prox(A.matvec(x2) + dual / beta, 1 / beta)
            total = problem.f2.gradient(x2) + A.rmatvec(dual + beta * (A.matvec(x2) - x1))
            x2 = x2 - total / size
            dual = dual + beta * (A.matvec(x2) - x1)
        state.x = sa.Pair(x1, x2)
        state.output, state.dual = state.x.copy(), dual
        state.n_epochs += 1
        state.n_passes += self.n_inner
        state.n_gradients += self.n_inner


def main():
    """Solve a graph-guided problem by the new method and by the default one."""
    data = sa.datasets.make_graph_fused(2000, 20, random_state=0)
    structure = sa.VStack([sa.Incidence(data.graph, 20), sa.Identity(20)])
    problem = sa.Problem.linear(
        sa.Logistic(), data.X, data.y, structure=structure, on_structure=sa.L1(1e-2)
    )
    result = sa.minimize(problem, Linearized(), stop=sa.Gap(1e-5), max_passes=20_000)
    print(result.status.name, result.message, f"{len(np.unique(result.coef))} levels")
    return problem, result


if __name__ == "__main__":
    main()
