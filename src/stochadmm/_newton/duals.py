"""Dual points from what a step has computed."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..certificates import CertificateOptions, DualPoint, corrected_point
from .composite import Composite
from .dense import RowHessian, affordable_rows, with_exact_zeros
from .interfaces import Candidate, NewtonState, Run


@dataclass(frozen=True)
class Corrected:
    """Derivatives of the losses at w, corrected to second order by the model.

    The bound costs no read, and its model is solved to more digits than the step's: its minimizer
    becomes the candidate (`stochadmm.certificates.corrected`).
    """

    def of_model(
        self, p: Composite, s: NewtonState, H: RowHessian, c: Candidate, run: Run
    ) -> tuple[Candidate, DualPoint | None]:
        assert run.target is not None
        f2 = p.rows
        scale = p.gap_scale(s.objective, s.lower_bound)
        # With a sample the bound is too small by about the decrease over the fraction of the rows;
        # with all rows by the square of the decrease (2/3: some of its digits), and exact models
        # leave nothing.
        reach = 3.0 * H.fraction * run.target
        if H.fraction == 1:
            reach = max(reach, run.target ** (2 / 3))
        if c.predicted > reach * scale and not H.is_exact:
            return c, None
        # The bound loses about the accuracy of the model. With all rows the minimizer is next to
        # the solution: digits worth having.
        whole = H.fraction == 1 and not H.sampled.implicit
        found = corrected_point(
            f2,
            p.form,
            s.at,
            c.mu,
            s.objective,
            # derivatives of coupled outputs are near the edge of their domain: damping would take
            # them out of it
            H.sampled.damped(0.0) if H.sampled.sample.coupled else H.sampled,
            c.w,
            1e-11 if whole else max(0.01 * run.target, 1e-11),
            s.warm.rho,
            options=CertificateOptions().towards(
                run.target, scale / max(abs(s.objective), 1e-300)
            ),
            workspace=p.workspace,
            deadline=run.deadline,
        )
        if found is None or found.model is None:
            return c, None
        # more rows make the next bound tighter and the next step better: at most 4/3 of a read
        more = min(2 * s.trust.sample_size, affordable_rows(f2, 4 / 3))
        s.trust = replace(s.trust, sample_size=max(s.trust.sample_size, more))
        w = with_exact_zeros(p.form, found.model)
        decrease = p.predicted_decrease(s.objective, s.at, H, w)
        return Candidate(w, found.mu, decrease), found.point

    def of_point(self, p: Composite, s: NewtonState, c: Candidate, run: Run) -> DualPoint | None:
        """Return nothing: the model's point is as good."""
        return None
