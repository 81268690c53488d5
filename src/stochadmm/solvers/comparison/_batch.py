"""What the methods share whose iteration is one full gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...base.clock import NEVER, Deadline
from ...base.protocols import Array
from ...base.workspace import Workspace
from ...problem import Pair, Problem
from .._base import Solver, StateT, start_point
from .._steps import Beta, as_schedule, check_count, first_beta


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

    def start(
        self,
        problem: Problem,
        x: Pair | None = None,
        dual: Array | None = None,
        workspace: Workspace | None = None,
        deadline: Deadline = NEVER,
    ) -> StateT:
        """Return the state before the first epoch."""
        point, multiplier = start_point(problem, x, dual)
        workspace = workspace or Workspace()
        beta = first_beta(problem, self.beta, workspace)
        return self._begun(
            point,
            multiplier,
            beta,
            x=point,
            output=point,
            dual=multiplier,
            beta=beta,
            workspace=workspace,
            notes={"beta": beta, "n_inner": self.n_inner} | self._settings(),
        )

    def _begun(self, point: Pair, multiplier: Array, penalty: float, **common: Any) -> StateT:
        """Return the first state: what all have in common, and what the method adds."""
        raise TypeError(f"{type(self).__name__} does not define `_begun`")

    def _settings(self) -> dict[str, Any]:
        """Return what else the result tells of the method."""
        return {}

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
        if as_schedule(self.beta) is self.beta:
            raise ValueError(
                f"beta is a Continuation, expected a number or 'auto'; {self.name} has a rule "
                "of its own for the penalty"
            )
