import numpy as np
from benchmark_utils.running import Solver as Base
from sklearn.linear_model import Lasso, LogisticRegression


class Solver(Base):
    """Coordinate descent; for the logistic loss liblinear, the faster of its solvers with l1."""

    name = "scikit-learn"
    serves = (("squared", "l1"), ("logistic", "l1"))

    def prepare(self):
        logistic = self.task.loss == "logistic"
        self.X = self.task.X if logistic else np.asfortranarray(self.task.X)

    def run(self, tol):
        task, options = self.task, {"fit_intercept": False, "tol": tol, "max_iter": 10**6}
        if task.loss == "squared":
            model = Lasso(task.alpha, **options)
        else:
            C = 1 / (task.alpha * len(task.y))
            model = LogisticRegression(C=C, l1_ratio=1.0, solver="liblinear", **options)
        self.coef = np.ravel(model.fit(self.X, task.y).coef_)
