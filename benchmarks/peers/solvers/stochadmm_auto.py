from benchmark_utils.running import EVERYTHING
from benchmark_utils.running import Solver as Base

import stochadmm as sa


class Solver(Base):
    """stochadmm with nothing chosen; the time of its certificates is part of its time."""

    name = "stochadmm auto"
    serves = EVERYTHING

    def run(self, tol):
        stop = sa.Gap(tol)
        self.coef = sa.minimize(self.task.problem(), stop=stop, max_passes=1e5).coef
