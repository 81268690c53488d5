from typing import ClassVar

import cvxpy as cp
from benchmark_utils.running import EVERYTHING
from benchmark_utils.running import Solver as Base


class Solver(Base):
    """A conic program, stated and solved through CVXPY; stating it is part of the time."""

    name = "cvxpy"
    parameters: ClassVar = {"cone_solver": ["clarabel", "scs"]}
    first, factor = 1e-4, 1e-3
    serves = EVERYTHING

    def rehearse(self):
        """Nothing is compiled."""

    def statement(self):
        task = self.task
        w = cp.Variable(task.shape)
        z = task.X @ w
        if task.loss == "logistic":
            loss = cp.sum(cp.logistic(-cp.multiply(task.y, z)))
        else:
            loss = cp.sum_squares(z - task.y) / 2
        if task.penalty == "groups":
            size = sum(cp.norm2(w[list(g)]) for g in task.groups)
        else:
            size = cp.sum(cp.abs(w))
        if task.penalty == "graph":
            size += cp.norm1(task.differences @ w)
        if task.penalty == "low-rank":
            size += cp.normNuc(w)
        return cp.Problem(cp.Minimize(loss / len(task.y) + task.alpha * size)), w

    def run(self, tol):
        problem, w = self.statement()
        if self.cone_solver == "clarabel":
            names = ("tol_gap_abs", "tol_gap_rel", "tol_feas")
            options = {"solver": cp.CLARABEL, "max_threads": 1, **dict.fromkeys(names, tol)}
        else:
            options = {"solver": cp.SCS, "eps_abs": tol, "eps_rel": tol, "max_iters": 10**6}
        try:
            problem.solve(**options)
        except cp.SolverError:  # a tolerance that it cannot reach
            pass
        if w.value is not None:
            self.coef = w.value
