"""How much a model is trusted: damping and sample size, from actual and predicted decrease."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Trust:
    """Safeguards of the next step."""

    damping: float = 0.0
    """Fraction of the curvature bound that is added to H: at 1 the model is above f."""
    sample_size: int = 0
    """Rows that the next Hessian is made from."""
    n_rejected: int = 0
    """Steps in a row that neither lowered the objective nor the gap by a fifth."""
    gap: float = np.inf
    """The least gap so far, infinite where no bound is known."""
    gap_ratio: float = 1.0
    """That gap over the one before the last step."""
    n_idle: int = 0
    """Steps in a row that left a known gap within a fifth, and F within a thousandth of it."""
    radius: float = np.inf
    """Largest move of one coefficient in a step, for subproblems that know no damping."""

    def more_damping(self) -> Trust:
        """Return the trust after a model that was too flat."""
        return replace(self, damping=min(1.0, max(10 * self.damping, 1e-2)))

    def after(
        self, t: float, decrease: float, predicted: float, n_rows: int, gap: float, move: float
    ) -> Trust:
        """Return the trust after a step of length t that lowered F by ``decrease``.

        ``move`` is the largest of a coefficient in the whole step.
        """
        # A full step needs less damping, none where the model was true; 1e-6 of the bound is below
        # what H is worth.
        true = self.damping <= 1e-6 or 0.8 * predicted <= decrease <= 1.25 * predicted
        less = replace(self, damping=0.0 if true else self.damping / 10)
        after = less if t == 1 else self.more_damping()
        if decrease < 0.25 * predicted:  # more rows tell more of the curvature
            after = replace(after, sample_size=min(2 * self.sample_size, n_rows))
        if t < 1 or decrease < 0.1 * predicted:
            radius = min(self.radius, move) * min(max(t, 1e-4), 0.5)
        else:  # wider where the radius has held a good step back
            held = move >= 0.999 * self.radius and decrease > 0.5 * predicted
            radius = 4.0 * self.radius if held else self.radius
        known = np.isfinite(gap)
        ratio = gap / self.gap if known and self.gap > 0 else 1.0
        progress = decrease > 0 or ratio < 0.8
        return replace(
            after,
            n_rejected=0 if progress else self.n_rejected + 1,
            gap=min(gap, self.gap),
            gap_ratio=ratio,
            n_idle=self.n_idle + 1 if known and ratio >= 0.8 and decrease < 1e-3 * gap else 0,
            radius=radius,
        )
