import numpy as np
from benchmark_utils import Optimum
from benchopt import BaseObjective


class Objective(BaseObjective):
    """Value of F at a solver's coefficients, and its distance from a proved lower bound."""

    name = "Structured linear models"
    min_benchopt_version = "1.10"
    sampling_strategy = "tolerance"
    test_dataset_name = "Generated"

    def skip(self, task):
        missing = isinstance(task, OSError)
        return missing, str(task) if missing else None

    def set_data(self, task):
        self.task = task
        self.optimum = Optimum.of(task)

    def evaluate_result(self, coef):
        value = self.task.value(coef)
        floor = self.optimum.gap(self.optimum.value)
        return {"gap": self.optimum.gap(value), "value": value, "floor": floor}

    def get_objective(self):
        return {"task": self.task}

    def get_one_result(self):
        return {"coef": np.zeros(self.task.shape)}
