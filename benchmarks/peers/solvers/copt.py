import copt
import numpy as np
from benchmark_utils.running import EVERYTHING
from benchmark_utils.running import Solver as Base
from copt import penalty
from scipy.sparse.linalg import svds


class Solver(Base):
    """Accelerated proximal gradient, three-operator splitting, or a primal-dual method."""

    name = "copt"
    sampling_strategy = "callback"
    serves = EVERYTHING

    def can(self, task):
        """Groups must fall into two families of disjoint runs of columns."""
        if task.penalty != "groups":
            return True
        runs = all((np.diff(group) == 1).all() for group in task.groups)
        return runs and all(
            a[-1] < b[0] for a, b in zip(task.groups, task.groups[2:], strict=False)
        )

    def loss(self, w, return_gradient=True):
        value, gradient = self.task.mean_loss_gradient(w.reshape(self.task.shape))
        return (value, gradient.ravel()) if return_gradient else value

    def steps(self, L):
        """Return steps with 1/s - t |L|^2 = c/2 (Condat 2013), c the curvature of the loss."""
        bound = 0.25 if self.task.loss == "logistic" else 1.0
        c = bound * svds(self.task.X, 1, return_singular_vectors=False)[0] ** 2 / len(self.task.y)
        t = c / 2 / svds(L, 1, return_singular_vectors=False)[0] ** 2
        return {"step_size": 1 / c, "step_size2": t, "line_search": False}

    def run(self, go_on):
        task, alpha = self.task, self.task.alpha
        start, endless = np.zeros(task.shape).ravel(), {"tol": 0.0, "max_iter": 10**9}

        def callback(local):
            self.coef = local["x"].reshape(task.shape)
            return go_on()

        go_on()
        l1 = penalty.L1Norm(alpha).prox
        if task.penalty == "l1":
            copt.minimize_proximal_gradient(
                self.loss, start, l1, jac=True, accelerated=True, callback=callback, **endless
            )
        elif task.penalty == "graph" and not task.is_chain:
            steps = self.steps(task.differences)
            copt.minimize_primal_dual(
                self.loss, start, l1, l1, L=task.differences, callback=callback, **steps, **endless
            )
        else:
            if task.penalty == "graph":
                first, second = penalty.FusedLasso(alpha).prox, l1
            elif task.penalty == "low-rank":
                first, second = penalty.TraceNorm(alpha, task.shape).prox, l1
            else:
                groups = [np.array(group) for group in task.groups]
                first, second = (penalty.GroupL1(alpha, groups[k::2]).prox for k in (0, 1))
            copt.minimize_three_split(
                self.loss, start, first, second, callback=callback, **endless
            )
