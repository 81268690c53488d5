"""What a run returns: the point, its certificate, its history, and how it ended."""

from __future__ import annotations

import enum
import json
import math
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from .problem import Pair
from .protocols import Array

FORMAT = 1


class Status(enum.Enum):
    """How a run ended."""

    CONVERGED = "converged"
    MAX_PASSES = "max_passes"
    MAX_TIME = "max_time"
    STOPPED = "stopped"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Record:
    """One measurement: plain numbers."""

    epoch: int
    passes: float
    gradients: float
    seconds: float
    """Solving, without measuring."""
    seconds_measuring: float
    objective: float
    feasibility: float
    gap: float | None
    relative_gap: float | None
    kkt_residual: float | None
    nonzeros: int


@dataclass(frozen=True)
class Result:
    """The answer of ``minimize``.

    Attributes
    ----------
    coef, intercept
        The model; ``intercept`` is None without one.
    x1, x2, dual
        The pair of the method and its multiplier.
    objective, feasibility
        F of ``coef`` (a feasible point), and the norm of A1 x1 + A2 x2 - b at the pair.
    gap, relative_gap
        Certified upper bound on F(coef) - F*, ``None`` where no certificate exists; then
        ``kkt_residual`` is what is known.
    status, message
        How the run ended, and both numbers of the stopping rule in words.
    n_epochs, n_passes, n_gradients, seconds
        Work done; ``seconds`` is what the user waited, certificates included.
    ergodic
        The averaged point of the method, where it has one.
    history
        One ``Record`` per measurement.
    info
        What was chosen and why; times of solving, measuring and compiling.
    """

    coef: Array
    intercept: Any
    x1: Array
    x2: Array
    dual: Array
    objective: float
    feasibility: float
    gap: float | None
    relative_gap: float | None
    kkt_residual: float | None
    status: Status
    message: str
    n_epochs: int
    n_passes: float
    n_gradients: float
    seconds: float
    ergodic: Pair | None
    history: list[Record]
    info: dict[str, Any]
    state: Any = field(default=None, repr=False, compare=False)
    """The state of the method and the generator, for ``resume``; not saved by ``save``."""

    @property
    def converged(self) -> bool:
        """Whether the stopping rule was met."""
        return self.status is Status.CONVERGED

    @property
    def pair(self) -> Pair:
        """The pair (x1, x2)."""
        return Pair(self.x1, self.x2)

    def as_frame(self) -> Any:
        """Return the history as a pandas frame, or as a dict of lists where pandas is absent."""
        columns = {f.name: [getattr(r, f.name) for r in self.history] for f in fields(Record)}
        try:
            import pandas as pd
        except ImportError:
            return columns
        return pd.DataFrame(columns)

    def save(self, path: str | Path) -> Path:
        """Write the result as one ``.npz`` file of arrays and one JSON text; no pickle inside."""
        path = Path(path)
        path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
        arrays = {"coef": self.coef, "x1": self.x1, "x2": self.x2, "dual": self.dual}
        if self.intercept is not None:
            arrays["intercept"] = np.asarray(self.intercept)
        if self.ergodic is not None:
            arrays |= {"ergodic1": self.ergodic.x1, "ergodic2": self.ergodic.x2}
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _ARRAYS}
        plain["status"] = self.status.value
        plain["history"] = [asdict(r) for r in self.history]
        plain["format"] = FORMAT
        text = json.dumps(plain, default=_plain)
        try:
            with open(path, "wb") as file:
                meta = np.frombuffer(text.encode(), np.uint8)
                np.savez(file, **(arrays | {"meta": meta}))  # type: ignore[arg-type]
        except OSError as error:
            raise OSError(
                f"cannot write {path}: {error.strerror or error}; choose a folder that exists and "
                "is writable"
            ) from error
        return path

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """Read a result written by ``save``."""
        try:
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as data:
                arrays = dict(data)
            plain = json.loads(arrays.pop("meta").tobytes())
        except FileNotFoundError:
            raise
        except (ValueError, KeyError, OSError, EOFError, BadZipFile) as error:
            raise ValueError(
                f"{path} is not a saved result ({error}); write one with Result.save"
            ) from error
        if plain.pop("format") != FORMAT:
            raise ValueError(f"{path} was written by another version; solve again and save anew")
        ergodic = None
        if "ergodic1" in arrays:
            ergodic = Pair(arrays.pop("ergodic1"), arrays.pop("ergodic2"))
        intercept = arrays.pop("intercept", None)
        if intercept is not None and intercept.ndim == 0:
            intercept = float(intercept)
        plain["status"] = Status(plain["status"])
        plain["history"] = [Record(**r) for r in plain["history"]]
        return cls(**arrays, intercept=intercept, ergodic=ergodic, **plain)


_ARRAYS = {"coef", "intercept", "x1", "x2", "dual", "ergodic", "state"}


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return str(value)
