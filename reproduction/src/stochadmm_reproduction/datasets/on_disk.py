"""Generated data sets too large to hold twice, written to the disk piece by piece.

Every piece of rows has a generator of its own, so that a file can be gone on with after an
interrupt, on another machine too, and is the same whatever the interrupts. ``progress.json`` says
how many pieces are on the disk; it is written after the pieces are.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from stochadmm.datasets import Dataset, dna_structure

from .._files import write_text
from ._scaling import Array, signs

Say = Callable[[int, int], None]
"""Told the pieces done and all of them."""


@dataclass(frozen=True)
class DnaShape:
    """Random DNA with planted motifs, one-hot, columns and then rows scaled, CSR in float32.

    The paper's size by default: 2,400,000 + 600,000 rows of 200 letters, five gigabytes.
    """

    n_rows: int = 2_400_000
    n_test: int = 600_000
    n_positions: int = 200
    n_motifs: int = 5
    motif_length: int = 8
    seed: int = 0
    piece: int = 20_000
    """Rows that are made at a time."""

    @property
    def n_bytes(self) -> int:
        """What it takes on the disk."""
        return (self.n_rows + self.n_test) * (8 * self.n_positions + 4)


@dataclass(frozen=True)
class FeaturesShape:
    """Features like those of a network's last layer, max(0, .), with classes, as float16.

    ImageNet's size by default: 1,281,167 + 50,000 rows of 4,096 features, 1,000 classes.
    """

    n_rows: int = 1_281_167
    n_test: int = 50_000
    n_features: int = 4_096
    n_classes: int = 1_000
    rank: int = 64
    """Of the matrix of class means."""
    separation: float = 0.5
    """Deviation of class means against that of the noise of single features."""
    distance: float | None = None
    """Of two class means, in deviations of the rows between them: how much classes overlap,
    whatever the number of features. None: noise of single features only, which leaves none."""
    seed: int = 0
    piece: int = 2_048

    @property
    def n_bytes(self) -> int:
        """What it takes on the disk."""
        return (self.n_rows + self.n_test) * (2 * self.n_features + 4)


def dna_on_disk(
    folder: Path, shape: DnaShape | None = None, say: Say = lambda done, all: None
) -> Dataset:
    """Return random DNA from memory maps in a folder, made there first where it is missing."""
    shape = shape or DnaShape()
    n, width = shape.n_rows + shape.n_test, shape.n_positions
    files = {
        "indices": ((n, width), np.dtype(np.int32)),
        "data": ((n, width), np.dtype(np.float32)),
        "y": ((n,), np.dtype(np.float32)),
    }
    rng = np.random.default_rng([shape.seed, 0])
    slots = rng.choice(width // shape.motif_length, shape.n_motifs, replace=False)
    places = np.sort((shape.motif_length * slots[:, None] + np.arange(shape.motif_length)).ravel())
    weights = np.full((len(places), 4), -1.0 / 3.0)
    weights[np.arange(len(places)), rng.integers(0, 4, len(places))] = 1.0
    scale = _dna_scale(shape)

    def make(maps: dict[str, Any], number: int, rows: slice) -> None:
        own = np.random.default_rng([shape.seed, 1, number])
        codes = own.integers(0, 4, (rows.stop - rows.start, width), dtype=np.uint8)
        columns = codes + 4 * np.arange(width, dtype=np.int32)
        values = scale[columns]
        maps["indices"][rows] = columns
        maps["data"][rows] = values / np.sqrt(np.square(values).sum(axis=1, keepdims=True))
        scores = sum(w[codes[:, p]] for p, w in zip(places, weights, strict=True))
        maps["y"][rows] = signs(scores + own.logistic(size=len(codes)) > 0.0)

    maps = _made(folder, "dna", shape, files, n, make, say)
    coef = np.zeros((width, 4))
    coef[places] = weights

    def rows(part: slice) -> sp.csr_array:
        size = part.stop - part.start
        index: type[Any] = np.int32 if size * width < 2**31 else np.int64
        starts = np.arange(0, size * width + 1, width, dtype=index)
        entries = (maps["data"][part].reshape(-1), maps["indices"][part].reshape(-1), starts)
        return sp.csr_array(entries, shape=(size, 4 * width), copy=False)

    train, test = slice(0, shape.n_rows), slice(shape.n_rows, n)
    return Dataset(
        name="dna-full",
        X=rows(train),
        y=np.array(maps["y"][train]),
        X_test=rows(test),
        y_test=np.array(maps["y"][test]),
        coef=coef.ravel(),
        description="Random DNA, one-hot; labels from motifs at fixed places.",
        **dna_structure(width),
    )


def _dna_scale(shape: DnaShape) -> NDArray[np.float32]:
    """Return one over the root mean square of every column, from the first piece of rows."""
    own = np.random.default_rng([shape.seed, 1, 0])
    first = min(shape.piece, shape.n_rows + shape.n_test)
    codes = own.integers(0, 4, (first, shape.n_positions), dtype=np.uint8)
    counts = np.stack([(codes == letter).sum(axis=0) for letter in range(4)], axis=1)
    scale: NDArray[np.float32] = np.sqrt(first / np.maximum(counts, 1)).ravel().astype(np.float32)
    return scale


def features_on_disk(
    folder: Path, shape: FeaturesShape | None = None, say: Say = lambda done, all: None
) -> Dataset:
    """Return rows of float16 as memory maps in a folder, made there first where missing."""
    shape = shape or FeaturesShape()
    n, d, C = shape.n_rows + shape.n_test, shape.n_features, shape.n_classes
    files = {"X": ((n, d), np.dtype(np.float16)), "y": ((n,), np.dtype(np.int32))}
    rng = np.random.default_rng([shape.seed, 0])
    left = rng.standard_normal((C, shape.rank), dtype=np.float32)
    right = rng.standard_normal((shape.rank, d), dtype=np.float32)
    unit = np.float32(shape.separation / shape.rank**0.5)
    means = left @ right * unit
    # means are sqrt(2 rank) apart where rows vary together, around their mean
    within = 0.0 if shape.distance is None else (2 * shape.rank) ** 0.5 / shape.distance
    together = right * (unit * np.float32(within))
    # columns of unlike size, as those of a network are, before they are scaled
    means += rng.standard_normal(d, dtype=np.float32) - 0.5

    def raw(number: int, size: int) -> tuple[Array, Array]:
        own = np.random.default_rng([shape.seed, 1, number])
        labels = own.integers(0, C, size, dtype=np.int32)
        X = own.standard_normal((size, d), dtype=np.float32)
        X += means[labels]
        if within:
            X += own.standard_normal((size, shape.rank), dtype=np.float32) @ together
        return np.maximum(X, 0.0, out=X), labels

    some, _ = raw(0, min(shape.piece, n))
    scale = np.sqrt(np.mean(np.square(some), axis=0))
    scale[scale == 0.0] = 1.0

    def make(maps: dict[str, Any], number: int, rows: slice) -> None:
        X, labels = raw(number, rows.stop - rows.start)
        X /= scale
        X /= np.sqrt(np.maximum(np.einsum("ij,ij->i", X, X), 1e-30))[:, None]
        maps["X"][rows] = X
        maps["y"][rows] = labels

    maps = _made(folder, "features", shape, files, n, make, say)
    y = np.array(maps["y"], dtype=np.int64)
    return Dataset(
        name="features",
        X=maps["X"][: shape.n_rows],
        y=y[: shape.n_rows],
        X_test=maps["X"][shape.n_rows :],
        y_test=y[shape.n_rows :],
        description="Rectified Gaussian features around class means of low rank.",
    )


def remove(folder: Path) -> None:
    """Delete what was made in a folder; other files there stay."""
    for name in ("dna", "features"):
        place = folder / name
        if (place / "progress.json").exists():
            shutil.rmtree(place)


def remove_all(folder: Path) -> None:
    """Delete what was made in the folders of a folder."""
    for each in folder.iterdir() if folder.is_dir() else ():
        remove(each)
        if each.is_dir() and not any(each.iterdir()):
            each.rmdir()


def _made(
    folder: Path,
    kind: str,
    shape: Any,
    files: dict[str, tuple[tuple[int, ...], Any]],
    n: int,
    make: Callable[[dict[str, Any], int, slice], None],
    say: Say,
) -> dict[str, Any]:
    """Return read-only maps of the files, after the pieces that are missing have been made."""
    place = folder / kind
    progress = place / "progress.json"
    wanted = asdict(shape)
    done = _done(progress, wanted)
    pieces = -(-n // shape.piece)
    if done < pieces:
        place.mkdir(parents=True, exist_ok=True)
        _check_space(place, files, shape)
        mode = "r+" if done else "w+"
        maps: dict[str, Any] = {
            name: np.lib.format.open_memmap(
                place / f"{name}.npy", mode=mode, dtype=dtype, shape=size
            )
            for name, (size, dtype) in files.items()
        }
        for number in range(done, pieces):
            rows = slice(number * shape.piece, min(n, (number + 1) * shape.piece))
            make(maps, number, rows)
            for each in maps.values():
                each.flush()
            write_text(progress, json.dumps({"shape": wanted, "done": number + 1}))
            say(number + 1, pieces)
        del maps
    return {name: np.load(place / f"{name}.npy", mmap_mode="r") for name in files}


def _done(progress: Path, wanted: dict[str, Any]) -> int:
    """Return how many pieces of the wanted shape are on the disk."""
    try:
        content = json.loads(progress.read_text(encoding="utf-8"))
        return int(content["done"]) if content["shape"] == wanted else 0
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def _check_space(place: Path, files: dict[str, tuple[tuple[int, ...], Any]], shape: Any) -> None:
    """Raise before anything is written where the disk is too small."""
    here = sum(
        (place / f"{name}.npy").stat().st_size
        for name in files
        if (place / f"{name}.npy").exists()
    )
    free = shutil.disk_usage(place).free
    if free + here < shape.n_bytes:
        raise OSError(
            f"{place} has {free / 1e9:.1f} GB left, expected {shape.n_bytes / 1e9:.1f} GB for a "
            "generated set; free some space or set STOCHADMM_CACHE to another disk"
        )
    if not os.access(place, os.W_OK):
        raise PermissionError(f"cannot write to {place}; set STOCHADMM_CACHE to another folder")
