"""How much a model is trusted: damping and sample size, from actual and predicted decrease."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Trust:
    """Safeguards of the next step."""

    damping: float = 0.0
    """Fraction of the curvature bound that is added to H: at 1 the model is above f."""
    sample_size: int = 0
    """Rows that the next Hessian is made from."""
    n_rejected: int = 0
    """Steps in a row that did not lower the objective."""

    def more_damping(self) -> Trust:
        """Return the trust after a model that was too flat."""
        return replace(self, damping=min(1.0, max(10 * self.damping, 1e-2)))

    def after(self, t: float, decrease: float, predicted: float, n_rows: int) -> Trust:
        """Return the trust after a step of length t that lowered F by ``decrease``."""
        # A full step needs less damping, none where the model was true; 1e-6 of the bound is below
        # what H is worth.
        true = self.damping <= 1e-6 or 0.8 * predicted <= decrease <= 1.25 * predicted
        less = replace(self, damping=0.0 if true else self.damping / 10)
        after = less if t == 1 else self.more_damping()
        if decrease < 0.25 * predicted:  # more rows tell more of the curvature
            after = replace(after, sample_size=min(2 * self.sample_size, n_rows))
        return replace(after, n_rejected=0 if decrease > 0 else self.n_rejected + 1)
