"""Numbers of the second-order steps, each with its reason."""

from __future__ import annotations

from dataclasses import dataclass

from ..certificates import CertificateOptions


@dataclass(frozen=True)
class SecondOrderOptions:
    """Numbers of second-order steps from samples of rows, from `benchmarks/time_to_gap.py`."""

    # sample of rows
    hessian_work: int = 10
    """A first Hessian takes the work of this many thirtieths of a read of the data: a third."""
    most_work: int = 40
    """The same for a Hessian near the solution, which certifies as well: the bound is tighter."""
    rows_per_column: int = 8
    """Rows of a first sample at least, per coefficient: fewer leave H far from the Hessian."""
    rows_per_column_implicit: int = 4
    """The same where H is only multiplied with: conjugate gradients see its large part only."""
    least_rows: int = 256
    """Rows of a first sample at least: fewer cost no less than the rest of a step."""
    free_work: float = 5e7
    """Multiplications of a Hessian that take no longer than the rest of a step."""
    free_work_few: float = 2e6
    """The same for steps on a part of the rows, which need no more accuracy."""
    scattered: float = 50.0
    """Multiplications of dense rows that take as long as one of sparse rows."""
    nearly_all: float = 0.7
    """Share of the rows from which on all are taken: gathering them costs what they save."""
    large_bytes: int = 1 << 26
    """Data from this size on is not copied for a sample beyond"""
    large_share: int = 10
    """one row in this many: memory is worth more than a better Hessian."""
    single_columns: int = 256
    """Columns from which on H is made in float32: half the time, and it shapes the model only."""
    too_flat: float = 0.8
    """A sample whose curvature along a poor step is below this share of the true one doubles."""

    # start on a part of the rows
    part: int = 10
    """A run begins on one row in this many: a step there costs a tenth of a read,"""
    part_steps: int = 8
    """at most this often,"""
    part_rows: int = 20
    """where the part has this many rows per column, so that it tells of all rows,"""
    least_part: int = 2000
    """and this many at all, below which nothing is saved."""

    # model
    first_tol: float = 1e-2
    """Accuracy of the first model: more digits than its Hessian has would be wasted."""
    enough: float = 0.1
    """A model is accurate when ten times the accuracy changes the promised decrease by less."""
    usable: float = 0.1
    """Residual of a model up to which its penalty is a good first one for the next."""
    structured: float = 1e-6
    """Residual of a model below which the zeros that its prox made are those of its minimizer."""

    # step
    sufficient: float = 1e-3
    """Share of the promised decrease that a full step must bring (Armijo's rule)."""
    least_length: float = 1e-6
    """Shortest share of a step that is tried."""
    poor: float = 0.25
    """A step that brings less than this share of the promise asks whether the sample is flat."""
    faithful: float = 0.8
    """A Hessian is used again after a step that brought at least this share of the promise, and
    at most its inverse: it is then still true."""
    costly: int = 30
    """It is used again where it takes this many multiplications per row of the data: a read."""
    patience: int = 4
    """Steps in a row that may fail before another method goes on."""
    short_steps: int = 9
    """Shortened steps, less those in between that are not, before it does: where losses have
    straight pieces many bring a few percent each, and the last ones, unshortened, all digits."""
    first_damping: float = 1e-2
    """Share of the curvature bound that is added after a failed step, ten times more each time."""
    least_damping: float = 1e-6
    """Share below which the damping, ten times less after each good step, is dropped."""

    # end
    near: float = 1e-9
    """Relative gap of which only rounding is left where a model of all rows promises at most"""
    rounding: float = 2e-15
    """this share of the objective, which is what its sums round: after this step no other would
    change a digit of it."""

    # certificate
    certificate: CertificateOptions = CertificateOptions()  # noqa: RUF009 - frozen
    """How hard the bound of a step is looked for."""
    certificate_share: float = 0.01
    """Accuracy of the model behind a certificate, relative to the target: what the bound loses."""
    within_reach: float = 3.0
    """With a sample the bound is too small by about the decrease over the share of the rows: it is
    tried when the promised decrease is at most this many times the target times the share."""
    newton_reach: float = 2 / 3
    """With all rows it is too small by about the square of the decrease: this power of the
    target."""
