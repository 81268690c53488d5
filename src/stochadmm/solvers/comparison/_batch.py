"""What the methods share whose iteration is one full gradient."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ...base.workspace import Workspace
from ...problem import Problem
from .. import defaults
from .._base import PROXES, Solver, StateT
from .._steps import Beta, as_schedule, check_count, first_beta, lengths


@dataclass(frozen=True)
class FullGradient(Solver[StateT]):
    """A method that reads all rows once per iteration; an epoch is ``n_inner`` iterations.

    Parameters
    ----------
    beta : float, "auto" or Continuation
        Penalty parameter of the augmented Lagrangian; "auto" starts from an estimate and balances
        primal and dual residuals after each of the first 30 epochs.
    n_inner : int, default=5
        Iterations, each one pass over the data, per epoch.
    returns : {"last", "ergodic"}
        Which point is returned: the last iterate, or the mean of all, which has the better rate.
    """

    needs: ClassVar[dict[str, tuple[str, ...]]] = PROXES | {"f2": ("gradient", "lipschitz_mean")}

    beta: Beta = "auto"
    n_inner: int = 5

    def __post_init__(self) -> None:
        check_count("n_inner", self.n_inner)

    def numbers(self, p: Problem, workspace: Workspace, **settings: Any) -> dict[str, Any]:
        """Return what the first state holds besides points; results give the ``settings``."""
        beta = first_beta(p, self.beta, workspace)
        notes = {"beta": beta, "n_inner": self.n_inner, **settings}
        return {"beta": beta, "workspace": workspace, "notes": notes}

    def lengths(
        self, p: Problem, s: StateT, beta: float, share: float = 1.0
    ) -> tuple[float, float]:
        """Return the steps 1 / (share Li + beta |Ai|^2) of both blocks."""
        curvature = share * defaults.lipschitz_mean(p, s.workspace)
        return lengths(p, curvature, beta, share, workspace=s.workspace)

    def epoch(self, problem: Problem, state: StateT, rng: np.random.Generator) -> None:
        """Run ``n_inner`` iterations; nothing is drawn."""
        for _ in range(self.n_inner):
            self.iterate(problem, state)
        state.n_epochs += 1
        state.n_passes += self.n_inner
        state.n_gradients += self.n_inner
        self.finish(problem, state)

    def iterate(self, p: Problem, s: StateT) -> None:
        """Make one iteration."""
        raise TypeError(f"{type(self).__name__} does not define `iterate`")

    def finish(self, p: Problem, s: StateT) -> None:
        """Set what the state returns, and the next penalty."""
        s.output = s.x

    def check_constant(self) -> None:
        """Raise where the penalty follows a schedule of the user."""
        if as_schedule(self.beta) is self.beta:
            raise ValueError(
                f"beta is a Continuation, expected a number or 'auto'; {self.name} has a rule "
                "of its own for the penalty"
            )
