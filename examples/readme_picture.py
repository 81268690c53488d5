"""The picture of the start page: the same model from four samples of real images.

STOCHADMM_DATA=... python examples/readme_picture.py docs/structure.png

Draws 200 images of the digits 4 and 9 (MNIST) four times and fits two classifiers to each sample:
plain l1, and pixels of the grid drawn together. The plain model takes the strength at which its
number of coefficients that are not zero is nearest to that of the structured one.
"""

import sys
from itertools import combinations

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np

import stochadmm as sa
from stochadmm_reproduction import datasets

SIDE, SAMPLES, ROWS = 20, 4, 200


def models():
    """Return the coefficients of both models, one row per sample."""
    data = datasets.load("mnist")
    X = data.X.reshape(-1, 28, 28)[:, 4:24, 4:24].reshape(-1, SIDE**2)
    rng = np.random.default_rng(0)
    found = {"plain l1": [], "neighbouring pixels merge": []}
    for _ in range(SAMPLES):
        rows = np.r_[
            tuple(
                rng.choice(np.flatnonzero(data.y == digit), ROWS // 2, replace=False)
                for digit in (4, 9)
            )
        ]
        images, labels = np.asarray(X[rows], float), data.y[rows]
        grid = sa.GraphFusedClassifier(graph=(SIDE, SIDE), l1_ratio=0.5)
        grid.set_params(alpha=grid.alpha_max(images, labels) / 8).fit(images, labels)
        path = sa.SparseLogisticClassifier().path(images, labels, alphas=60, eps=2e-4)
        plain = np.asarray(path.coefs).reshape(60, -1)
        sizes = np.count_nonzero(plain, axis=1)
        same = np.abs(sizes - np.count_nonzero(grid.coef_)).argmin()
        found["plain l1"].append(plain[same])
        found["neighbouring pixels merge"].append(grid.coef_.ravel())
    return found


def dice(coefs):
    """Return the mean share of pixels that two samples have in common."""
    used = [set(np.flatnonzero(coef)) for coef in coefs]
    return np.mean([2 * len(a & b) / (len(a) + len(b)) for a, b in combinations(used, 2)])


def main():
    """Draw one row per model and one column per sample."""
    figure, axes = plt.subplots(2, SAMPLES, figsize=(9, 5), layout="constrained")
    for row, (name, coefs) in zip(axes, models().items(), strict=True):
        for number, (ax, coef) in enumerate(zip(row, coefs, strict=True), 1):
            top = np.abs(coef).max()
            ax.imshow(coef.reshape(SIDE, SIDE), cmap="RdBu_r", vmin=-top, vmax=top)
            ax.set(xticks=[], yticks=[])
            ax.set_title(f"sample {number}: {np.count_nonzero(coef)} pixels", fontsize=9)
        row[0].set_ylabel(f"{name}\nstability {dice(coefs):.2f}", fontsize=10)
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "structure.png", dpi=130)


if __name__ == "__main__":
    main()
