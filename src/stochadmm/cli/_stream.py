"""Fits to files that are larger than the memory limit: rows are read block by block."""

from __future__ import annotations

import os
from dataclasses import dataclass
from glob import has_magic
from pathlib import Path
from typing import Any

import numpy as np

from stochadmm import plots
from stochadmm.base.protocols import Array
from stochadmm.base.workspace import Workspace
from stochadmm.data import Source, open_source
from stochadmm.losses import FOR_LABELS, FOR_NUMBERS
from stochadmm.penalties import Separable
from stochadmm.streaming import sampled_targets, streams, targets_of

from ._columns import check_names
from ._design import Design
from ._tables import ARROW, LIBSVM, TEXT, files_of, heading

GROWTH = {
    **dict.fromkeys(TEXT, 12), **dict.fromkeys(ARROW, 4), **dict.fromkeys(LIBSVM, 6), ".npz": 3,
}  # fmt: skip
"""Bytes in memory per byte of a file, about: cells of text are read as Python objects first."""
LOSSES = {name: kind for name, kind in {**FOR_LABELS, **FOR_NUMBERS}.items() if streams(kind())}
"""Losses that can be streamed."""


def half_of_memory() -> int:
    """Return half of the memory of this machine in bytes, 2 GiB where it is not known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, OSError, ValueError):
        return 1 << 31


def why_streamed(path: str, limit: int) -> str | None:
    """Return why rows are read block by block; None for one file that fits into memory."""
    if path == "-":
        return None
    if Path(path).is_dir() or (has_magic(path) and not Path(path).is_file()):
        return f"{path} stands for a folder or several files, which are streamed"
    kind = Path(path).suffix.lower()
    if kind == ".npy":
        return f"{path} is a .npy file, which is streamed"
    if kind not in GROWTH or not Path(path).is_file():
        return None
    if GROWTH[kind] * Path(path).stat().st_size > limit:
        return f"{path} is larger than the memory limit, so its rows are streamed"
    return None


def opened(path: str, target: str, weight: str | None, offset: str | None, drop: list[str]) -> Any:
    """Return the rows of files as a source; columns to drop are left out."""
    file = files_of(path)[0]
    kind = Path(file).suffix.lower()
    if kind not in {*TEXT, *ARROW}:
        if drop:
            raise ValueError(f"--drop names columns, but {path} has one matrix without names")
        named = None if target == "y" and kind in {".npy", *LIBSVM} else target
        return open_source(path, target=named, weight=weight, offset=offset)
    known = heading(file)
    known.column(target, "target")
    kept = known.features([target, weight, offset], drop)
    return open_source(path, target=target, columns=kept, weight=weight, offset=offset)


def design_of(source: Any) -> Design:
    """Return how the columns of a source were made, as for a table."""
    if not source.names:
        return Design({}, int(source.n_columns))
    pairs = zip(source.roles.columns, source.roles.levels, strict=True)
    levels = {
        name: None if kinds is None else [kind.strip() for kind in kinds] for name, kinds in pairs
    }
    design = Design(levels, int(source.n_columns))
    check_names("the streamed table", design.names)
    return design


def two_labels(source: Source, path: str, target: str) -> Array:
    """Return the two different labels of a source, in their order."""
    found = targets_of(source, most_classes=2).classes
    if found is None:
        raise ValueError(
            f"the target {target!r} of {path} has more than two labels; files beyond the "
            "memory limit are fitted with two, raise --memory for more"
        )
    if len(found) < 2:
        raise ValueError(f"the target {target!r} of {path} has one label; two are needed")
    return found


def parts_of(kind: str, options: dict[str, Any], n: int, alpha: float, ratio: float | None) -> Any:
    """Return operator, its penalty and that of the coefficients, as the estimators have them."""
    import stochadmm as sa
    from stochadmm import structures

    if kind.startswith("GraphFused"):
        share = 0.5 if ratio is None else ratio
        if options["graph"] == "glasso":
            raise ValueError("--graph glasso needs all rows in memory; raise --memory")
        operator = structures.graph(options["graph"], n_features=n)
        own = sa.L1(alpha * share) if share else None
        return operator, sa.L1(alpha * (1 - share)), own
    if kind.startswith("OverlappingGroup"):
        share = 0.0 if ratio is None else ratio
        copies = structures.groups(options["groups"], n_features=n)
        own = sa.L1(alpha * share) if share else None
        return copies, sa.GroupL2(alpha * (1 - share), copies.sizes), own
    share = 1.0 if ratio is None else ratio
    return None, None, Separable(alpha * share, alpha * (1 - share))


@dataclass(frozen=True)
class StreamedModel:
    """The answer of a streamed fit, with what the report page asks of an estimator."""

    result: Any
    kind: str
    alpha: float
    tol: float

    @property
    def history_(self) -> Any:
        """Records of the run."""
        return self.result.history

    def summary(self) -> str:
        """Return the fit in plain words."""
        result = self.result
        return (
            f"{self.kind} with alpha = {self.alpha:g}, rows read block by block\n"
            f"{np.count_nonzero(result.coef)} of {result.coef.size} coefficients are not zero\n"
            f"{result.status.name.capitalize()}: {result.message}, after {result.n_passes:.0f} "
            f"passes and {result.seconds:.2g} s"
        )

    def plot_convergence(self, ax: Any) -> Any:
        """Draw the certified gap."""
        return plots.plot_convergence(self.result, self.tol, ax)


def fit_streamed(
    source: Any, loss: str, operator: Any, penalties: tuple[Any, Any], tol: float,
    max_seconds: float | None, memory: int, checkpoint: Path | None = None,
) -> Any:  # fmt: skip
    """Return the result of a fit to rows in files, from its checkpoint where that exists."""
    import stochadmm as sa
    from stochadmm.estimators.prediction_range import in_range

    own = LOSSES[loss].for_targets(*sampled_targets(source))
    problem = sa.Problem.linear(
        own, source, structure=operator, on_structure=penalties[0], on_coefficients=penalties[1],
        intercept=True,
    )  # fmt: skip

    def solve(problem: Any, before: Any) -> Any:
        file = checkpoint if before is None else None  # it is that of the first range
        return sa.minimize(
            problem, stop=sa.Gap(tol), max_passes=500, max_seconds=max_seconds, memory=memory,
            start=before, checkpoint=file, resume=file is not None,
        )  # fmt: skip

    return in_range(problem, solve, Workspace())
