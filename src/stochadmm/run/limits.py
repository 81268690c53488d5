"""How long a run may go on: limits, the clock of a run, and the numbers of its habits."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..base.validation import is_between, is_whole
from ..certificates import CertificateOptions


@dataclass(frozen=True)
class Limits:
    """Budgets of a run.

    Parameters
    ----------
    max_passes : float
        Reads of the data.
    max_seconds : float, optional
        Seconds of waiting.
    max_epochs : int, optional
        Epochs of the method.
    """

    max_passes: float = 100.0
    max_seconds: float | None = None
    max_epochs: int | None = None

    def __post_init__(self) -> None:
        if not is_between(self.max_passes, 0, math.inf, above=True):
            raise ValueError(f"max_passes is {self.max_passes!r}, expected a number > 0")
        if self.max_seconds is not None and not is_between(
            self.max_seconds, 0, math.inf, above=True
        ):
            raise ValueError(f"max_seconds is {self.max_seconds!r}, expected None or a number > 0")
        if self.max_epochs is not None and not (is_whole(self.max_epochs) and self.max_epochs > 0):
            raise ValueError(f"max_epochs is {self.max_epochs!r}, expected None or an integer > 0")


@dataclass(frozen=True)
class Habits:
    """Numbers of the driver that change the time a run takes, not its answer."""

    often: float = 1.005
    """Next measurement at so many times the epochs of the last: each of the first two hundred."""
    seldom: float = 1.1
    """The same where measuring may cost more than an epoch: a tenth more cost less."""
    largest_copy: int = 1 << 28
    """Bytes of a state that is copied before each epoch, so that an interrupt loses nothing."""
    reserve: float = 0.2
    """Share of the seconds kept for a certificate while there is none."""
    tight: float = 10.0
    """How many times longer than a scaled certificate a first tight one may take."""
    certificate: CertificateOptions = CertificateOptions()  # noqa: RUF009 - frozen
    """How hard bounds are looked for that methods do not find themselves."""
    disproved: float = 1e-10
    """Relative distance below a bound at which a feasible point refutes it: above rounding."""


@dataclass
class Stopwatch:
    """The clock of a run: solving and measuring apart, and what the user waited."""

    limits: Limits = field(default_factory=Limits)
    reserve: float = Habits.reserve
    solving: float = 0.0
    measuring: float = 0.0
    before: float = 0.0
    """Seconds of the runs that this one resumes."""
    began: float = field(default_factory=time.perf_counter)

    @contextmanager
    def solves(self) -> Iterator[None]:
        """Count the seconds of the block as solving."""
        clock = time.perf_counter()
        yield
        self.solving += time.perf_counter() - clock

    @contextmanager
    def measures(self) -> Iterator[None]:
        """Count the seconds of the block as measuring."""
        clock = time.perf_counter()
        yield
        self.measuring += time.perf_counter() - clock

    @property
    def seconds(self) -> float:
        """What the user waited."""
        return self.before + time.perf_counter() - self.began

    def left(self, certified: bool) -> float:
        """Return what is left for steps; some is kept for the certificate of the answer."""
        if self.limits.max_seconds is None:
            return math.inf
        share = 1.0 if certified else 1.0 - self.reserve
        return share * self.limits.max_seconds - self.seconds

    @property
    def last_words(self) -> float:
        """Seconds that the certificate of the answer may take at least."""
        limit = self.limits.max_seconds
        return math.inf if limit is None else self.reserve * limit
