import numpy as np
import pylops
import pyproximal as pp
from benchmark_utils.running import Solver as Base
from pyproximal.optimization.primal import GeneralizedProximalGradient, ProximalGradient
from pyproximal.optimization.primaldual import PrimalDual
from scipy import sparse


class Enough(Exception):
    """Ends a run: callbacks of pyproximal cannot."""


class Solver(Base):
    """Accelerated or generalized proximal gradient, or Chambolle and Pock's method."""

    name = "pyproximal"
    sampling_strategy = "callback"
    serves = tuple(("squared", penalty) for penalty in ("l1", "graph", "groups", "low-rank"))

    def can(self, task):
        """Groups must have one size, for the norm of the columns of a matrix."""
        return task.penalty != "groups" or len({len(g) for g in task.groups}) == 1

    def run(self, go_on):
        task, alpha, n = self.task, self.task.alpha, len(self.task.y)
        outputs = task.shape[1:]

        def callback(x):
            self.coef = x.reshape(task.shape)
            if not go_on():
                raise Enough

        go_on()
        rows = pylops.MatrixMult(task.X, otherdims=outputs)
        loss = pp.L2(rows, task.y.ravel(), sigma=1 / n, densesolver="factorize")
        common = {"x0": np.zeros(task.shape).ravel(), "niter": 10**6, "callback": callback}
        try:
            if task.penalty == "l1":
                ProximalGradient(
                    loss, pp.L1(alpha), tau=self.step(), acceleration="fista", **common
                )
            elif task.penalty == "low-rank":
                parts = [pp.Nuclear(task.shape, alpha), pp.L1(alpha)]
                GeneralizedProximalGradient([loss], parts, tau=self.step(), **common)
            else:
                self.primal_dual(loss, common)
        except Enough:
            pass

    def step(self):
        """Return one over the Lipschitz constant of the gradient."""
        return len(self.task.y) / np.linalg.norm(self.task.X, 2) ** 2

    def primal_dual(self, loss, common):
        task, d = self.task, self.task.shape[0]
        if task.penalty == "graph":
            matrix = sparse.vstack([task.differences, sparse.eye_array(d)])
            norm = pp.L1(task.alpha)
        else:  # groups as columns of a matrix
            columns = np.array(task.groups).T.ravel()
            shape = (columns.size, d)
            matrix = sparse.csr_array((np.ones(shape[0]), (np.arange(shape[0]), columns)), shape)
            norm = pp.L21(len(task.groups[0]), task.alpha)
        A = pylops.MatrixMult(matrix.tocsr())
        step, size = self.step(), sparse.linalg.norm(matrix, 2)
        PrimalDual(loss, norm, A, tau=step, mu=0.99 / step / size**2, **common)
