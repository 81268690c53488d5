import numpy as np
from benchmark_utils.running import Solver as Base
from skein_glm import ElasticNetRegressor, LogisticElasticNetRegressor


class Solver(Base):
    """Coordinate descent with screening and Anderson's extrapolation, in Rust."""

    name = "skein-glm"
    serves = (("squared", "l1"), ("logistic", "l1"))

    def prepare(self):
        self.X = np.asfortranarray(self.task.X)
        self.y = self.task.y if self.task.loss == "squared" else (self.task.y > 0).astype(float)

    def run(self, tol):
        options = {"fit_intercept": False, "tol": tol, "max_iter": 10**5}
        if self.task.loss == "squared":
            model = ElasticNetRegressor(self.task.alpha, 1.0, **options)
        else:
            options |= {"outer_tol": tol, "max_outer": 100}
            model = LogisticElasticNetRegressor(self.task.alpha, 1.0, **options)
        self.coef = np.ravel(model.fit(self.X, self.y).coef_)
