"""DNA: dna-methylation, dna-gue, dna-statlog, one-hot."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stochadmm.datasets import Dataset, dna_structure, one_hot_dna

from .._names import near
from ._scaling import signs
from ._store import Arrays, fetch, parsed
from ._tables import read_svmlight

Codes = NDArray[np.uint8]
LETTERS = "ACGT"


def load_methylation(*, task: str = "6mA_T.thermophile", sparse: bool = True) -> Dataset:
    """Return one of the 17 benchmarks, or all of them as tasks with ``task="all"``."""
    files = ["dna-methylation/iDNA-MS_txt.tar.xz"]
    arrays = parsed("dna-methylation", files, _read_methylation)
    available = sorted({key.split("/")[0] for key in arrays})
    chosen = _choose(task, available, {"all": available})
    parts = {"train": ["train_neg", "train_pos"], "test": ["test_neg", "test_pos"]}
    return _assemble("dna-methylation", arrays, chosen, parts, sparse)


def load_gue(*, task: str = "prom-core", validation: str = "drop", sparse: bool = True) -> Dataset:
    """Return the core promoters, one of "tf-0" .. "tf-4", or these five as tasks with "tf".

    ``validation`` says where the rows of ``dev.csv`` go: "drop", "train" or "test".
    """
    arrays = parsed("dna-gue", ["dna-gue/GUE_tf_prom_core.tar.xz"], _read_gue)
    available = sorted({key.split("/")[0] for key in arrays})
    chosen = _choose(task, available, {"tf": [name for name in available if name != "prom-core"]})
    parts = {"train": ["train"], "test": ["test"], "drop": []}
    if validation not in parts:
        raise ValueError(f"validation is {validation!r}, expected 'drop', 'train' or 'test'")
    parts[validation].append("dev")
    return _assemble("dna-gue", arrays, chosen, parts, sparse)


def load_statlog(*, sparse: bool = True) -> Dataset:
    """Return the splice junctions, three classes."""
    files = ("dna-statlog/dna.scale.gz", "dna-statlog/dna.scale.t.gz")
    (X, y), (X_test, y_test) = (read_svmlight(fetch(path), 180) for path in files)
    return Dataset(
        name="dna-statlog",
        X=X if sparse else X.toarray(),
        y=y.astype(np.int64) - 1,
        X_test=X_test if sparse else X_test.toarray(),
        y_test=y_test.astype(np.int64) - 1,
        target_names=("1", "2", "3"),
        groups={f"position {k}": np.arange(3 * k, 3 * k + 3) for k in range(60)},
    )


def _choose(task: str, available: list[str], several: dict[str, list[str]]) -> list[str]:
    if task in several:
        return several[task]
    if task in available:
        return [task]
    every = available + list(several)
    found = near(task, every) or every
    raise ValueError(f"task is {task!r}, which is not there; try {', '.join(map(repr, found))}")


def _assemble(
    name: str, arrays: Arrays, chosen: list[str], parts: dict[str, list[str]], sparse: bool
) -> Dataset:
    """Stack the parts of the chosen tasks; a single task needs no task index."""
    fields: dict[str, Any] = {}
    for suffix, which in (("", parts["train"]), ("_test", parts["test"])):
        keys = [(task, f"{task}/{part}") for task in chosen for part in which]
        codes = np.concatenate([arrays[f"{key}/codes"] for _, key in keys])
        labels = np.concatenate([arrays[f"{key}/label"] for _, key in keys])
        fields[f"X{suffix}"] = one_hot_dna(codes, sparse)
        fields[f"y{suffix}"] = signs(labels == 1)
        if len(chosen) > 1:
            lengths = [len(arrays[f"{key}/label"]) for _, key in keys]
            fields[f"tasks{suffix}"] = np.repeat([chosen.index(task) for task, _ in keys], lengths)
            fields["task_names"] = tuple(chosen)
    return Dataset(name=name, **fields, **dna_structure(fields["X"].shape[1] // 4))


def _encode(sequences: list[bytes]) -> Codes:
    table = np.full(256, 4, dtype=np.uint8)
    table[np.frombuffer(LETTERS.encode(), np.uint8)] = np.arange(4)
    codes = table[np.frombuffer(b"".join(sequences), np.uint8)].reshape(len(sequences), -1)
    if codes.max(initial=0) > 3:
        raise ValueError(f"a sequence has letters other than {LETTERS}; leave such rows out")
    return codes


def _members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        files = ((member.name, archive.extractfile(member)) for member in archive)
        return {name: stream.read() for name, stream in files if stream is not None}


def _read_methylation(path: Path) -> Arrays:
    arrays: Arrays = {}
    for member, content in _members(path).items():
        _, task, part = member.removesuffix(".txt").split("/")
        codes = _encode(content.split())
        arrays[f"{task}/{part}/codes"] = codes
        arrays[f"{task}/{part}/label"] = np.full(len(codes), part.endswith("pos"), dtype=np.int8)
    return arrays


def _read_gue(path: Path) -> Arrays:
    arrays: Arrays = {}
    for member, content in _members(path).items():
        family, task, part = member.removesuffix(".csv").split("/")
        rows = [line.split(b",") for line in content.split()[1:]]
        key = f"{family}-{task.removeprefix('prom_').removesuffix('_all')}/{part}"
        arrays[f"{key}/codes"] = _encode([sequence for sequence, _ in rows])
        arrays[f"{key}/label"] = np.array([int(label) for _, label in rows], dtype=np.int8)
    return arrays
