"""What the methods share whose iteration is one full gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...problem import Problem
from .._base import Solver, StateT
from .._steps import Beta, Continuation, check_count


@dataclass(frozen=True)
class FullGradient(Solver[StateT]):
    """A method that reads all rows once per iteration; an epoch is ``n_inner`` iterations."""

    has_kernel: ClassVar[bool] = False
    needs: ClassVar[dict[str, tuple[str, ...]]] = {
        "h1": ("prox",),
        "h2": ("prox",),
        "f2": ("gradient", "lipschitz_mean"),
    }

    beta: Beta = "auto"
    n_inner: int = 5

    def __post_init__(self) -> None:
        check_count("n_inner", self.n_inner)

    def epoch(self, problem: Problem, state: StateT, rng: np.random.Generator) -> None:
        """Run ``n_inner`` iterations; nothing is drawn."""
        for _ in range(self.n_inner):
            self._iteration(problem, state)
        self._finish(problem, state)
        state.n_epochs += 1
        state.n_passes += self.n_inner
        state.n_gradients += self.n_inner

    def _iteration(self, p: Problem, s: StateT) -> None:
        raise TypeError(f"{type(self).__name__} does not define `_iteration`")

    def _finish(self, p: Problem, s: StateT) -> None:
        """Set what the state returns."""
        s.output = s.x

    def _check_constant(self) -> None:
        if isinstance(self.beta, Continuation):
            raise ValueError(
                f"beta is a Continuation, expected a number or 'auto'; {self.name} raises its "
                "penalty by itself"
            )
