from typing import ClassVar

from benchmark_utils.running import EVERYTHING
from benchmark_utils.running import Solver as Base

import stochadmm as sa


class Solver(Base):
    """One method of stochadmm with its defaults, looked at after every epoch."""

    name = "stochadmm"
    parameters: ClassVar = {"method": ["acc-sadmm", "svrg-admm", "vr-pddy"]}
    sampling_strategy = "callback"
    serves = EVERYTHING

    def run(self, go_on):
        problem = self.task.problem()
        states = sa.iterate(problem, self.method)
        while go_on():
            self.coef = next(states).output.x2
