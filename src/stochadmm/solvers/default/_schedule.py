"""The weights of ACC-SADMM from epoch to epoch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """Extrapolation weights of ACC-SADMM in epoch s: theta_1(s) and theta_2.

    ``Schedule.constrained(m)``, with m steps per epoch, is the paper's;
    ``Schedule.unconstrained()`` is for problems without a constraint, where dividing by theta_1^2
    instead of theta_1 gives the faster rate.

    Parameters
    ----------
    anchor : float
        theta_2, the weight of the snapshot.
    tau, c, slope : float
        theta_1(s) = slope / (c + tau s).

    Examples
    --------
    >>> import stochadmm as sa
    >>> [sa.Schedule.unconstrained().momentum(s) for s in (0, 1, 4)]
    [0.5, 0.4, 0.25]
    """

    anchor: float
    tau: float
    c: float
    slope: float = 1.0

    @classmethod
    def constrained(cls, n_inner: int, tau: float = 2.0, c: float = 2.0) -> Schedule:
        """theta_1(s) = 1 / (c + tau s), theta_2 = (m - tau) / (tau (m - 1))."""
        return cls((n_inner - tau) / (tau * (n_inner - 1)), tau, c)

    @classmethod
    def unconstrained(cls) -> Schedule:
        """theta_1(s) = 2 / (s + 4), theta_2 = 1/2, snapshot = plain average."""
        return cls(0.5, 1.0, 4.0, slope=2.0)

    def momentum(self, s: int) -> float:
        """Return theta_1(s)."""
        return self.slope / (self.c + self.tau * s)

    def shift(self, s: int) -> float:
        """Return the weight that the snapshot after epoch s takes from x and gives to the mean."""
        return (self.tau - 1) * self.momentum(s + 1) / self.anchor if self.anchor else 0.0
