"""Generated problems with a planted structure, to compare with what a fit finds."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from ._dataset import Array, Dataset, Matrix, Seed, signs

Codes = NDArray[np.uint8]
"""Letters of sequences as 0 .. 3, in the order of ACGT."""

__all__ = [
    "dna_structure",
    "make_chain",
    "make_graph_fused",
    "make_low_rank_tasks",
    "make_onehot_dna",
    "make_overlapping_groups",
    "one_hot_dna",
]


def make_graph_fused(
    n_rows: int = 1000,
    n_features: int = 50,
    *,
    n_levels: int = 5,
    edges_per_feature: float = 2.0,
    cross_fraction: float = 0.05,
    signal: float = 4.0,
    noise: float = 1.0,
    response: str = "binary",
    dtype: DTypeLike = np.float64,
    random_state: Seed = 0,
) -> Dataset:
    """Return rows whose coefficients are constant on the communities of a graph.

    Each community is connected and has one level, evenly spaced in [-signal, signal]. A few edges
    join communities, as in graphs that are estimated from data.

    Parameters
    ----------
    n_rows, n_features : int
        Size. Rows are Gaussian with an expected squared norm of one.
    n_levels : int
        Number of communities; an odd number has one at level zero.
    edges_per_feature : float
        Average number of edges within communities, per column.
    cross_fraction : float
        Edges between communities, as a fraction of those within.
    signal : float
        Largest coefficient.
    noise : float
        Deviation of Gaussian noise ("real"), or scale of logistic noise ("binary"): at 1 the
        labels follow the logistic model exactly, at 0 they are the signs.
    response : {"binary", "real"}
        Labels -1 / +1, or real targets.
    dtype : float32 or float64
        Type of the rows and targets.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    Dataset
        With ``graph`` and ``coef``.

    Examples
    --------
    >>> from stochadmm.datasets import make_graph_fused
    >>> data = make_graph_fused(200, 30, n_levels=3)
    >>> sorted(set(data.coef.tolist()))
    [-4.0, 0.0, 4.0]
    """
    rng = np.random.default_rng(random_state)
    _check_count("n_levels", n_levels, n_features)
    community = rng.permutation(np.arange(n_features) % n_levels)
    graph = _community_graph(community, edges_per_feature, cross_fraction, rng)
    coef = np.linspace(-signal, signal, n_levels)[community]
    X = _gaussian(n_rows, n_features, dtype, rng)
    return Dataset(
        name="graph-fused",
        X=X,
        y=_respond(X @ coef.astype(dtype), response, noise, rng),
        graph=graph,
        coef=coef,
        description="Gaussian rows; coefficients constant on the communities of a random graph.",
    )


def make_chain(
    n_rows: int = 1000,
    n_features: int = 100,
    *,
    n_levels: int = 6,
    signal: float = 4.0,
    noise: float = 1.0,
    response: str = "real",
    dtype: DTypeLike = np.float64,
    random_state: Seed = 0,
) -> Dataset:
    """Return rows whose coefficients are piecewise constant along the columns.

    Parameters
    ----------
    n_levels : int
        Number of pieces; every second one is zero.
    n_rows, n_features, signal, noise, response, dtype, random_state
        As in :func:`make_graph_fused`.

    Returns
    -------
    Dataset
        With ``graph``, the chain, and ``coef``.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.datasets import make_chain
    >>> data = make_chain(200, 40, n_levels=4)
    >>> int(np.count_nonzero(np.diff(data.coef)))
    3
    """
    rng = np.random.default_rng(random_state)
    _check_count("n_levels", n_levels, n_features)
    levels = np.zeros(n_levels)
    size = len(levels[1::2])
    levels[1::2] = signal * rng.uniform(0.5, 1.0, size) * rng.choice([-1.0, 1.0], size)
    coef = levels[np.arange(n_features) * n_levels // n_features]
    X = _gaussian(n_rows, n_features, dtype, rng)
    columns = np.arange(n_features)
    return Dataset(
        name="chain",
        X=X,
        y=_respond(X @ coef.astype(dtype), response, noise, rng),
        graph=np.stack([columns[:-1], columns[1:]], axis=1),
        coef=coef,
        description="Gaussian rows; coefficients piecewise constant along the columns.",
    )


def make_overlapping_groups(
    n_rows: int = 1000,
    *,
    n_groups: int = 20,
    group_size: int = 10,
    overlap: int = 3,
    n_active: int = 4,
    signal: float = 4.0,
    noise: float = 1.0,
    response: str = "real",
    dtype: DTypeLike = np.float64,
    random_state: Seed = 0,
) -> Dataset:
    """Return rows whose nonzero coefficients are a union of overlapping groups.

    Parameters
    ----------
    n_groups, group_size, overlap : int
        Consecutive groups share ``overlap`` columns.
    n_active : int
        Number of groups with nonzero coefficients.
    n_rows, signal, noise, response, dtype, random_state
        As in :func:`make_graph_fused`.

    Returns
    -------
    Dataset
        With ``groups`` and ``coef``.

    Examples
    --------
    >>> from stochadmm.datasets import make_overlapping_groups
    >>> data = make_overlapping_groups(100, n_groups=3, group_size=4, overlap=1)
    Traceback (most recent call last):
    ...
    ValueError: n_active is 4, expected 1 to 3
    >>> data = make_overlapping_groups(100, n_groups=3, group_size=4, overlap=1, n_active=1)
    >>> data.X.shape
    (100, 10)
    """
    rng = np.random.default_rng(random_state)
    _check_count("n_active", n_active, n_groups)
    if not 0 <= overlap < group_size:
        raise ValueError(f"overlap is {overlap}, expected 0 to group_size - 1 = {group_size - 1}")
    stride = group_size - overlap
    groups = {
        f"group {g}": np.arange(g * stride, g * stride + group_size) for g in range(n_groups)
    }
    n_features = n_groups * stride + overlap
    coef = np.zeros(n_features)
    for g in rng.choice(n_groups, n_active, replace=False):
        size = group_size
        values = signal * rng.uniform(0.5, 1.0, size) * rng.choice([-1.0, 1.0], size)
        coef[groups[f"group {g}"]] = values
    X = _gaussian(n_rows, n_features, dtype, rng)
    return Dataset(
        name="overlapping-groups",
        X=X,
        y=_respond(X @ coef.astype(dtype), response, noise, rng),
        groups=groups,
        coef=coef,
        description="Gaussian rows; nonzero coefficients are a union of overlapping groups.",
    )


def make_low_rank_tasks(
    n_rows: int = 1000,
    n_features: int = 50,
    n_tasks: int = 20,
    *,
    rank: int = 3,
    n_active: int | None = None,
    signal: float = 4.0,
    noise: float = 1.0,
    response: str = "real",
    dtype: DTypeLike = np.float64,
    random_state: Seed = 0,
) -> Dataset:
    """Return several targets, or one of several classes, with coefficients of low rank.

    Parameters
    ----------
    n_tasks : int
        Number of targets or classes.
    rank : int
        Rank of the coefficients.
    n_active : int or None
        Number of columns in use, at least ``rank``; half of them by default.
    noise : float
        As in :func:`make_graph_fused`; for classes the scale of Gumbel noise, at 1 the labels
        follow the multinomial model exactly.
    response : {"real", "classes"}
        Targets of shape ``(n_rows, n_tasks)``, or labels ``0 .. n_tasks - 1``.
    n_rows, n_features, signal, dtype, random_state
        As in :func:`make_graph_fused`; ``signal`` is the largest absolute coefficient.

    Returns
    -------
    Dataset
        With ``coef`` of shape ``(n_features, n_tasks)``.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.datasets import make_low_rank_tasks
    >>> int(np.linalg.matrix_rank(make_low_rank_tasks(50, 10, 8, rank=2).coef))
    2
    """
    rng = np.random.default_rng(random_state)
    _check_count("rank", rank, min(n_features, n_tasks))
    n_active = max(rank, n_features // 2) if n_active is None else n_active
    _check_count("n_active", n_active, n_features)
    _check_count("rank", rank, n_active)
    coef = np.zeros((n_features, n_tasks))
    active = rng.choice(n_features, n_active, replace=False)
    coef[active] = rng.standard_normal((n_active, rank)) @ rng.standard_normal((rank, n_tasks))
    coef *= signal / np.abs(coef).max()
    X = _gaussian(n_rows, n_features, dtype, rng)
    scores = X @ coef.astype(dtype)
    if response == "classes":
        y = np.argmax(scores + noise * rng.gumbel(size=scores.shape), axis=1)
    elif response == "real":
        y = _respond(scores, response, noise, rng)
    else:
        raise ValueError(f"response is {response!r}, expected 'real' or 'classes'")
    return Dataset(
        name="low-rank-tasks",
        X=X,
        y=y,
        coef=coef,
        description="Gaussian rows; coefficients of low rank with empty rows.",
    )


def one_hot_dna(codes: Codes, sparse: bool = True, dtype: DTypeLike = np.float64) -> Matrix:
    """Return sequences as rows with four columns per position.

    Parameters
    ----------
    codes : ndarray of uint8 of shape (n_rows, n_positions)
        Letters as 0 .. 3, in the order of ACGT.
    sparse : bool
        CSR, built without a dense copy, or dense.
    dtype : float32 or float64
        Type of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from stochadmm.datasets import one_hot_dna
    >>> one_hot_dna(np.array([[0, 3]], dtype=np.uint8), sparse=False)
    array([[1., 0., 0., 0., 0., 0., 0., 1.]])
    """
    n_rows, n_positions = codes.shape
    if not sparse:
        return np.eye(4, dtype=dtype)[codes].reshape(n_rows, -1)
    size = n_rows * n_positions
    index: type[Any] = np.int32 if size < 2**31 else np.int64
    columns = codes.astype(index)
    columns += 4 * np.arange(n_positions, dtype=index)
    starts = np.arange(0, size + 1, n_positions, dtype=index)
    ones = np.ones(size, dtype=dtype)
    return sp.csr_array((ones, columns.ravel(), starts), shape=(n_rows, 4 * n_positions))


def dna_structure(n_positions: int) -> dict[str, Any]:
    """Return what the columns of ``one_hot_dna`` have in common, as fields of a ``Dataset``.

    ``feature_names``, ``groups`` with one group per position, and ``graph``, a chain per letter
    along the positions.

    Examples
    --------
    >>> from stochadmm.datasets import dna_structure
    >>> dna_structure(2)["graph"].tolist()
    [[0, 4], [1, 5], [2, 6], [3, 7]]
    """
    columns = np.arange(4 * n_positions).reshape(n_positions, 4)
    edges = [np.stack([here, there], axis=1) for here, there in pairwise(columns)]
    return {
        "feature_names": tuple(f"{k}{letter}" for k in range(n_positions) for letter in "ACGT"),
        "groups": {f"position {k}": columns[k] for k in range(n_positions)},
        "graph": np.concatenate(edges) if edges else np.empty((0, 2), dtype=np.intp),
    }


def make_onehot_dna(
    n_rows: int = 10_000,
    n_positions: int = 200,
    *,
    n_motifs: int = 5,
    motif_length: int = 8,
    signal: float = 1.0,
    noise: float = 1.0,
    sparse: bool = True,
    dtype: DTypeLike = np.float32,
    random_state: Seed = 0,
) -> Dataset:
    """Return random DNA, one-hot, with labels that depend on motifs at fixed places.

    Parameters
    ----------
    n_rows, n_positions : int
        Size: four columns per position.
    n_motifs, motif_length : int
        Windows of positions that matter, without overlap. At each position of a window one letter
        has the coefficient ``signal`` and the others ``-signal / 3``.
    signal, noise, random_state
        As in ``make_graph_fused``.
    sparse : bool
        CSR or dense.
    dtype : float32 or float64
        Type of the rows and labels.

    Returns
    -------
    Dataset
        With one group per position, ``graph``, a chain per letter, and ``coef``.

    Examples
    --------
    >>> from stochadmm.datasets import make_onehot_dna
    >>> make_onehot_dna(100)
    Dataset('onehot-dna', X=100x800 csr float32, y=100 float32, graph: 796 edges, groups: 200)
    """
    rng = np.random.default_rng(random_state)
    if n_motifs * motif_length > n_positions:
        raise ValueError(
            f"{n_motifs} motifs of {motif_length} positions do not fit into {n_positions}; take "
            "fewer or shorter ones"
        )
    slots = rng.choice(n_positions // motif_length, n_motifs, replace=False) * motif_length
    places = np.sort((slots[:, None] + np.arange(motif_length)).ravel())
    weights = np.full((len(places), 4), -signal / 3.0)
    weights[np.arange(len(places)), rng.integers(0, 4, len(places))] = signal
    codes = rng.integers(0, 4, (n_rows, n_positions), dtype=np.uint8)
    scores = np.zeros(n_rows)
    for place, weight in zip(places, weights, strict=True):
        scores += weight[codes[:, place]]
    coef = np.zeros((n_positions, 4))
    coef[places] = weights
    return Dataset(
        name="onehot-dna",
        X=one_hot_dna(codes, sparse, dtype),
        y=signs(scores + noise * rng.logistic(size=n_rows) > 0.0).astype(dtype),
        coef=coef.ravel(),
        description="Random DNA, one-hot; labels from motifs at fixed places.",
        **dna_structure(n_positions),
    )


def _gaussian(n_rows: int, n_features: int, dtype: DTypeLike, rng: np.random.Generator) -> Array:
    kind = np.float32 if np.dtype(dtype) == np.float32 else np.float64
    X = rng.standard_normal((n_rows, n_features), dtype=kind)
    X /= kind(np.sqrt(n_features))
    return X


def _respond(scores: Array, response: str, noise: float, rng: np.random.Generator) -> Array:
    if response == "real":
        y = scores + noise * rng.standard_normal(scores.shape)
    elif response == "binary":
        y = signs(scores + noise * rng.logistic(size=scores.shape) > 0.0)
    else:
        raise ValueError(f"response is {response!r}, expected 'binary' or 'real'")
    return y.astype(scores.dtype)


def _community_graph(
    community: NDArray[np.intp], per_feature: float, cross: float, rng: np.random.Generator
) -> NDArray[np.intp]:
    """Return a spanning tree of each community, more edges inside, and some between."""
    pairs = []
    for level in range(community.max() + 1):
        members = np.flatnonzero(community == level)
        later = np.arange(1, len(members))
        pairs.append(np.stack([members[rng.integers(0, later)], members[later]], axis=1))
        n_more = max(0, round(per_feature * len(members)) - len(later))
        pairs.append(rng.choice(members, (n_more, 2)))
    n_cross = round(cross * sum(map(len, pairs)))
    between = rng.integers(0, len(community), (n_cross, 2))
    pairs.append(between[community[between[:, 0]] != community[between[:, 1]]])
    edges = np.unique(np.sort(np.concatenate(pairs), axis=1), axis=0)
    return np.asarray(edges[edges[:, 0] != edges[:, 1]], dtype=np.intp)


def _check_count(name: str, value: int, largest: int) -> None:
    if not 1 <= value <= largest:
        raise ValueError(f"{name} is {value}, expected 1 to {largest}")
