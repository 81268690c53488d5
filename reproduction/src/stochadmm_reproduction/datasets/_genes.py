"""Gene expression with pathways or a network over the genes: breast-cancer-graph, p53-pathways."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stochadmm.datasets import Dataset

from ._scaling import Array, signs, standardize_columns
from ._store import fetch

_FOLDER = "breast-cancer-graph"
_TARGETS = {"er": ("er", "ER"), "metastasis": ("e.dmfs", "metastasis")}


def load_p53(*, standardize: bool = False) -> Dataset:
    """Return the cell lines, +1 where p53 is mutated, with the pathways as groups."""
    header, *rows = _read_csv(fetch("p53-pathways/p53_expression.csv.gz"))
    genes = header[2:]
    table = np.array([row[1:] for row in rows], dtype=np.float64)
    column = {gene: j for j, gene in enumerate(genes)}
    pathways = json.loads(fetch("p53-pathways/p53_pathways.json").read_text(encoding="utf-8"))
    X = table[:, 1:]
    if standardize:
        X, _ = standardize_columns(X, None)
    return Dataset(
        name="p53-pathways",
        X=np.ascontiguousarray(X),
        y=signs(table[:, 0] == 1.0),
        feature_names=tuple(genes),
        target_names=("wild type", "mutated"),
        groups={
            pathway: np.array([column[gene] for gene in members if gene in column], dtype=np.intp)
            for pathway, members in pathways.items()
        },
    )


def load_breast_cancer_graph(
    *, target: str = "er", merge_probes: bool = False, standardize: bool = False
) -> Dataset:
    """Return the tumours, with the network and the pathways on the probes present.

    ``target`` is "er" (receptor status) or "metastasis" (rows without it are left out).
    ``merge_probes`` averages the probes of one gene and drops those of no known gene. Missing
    values are replaced by the mean of the probe.
    """
    if target not in _TARGETS:
        raise ValueError(f"target is {target!r}, expected 'er' or 'metastasis'")
    field, label = _TARGETS[target]
    X, probes = _expression()
    genes = _read_csv(fetch(f"{_FOLDER}/nkis_genes.csv.gz"))[1:]
    entrez = np.array([int(row[1] or 0) for row in genes])
    names = probes
    if merge_probes:
        X, entrez, names = _merge(X, entrez, [row[3] or row[2] or row[0] for row in genes])
    header, *clinical = _read_csv(fetch(f"{_FOLDER}/nkis_clinical.csv.gz"))
    outcome = [row[header.index(field)] for row in clinical]
    known = np.array([value != "" for value in outcome])
    X = X[known]
    if standardize:
        X, _ = standardize_columns(X, None)
    columns = _columns_of(entrez)
    return Dataset(
        name="breast-cancer-graph",
        X=X,
        y=signs(np.array(outcome)[known] == "1"),
        feature_names=tuple(names),
        target_names=(f"no {label}", label) if target == "metastasis" else ("ER-", "ER+"),
        graph=_network(columns),
        groups=_pathways(columns),
    )


def _expression() -> tuple[Array, list[str]]:
    header, *rows = _read_csv(fetch(f"{_FOLDER}/nkis_expression.csv.gz"))
    X = np.array([[value or "nan" for value in row[1:]] for row in rows], dtype=np.float64)
    return np.where(np.isnan(X), np.nanmean(X, axis=0), X), header[1:]


def _merge(X: Array, entrez: Array, symbols: list[str]) -> tuple[Array, Array, list[str]]:
    """Return one column per gene: the mean of its probes."""
    ids, first, gene = np.unique(entrez, return_index=True, return_inverse=True)
    member = np.zeros((X.shape[1], len(ids)))
    member[np.arange(X.shape[1]), gene] = 1.0
    merged = (X @ member) / member.sum(axis=0)
    keep = ids > 0
    return merged[:, keep], ids[keep], [symbols[j] for j in first[keep]]


def _columns_of(entrez: Array) -> dict[int, list[int]]:
    columns: dict[int, list[int]] = {}
    for j, gene in enumerate(entrez.tolist()):
        if gene:
            columns.setdefault(gene, []).append(j)
    return columns


def _network(columns: dict[int, list[int]]) -> NDArray[np.intp]:
    """Return the edges among the columns; the probes of one gene have the same neighbours."""
    from scipy.io import loadmat

    entrez = loadmat(fetch(f"{_FOLDER}/entrez.mat"))["entrez"].ravel()
    pairs = entrez[np.loadtxt(fetch(f"{_FOLDER}/edge.txt.gz"), dtype=np.int64) - 1]
    edges = {
        (min(i, j), max(i, j))
        for a, b in pairs.tolist()
        for i in columns.get(a, ())
        for j in columns.get(b, ())
    }
    return np.array(sorted(edges), dtype=np.intp).reshape(-1, 2)


def _pathways(columns: dict[int, list[int]]) -> dict[str, NDArray[np.intp]]:
    members: dict[str, list[int]] = {}
    for pathway, gene in np.loadtxt(fetch(f"{_FOLDER}/pathways.txt.gz"), dtype=np.int64).tolist():
        if gene in columns:
            members.setdefault(f"pathway {pathway}", []).extend(columns[gene])
    return {name: np.array(sorted(set(indices))) for name, indices in members.items()}


def _read_csv(path: Path) -> list[list[str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as stream:
        return list(csv.reader(stream))
