"""What cross-validation costs: many strengths and folds on small data.

    python benchmarks/cross_validation.py [--images]

First 5 folds x 50 strengths of graph-guided fused lasso on 1,500 generated rows of 80 columns with
a graph of 250 edges, in processor seconds of all threads and processes. With ``--images`` also 3
folds x 10 strengths of total variation + l1 on 200 generated images of 25 x 25 pixels, beside
nilearn's SpaceNet (``pip install nilearn``) with its own stopping rule, and both scores on rows
that were left out.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
import warnings
from collections.abc import Callable
from typing import Any

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np  # noqa: E402

import stochadmm as sa  # noqa: E402

SECONDS = 2.0
"""Processor seconds that the first part may take."""


def spent() -> float:
    """Return the processor seconds of this process and of those that it started."""
    own, children = (
        resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def timed(call: Callable[[], Any]) -> tuple[Any, float, float]:
    """Return the answer of a call, its processor seconds and its seconds."""
    start, clock = spent(), time.perf_counter()
    answer = call()
    return answer, spent() - start, time.perf_counter() - clock


def graph(n_rows: int = 1500, d: int = 80, n_edges: int = 250) -> None:
    """Print what 5 folds x 50 strengths of a graph-guided model take."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, d))
    levels = np.repeat([1.0, 0.0, -1.0, 0.5], d // 4)
    score = X @ levels + 3.0 * rng.standard_normal(n_rows)
    edges: set[tuple[int, int]] = set()
    while len(edges) < n_edges:  # most of them join columns of one level
        i, j = np.sort(rng.integers(0, d, 2))
        if i != j and (levels[i] == levels[j] or rng.random() < 0.2):
            edges.add((int(i), int(j)))
    listed = sorted(edges)
    for role, y in (("Regressor", score), ("Classifier", score > 0)):
        model = getattr(sa, f"GraphFused{role}CV")(graph=listed, alphas=50, cv=5)
        _, cpu, wall = timed(lambda model=model, y=y: model.fit(X, y))
        print(
            f"GraphFused{role}CV, 5 x 50 on {n_rows} x {d}, {n_edges} edges: {cpu:.2f} s of "
            f"processors (at most {SECONDS:g}), {wall:.2f} s waited, alpha {model.alpha_:.3g}"
        )


def images(n_images: int = 200, side: int = 25) -> None:
    """Print 3 folds x 10 strengths of total variation + l1 beside SpaceNet."""
    rng = np.random.default_rng(0)
    place = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"))
    blob = sum(
        sign * (np.square(place - np.reshape(center, (2, 1, 1))).sum(axis=0) < 12)
        for center, sign in (((7, 7), 1.0), ((17, 16), -1.0))
    )
    X = rng.standard_normal((2 * n_images, side * side))
    X = X + 0.5 * rng.standard_normal((2 * n_images, 1))
    score = X @ np.ravel(blob) + 5.0 * rng.standard_normal(2 * n_images)
    y = np.where(score > 0, 1, 0)
    train, test = slice(0, n_images), slice(n_images, None)
    model = sa.GraphFusedClassifierCV(graph=(side, side), alphas=10, cv=3)
    _, cpu, _ = timed(lambda: model.fit(X[train], y[train]))
    accuracy = model.score(X[test], y[test])
    print(f"ours, 3 x 10 on {n_images} images: {cpu:.2f} s of processors, accuracy {accuracy:.3f}")
    try:
        import nibabel
        from nilearn.decoding import SpaceNetClassifier
    except ImportError:
        print("nilearn is not installed: pip install nilearn")
        return

    def volume(rows: Any) -> Any:
        flat = rows.T.reshape(side, side, 1, -1)
        return nibabel.Nifti1Image(flat, np.eye(4))

    mask = nibabel.Nifti1Image(np.ones((side, side, 1), dtype=np.int8), np.eye(4))
    net = SpaceNetClassifier(
        penalty="tv-l1",
        mask=mask,
        cv=3,
        n_alphas=10,
        l1_ratios=0.5,
        standardize=False,
        screening_percentile=100,
        n_jobs=1,
        verbose=0,
        memory_level=0,
    )
    _, theirs, _ = timed(lambda: net.fit(volume(X[train]), y[train]))
    accuracy = float(np.mean(net.predict(volume(X[test])) == y[test]))
    print(f"SpaceNet tv-l1, the same: {theirs:.2f} s of processors, accuracy {accuracy:.3f}")
    print(f"ours over SpaceNet: {cpu / theirs:.2f}")


def main() -> None:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--images", action="store_true", help="also images, beside nilearn")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    graph()
    if asked.images:
        images()


if __name__ == "__main__":
    main()
