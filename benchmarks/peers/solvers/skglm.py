import numpy as np
from benchmark_utils.running import Solver as Base
from skglm import Lasso, SparseLogisticRegression


class Solver(Base):
    """Coordinate descent on working sets with Anderson's extrapolation."""

    name = "skglm"
    serves = (("squared", "l1"), ("logistic", "l1"))

    def prepare(self):
        self.X = np.asfortranarray(self.task.X)

    def run(self, tol):
        model = Lasso if self.task.loss == "squared" else SparseLogisticRegression
        model = model(self.task.alpha, fit_intercept=False, tol=tol, max_iter=1000)
        self.coef = np.ravel(model.fit(self.X, self.task.y).coef_)
