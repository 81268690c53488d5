"""What a run returns: the point, its certificate, its history, and how it ended."""

from __future__ import annotations

import enum
import json
import types
import typing
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from ..base.files import read_arrays, write_arrays
from ..base.immutable import field_values
from ..base.protocols import Array
from ..problem import Pair

FORMAT = 2


class Status(enum.Enum):
    """How a run ended.

    * ``CONVERGED``: what is returned meets the stopping rule.
    * ``STALLED``: going on would not improve it; the message says what limits it. Rounding allows
      no smaller gap to be certified; or no bound was found, with columns named that are nearly
      dependent and not penalized; or predictions lie where a Poisson or Gamma loss is not exact.
    * ``MAX_PASSES``, ``MAX_TIME``, ``MAX_EPOCHS``: that limit of ``minimize`` was reached. The
      point is the best one so far, with its own certificate: see ``relative_gap``. Continue with
      ``resume=``, or raise the limit.
    * ``STOPPED``: by a callback.
    * ``INTERRUPTED``: by Ctrl-C.
    * ``DIVERGED``: coefficients are no longer finite.
    """

    CONVERGED = "converged"
    STALLED = "stalled"
    MAX_PASSES = "max_passes"
    MAX_TIME = "max_time"
    MAX_EPOCHS = "max_epochs"
    STOPPED = "stopped"
    DIVERGED = "diverged"
    INTERRUPTED = "interrupted"

    def __reduce__(self) -> tuple[Any, ...]:  # what skops asks for, where pickle has its own way
        return Status, (self.value,)


@dataclass(frozen=True)
class Record:
    """One measurement of a run: plain numbers.

    ``feasibility`` is that of the method's iterates; everything else belongs to the point that
    would be returned.

    Attributes
    ----------
    epoch, passes, gradients : int, float, float
        Epochs; reads (rows read / n); gradients (component gradients / n), so far. In a frame the
        second is called ``reads``.
    seconds, seconds_measuring : float
        Time of the method, and of the measurements (objective, certificate), so far.
    objective, feasibility : float
        F, and ``|A1 x1 + A2 x2 - b| / (1 + |b|)``.
    gap, relative_gap, kkt_residual : float or None
        As in ``Result``.
    nonzeros : int
        Coefficients that are not zero.
    """

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


@dataclass(frozen=True, repr=False, eq=False)
class Result:
    """The answer of ``minimize``.

    Attributes
    ----------
    coef, intercept
        The model; ``intercept`` is None without one.
    x1, x2, dual
        The pair that is the answer, and a dual variable (multiplier) of the constraint. In a
        linear model x2 holds ``coef`` and the intercept, and x1 follows from it.
    objective, feasibility
        F of this pair, and ``|A1 x1 + A2 x2 - b| / (1 + |b|)`` at it.
    gap, relative_gap
        Certified upper bound on F - F*, and the same over the scale that ``Gap`` describes;
        ``None`` where no certificate exists. Then ``kkt_residual``, the relative violation of the
        optimality conditions, is what is known.
    status, message
        How the run ended, and both numbers of the stopping rule in words.
    n_epochs, n_passes, n_gradients, seconds
        Work done; ``seconds`` is wall time, certificates included. ``n_passes`` are reads: rows
        read / n. ``n_gradients`` are component gradients / n, the unit of the papers: two for a
        step that takes two gradients of a row and reads it once. With rows in memory only the
        reads of the method's steps count. With rows from a source, where reads are expensive, all
        count: for constants before the first step, for certificates, and for the final evaluation.
        A stochastic method that starts from zero takes its constants and its first snapshot from
        the same read, so its epochs count the same in memory and from a source.
    output
        The method's own last point, bit for bit: x^ of the last epoch of ACC-SADMM. The answer
        (``coef``, ``x1``, ``x2``) is the best point that was measured, with exact structure.
    ergodic
        The averaged point of the method, where it has one.
    history
        One ``Record`` per measurement.
    info
        What was chosen and why (``"solver"``, ``"route"``, ``"reason"``, ``"engine"``); times of
        solving, measuring and compiling.

    Examples
    --------
    >>> import numpy as np, stochadmm as sa
    >>> problem = sa.Problem.linear(
    ...     sa.Squared(), np.eye(2), np.array([3.0, 0.0]), on_coefficients=sa.L1(0.5)
    ... )
    >>> result = sa.minimize(problem)
    >>> result.status.name, round(result.objective, 6), result.gap < 1e-6
    ('CONVERGED', 1.25, True)
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
    output: Pair
    ergodic: Pair | None
    history: list[Record]
    info: dict[str, Any]
    state: Any = field(default=None, compare=False)
    """The state of the method and the generator, for ``resume``; not saved by ``save``."""

    def __repr__(self) -> str:
        """Return what a reader asks first; arrays by their shapes."""
        told = {
            "status": self.status.name,
            "message": self.message,
            "objective": f"{self.objective:.10g}",
            "relative_gap": _short(self.relative_gap),
            "kkt_residual": _short(self.kkt_residual),
            "feasibility": _short(self.feasibility),
            "coef": f"array of shape {self.coef.shape}, {np.count_nonzero(self.coef)} not zero",
            "intercept": "None" if self.intercept is None else f"{np.round(self.intercept, 6)}",
            "work": f"{self.n_epochs} epochs, {self.n_passes:.4g} reads, {self.seconds:.3g} s",
        }
        return "Result\n" + "\n".join(f"{name:>14}: {words}" for name, words in told.items())

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
        records = [asdict(r) for r in self.history]
        columns = {f.name: [record[f.name] for record in records] for f in fields(Record)}
        columns = {("reads" if name == "passes" else name): v for name, v in columns.items()}
        try:
            import pandas as pd
        except ImportError:
            return columns
        return pd.DataFrame(columns)

    def save(self, path: str | Path) -> Path:
        """Write the result as one ``.npz`` file of arrays and one JSON text; no pickle inside.

        An older file of that name is replaced only when the new one is complete.
        """
        path = Path(path)
        path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
        arrays = {"coef": self.coef, "x1": self.x1, "x2": self.x2, "dual": self.dual}
        arrays |= {"output1": self.output.x1, "output2": self.output.x2}
        if self.intercept is not None:
            arrays["intercept"] = np.asarray(self.intercept)
        if self.ergodic is not None:
            arrays |= {"ergodic1": self.ergodic.x1, "ergodic2": self.ergodic.x2}
        plain = {name: v for name, v in field_values(self).items() if name not in _ARRAYS}
        plain["status"] = self.status.value
        plain["history"] = [asdict(r) for r in self.history]
        plain["format"] = FORMAT
        text = json.dumps(plain, default=_plain)
        try:
            write_arrays(path, arrays | {"meta": np.frombuffer(text.encode(), np.uint8)})
        except OSError as error:
            raise OSError(
                f"cannot write {path}: {error.strerror or error}; choose a folder that exists and "
                "is writable"
            ) from error
        return path

    @classmethod
    def load(cls, path: str | Path) -> Result:
        """Read a result written by ``save``; the file is checked and may come from anybody."""
        try:
            return cls(**_content(read_arrays(path)))
        except _OtherVersion:
            raise ValueError(
                f"{path} was written by another version; solve again and save anew"
            ) from None
        except FileNotFoundError:
            raise
        except OSError as error:
            raise OSError(
                f"cannot read {path}: {error.strerror or error}; name a file written by "
                "Result.save"
            ) from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = " ".join(f"{error}".split())[:200]
            raise ValueError(
                f"{path} is not a saved result ({reason}); write one with Result.save"
            ) from error


def _short(value: float | None) -> str:
    return "None" if value is None else f"{value:.3g}"


_ARRAYS = {"coef", "intercept", "x1", "x2", "dual", "output", "ergodic", "state"}
_PLAIN = [f.name for f in fields(Result) if f.name not in _ARRAYS]


class _OtherVersion(Exception):
    """The file is a result, but not in this format."""


def _content(arrays: dict[str, Array]) -> dict[str, Any]:
    """Return the fields of a result from a file's arrays, each of the kind that it must be."""
    if "meta" not in arrays:
        raise ValueError("it has no description")
    plain: dict[str, Any] = json.loads(arrays.pop("meta").tobytes())
    if not _fits(plain, dict) or "format" not in plain:
        raise ValueError("its description is no table of fields")
    if plain.pop("format") != FORMAT:
        raise _OtherVersion
    _check_fields(Result, plain, _PLAIN, {"status": str, "history": list})
    for record in plain["history"]:
        _check_fields(Record, record, [f.name for f in fields(Record)], {})
    plain["status"] = Status(plain["status"])
    plain["history"] = [Record(**record) for record in plain["history"]]
    return plain | _points(arrays)


def _points(arrays: dict[str, Array]) -> dict[str, Any]:
    """Return the arrays of a result, with shapes and types that fit together."""
    wanted = {"coef", "x1", "x2", "dual", "output1", "output2"}
    if not wanted <= set(arrays) <= wanted | {"intercept", "ergodic1", "ergodic2"}:
        raise ValueError(f"it holds the arrays {', '.join(sorted(arrays)) or 'of nothing'}")
    for name, array in arrays.items():
        few = 0 if name == "intercept" else 1
        if array.dtype not in (np.float32, np.float64) or not few <= array.ndim <= 2:
            raise ValueError(f"{name} is no array of numbers")
    coef, x1, x2, intercept = arrays["coef"], arrays["x1"], arrays["x2"], arrays.get("intercept")
    rows, outputs = coef.shape[0], coef.shape[1:]
    expected = {
        "x1": (x1.shape[0], *outputs),
        "x2": (rows + (intercept is not None), *outputs),
        "dual": (arrays["dual"].shape[0], *outputs),
        "intercept": outputs,
        "output1": x1.shape,
        "output2": x2.shape,
        "ergodic1": x1.shape,
        "ergodic2": x2.shape,
    }
    for name, shape in expected.items():
        if name in arrays and arrays[name].shape != shape:
            raise ValueError(f"{name} has shape {arrays[name].shape}, expected {shape}")
    ergodic = None
    if "ergodic1" in arrays or "ergodic2" in arrays:
        ergodic = Pair(arrays["ergodic1"], arrays["ergodic2"])
    value: Any = intercept
    if intercept is not None and intercept.ndim == 0:
        value = float(intercept)
    points: dict[str, Any] = {name: arrays[name] for name in ("coef", "x1", "x2", "dual")}
    output = Pair(arrays["output1"], arrays["output2"])
    return points | {"intercept": value, "output": output, "ergodic": ergodic}


def _fits(value: Any, hint: Any) -> bool:
    """Say whether a value is of an annotated type; what containers hold is not looked at.

    Whole numbers are numbers, truth values are none.
    """
    if typing.get_origin(hint) is types.UnionType:
        return any(_fits(value, one) for one in typing.get_args(hint))
    if hint in (int, float) and type(value) is bool:
        return False
    kinds = (float, int) if hint is float else typing.get_origin(hint) or hint
    return isinstance(value, kinds)


def _check_fields(kind: Any, content: Any, names: list[str], other: dict[str, type]) -> None:
    """Compare a table with the annotated types of a dataclass."""
    if not _fits(content, dict) or set(content) != set(names):
        raise ValueError(f"it has not the fields of a {kind.__name__}")
    hints = typing.get_type_hints(kind)
    for name in names:
        if not _fits(content[name], other.get(name, hints[name])):
            raise ValueError(f"{name} is a {type(content[name]).__name__}")


def _plain(value: Any) -> Any:
    """Return numbers and arrays of NumPy as Python's, anything else as a text."""
    try:
        return value.tolist()
    except AttributeError:
        return str(value)
