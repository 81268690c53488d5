import numpy as np
from benchmark_utils.running import Solver as Base
from glum import GeneralizedLinearRegressor


class Solver(Base):
    """Newton steps whose models are minimized by coordinate descent."""

    name = "glum"
    serves = (("squared", "l1"), ("logistic", "l1"))

    def prepare(self):
        self.X = np.asfortranarray(self.task.X)
        self.y = self.task.y if self.task.loss == "squared" else (self.task.y > 0).astype(float)

    def run(self, tol):
        family = "normal" if self.task.loss == "squared" else "binomial"
        model = GeneralizedLinearRegressor(
            alpha=self.task.alpha,
            l1_ratio=1.0,
            family=family,
            fit_intercept=False,
            gradient_tol=tol,
            max_iter=1000,
        )
        self.coef = np.ravel(model.fit(self.X, self.y).coef_)
