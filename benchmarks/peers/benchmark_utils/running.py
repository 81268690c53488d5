"""How a curve is sampled and when it ends, and what all solvers have in common."""

from __future__ import annotations

import time
from itertools import product
from types import SimpleNamespace

import numpy as np
from benchopt import BaseSolver, callback, runner, stopping_criterion
from benchopt.stopping_criterion import StoppingCriterion

# All times are processor seconds: those of benchopt's clock mean little beside other work.
for module in (callback, runner, stopping_criterion):
    module.time = SimpleNamespace(perf_counter=time.process_time, time=time.process_time)

SMALL = 1e-9  # relative gap at which nothing is left to show
TIGHTEST = 1e-13  # the last tolerance that is asked for
EVERYTHING = tuple(product(("squared", "logistic"), ("l1", "graph", "groups", "low-rank")))


class Certified(StoppingCriterion):
    """Stop at a small proved gap; benchopt adds the limits on time and points."""

    def __init__(self, strategy=None, key_to_monitor="value", minimize=True):
        super().__init__(strategy=strategy, key_to_monitor=key_to_monitor, minimize=minimize)

    def init_stop_val(self):
        return self.solver.first if self.strategy == "tolerance" else 0

    def check_convergence(self, objective_list):
        last = objective_list[-1]
        done = last["objective_gap"] <= SMALL
        if self.strategy == "tolerance":
            done |= last["stop_val"] <= TIGHTEST
        return done, 0.0


class Solver(BaseSolver):
    """What all solvers share; ``serves`` names pairs (loss, penalty)."""

    serves: tuple[tuple[str, str], ...] = ()
    sampling_strategy = "tolerance"
    first, factor = 1.0, 0.1  # tolerances: the first, and from one to the next

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        cls.stopping_criterion = Certified(strategy=cls.sampling_strategy)

    def skip(self, task):
        if (task.loss, task.penalty) in self.serves and self.can(task):
            return False, None
        return True, f"{self.name} cannot express {task.loss} loss + {task.penalty} penalty"

    def can(self, task) -> bool:
        return True

    def set_objective(self, task):
        """Take the problem, and run once untimed: compilers do their work here."""
        self.task = task
        self.coef = np.zeros(task.shape)
        self.prepare()
        self.rehearse()

    def prepare(self):
        """Bring the data into the layout that the solver wants, untimed."""

    def rehearse(self):
        if self.sampling_strategy == "tolerance":
            self.run(1e-2)
        else:
            calls = iter([True] * 5)
            self.run(lambda: next(calls, False))
            self.coef = np.zeros(self.task.shape)

    def get_next(self, stop_val):
        if self.sampling_strategy == "tolerance":
            return stop_val * self.factor
        return max(stop_val + 1, int(1.2 * stop_val))

    def get_result(self):
        return {"coef": self.coef}
