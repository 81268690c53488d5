from benchmark_utils.running import Solver as Base
from cyanure.estimators import Regression


class Solver(Base):
    """Variance-reduced or quasi-Newton steps, chosen by cyanure.

    Its penalty "fused-lasso" is left out: its methods disagree about the minimizer of one problem.
    """

    name = "cyanure"
    serves = (("squared", "l1"),)

    def run(self, tol):
        model = Regression(
            "l1",
            lambda_1=self.task.alpha,
            fit_intercept=False,
            tol=tol,
            max_iter=10**5,
            n_threads=1,
            verbose=False,
        )
        self.coef = model.fit(self.task.X, self.task.y).coef_.ravel()
