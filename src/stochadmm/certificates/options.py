"""How hard a certificate tries, for those who ask."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..base.immutable import field_values
from ..base.validation import is_whole


@dataclass(frozen=True)
class CertificateOptions:
    """How hard a bound is looked for: any choice gives a true one, more work a tighter one.

    They are passed to `stochadmm.certify`.

    Parameters
    ----------
    rounds, most_times, corrected_rounds : int
        Projections that look for a multiplier of the scaled point, how often as many again may
        follow while they help, and those of the corrected point, which is nearly feasible.
    model_iter, model_tol : int, float
        Iterations and accuracy of the model behind a corrected point.
    charge, charge_share : float
        Share of the objective that rounding may cost a bound before a smaller price is proved in
        more directions, which may take longer than all else; and share of a gap that a run waits
        for up to which it is not asked for.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> from stochadmm.certificates import CertificateOptions
    >>> X, y = np.eye(3), np.array([3.0, 2.9, 0.0])
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), X, y, structure=sa.Differences(3), on_structure=sa.L1(0.1)
    ... )
    >>> point, once = sa.Pair(np.zeros(2), np.ones(3)), CertificateOptions(rounds=1, most_times=1)
    >>> bool(sa.certify(problem, point, options=once).gap >= sa.certify(problem, point).gap)
    True
    """

    rounds: int = 20
    most_times: int = 10
    corrected_rounds: int = 4
    model_iter: int = 1000
    model_tol: float = 1e-11
    charge: float = 1e-11
    charge_share: float = 0.1

    def __post_init__(self) -> None:
        counts = ("rounds", "most_times", "corrected_rounds", "model_iter")
        for name, value in field_values(self).items():
            whole = name in counts
            if not value > 0 or (whole and not is_whole(value)):
                wanted = "an integer >= 1" if whole else "a number > 0"
                raise ValueError(f"{name} is {value!r}, expected {wanted}")

    def towards(self, target: float | None, scale: float = 1.0) -> CertificateOptions:
        """Return how hard to look for a bound where a relative gap is waited for.

        ``scale`` is what the gap is relative to, as a share of the objective.
        """
        if target is None:
            return self
        return replace(self, charge=max(1e-15, self.charge_share * target * scale))


OPTIONS = CertificateOptions()
FLOOR = 1e-3
"""Share of |F(null model)| that a relative gap is relative to at least, for optima at zero."""
