import numpy as np
from benchmark_utils.running import Solver as Base
from celer import Lasso, LogisticRegression


class Solver(Base):
    """Coordinate descent on working sets with extrapolated dual points."""

    name = "celer"
    serves = (("squared", "l1"), ("logistic", "l1"))

    def prepare(self):
        self.X = np.asfortranarray(self.task.X)

    def run(self, tol):
        task, options = self.task, {"fit_intercept": False, "tol": tol}
        if task.loss == "squared":
            model = Lasso(task.alpha, **options)
        else:
            model = LogisticRegression(C=1 / (task.alpha * len(task.y)), **options)
        self.coef = np.ravel(model.fit(self.X, task.y).coef_)
