import numpy as np
from benchmark_utils.running import Solver as Base
from sklearn.linear_model import Lasso


class Solver(Base):
    """Coordinate descent."""

    name = "scikit-learn"
    serves = (("squared", "l1"),)

    def prepare(self):
        self.X = np.asfortranarray(self.task.X)

    def run(self, tol):
        model = Lasso(self.task.alpha, fit_intercept=False, tol=tol, max_iter=10**6)
        self.coef = model.fit(self.X, self.task.y).coef_
