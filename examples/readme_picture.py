"""The picture of the README: what structure does to coefficients.

python examples/readme_picture.py docs/structure.png
"""

import sys

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import stochadmm as sa


def digits():
    """Return the maps of a plain and of a grid-fused classifier, with their test scores."""
    images, labels = load_digits(return_X_y=True)
    chosen = np.isin(labels, (3, 8))
    parts = train_test_split(images[chosen] / 16, labels[chosen], random_state=0)
    X, X_test, y, y_test = parts
    found = {}
    for name, model in (
        ("plain l1", sa.SparseLogisticClassifier(alpha=0.01)),
        ("tied on the grid of pixels", sa.GraphFusedClassifier(graph=(8, 8), alpha=0.02)),
    ):
        model.fit(X, y)
        found[name] = model.coef_.reshape(8, 8), model.score(X_test, y_test)
    return found


def chain():
    """Return planted coefficients along a chain, and those of a lasso and a fused lasso."""
    rng = np.random.default_rng(0)
    coef = np.zeros(100)
    coef[15:30], coef[50:58], coef[70:90] = 1.0, -1.5, 0.5
    X = 0.6 * rng.standard_normal((150, 100))
    X += 0.8 * np.repeat(rng.standard_normal((150, 20)), 5, axis=1)
    y = X @ coef + 3.0 * rng.standard_normal(150)
    plain = sa.LassoRegressorCV(alphas=20, cv=5).fit(X, y)
    fused = sa.FusedLassoRegressorCV(l1_ratio=0.1, alphas=20, cv=5).fit(X, y)
    return coef, {"plain l1": plain.coef_, "tied along the chain": fused.coef_}


def main():
    """Draw both."""
    figure, axes = plt.subplots(
        2, 2, figsize=(9, 4.4), layout="constrained", width_ratios=(1, 2.4)
    )
    for ax, (name, (coef, score)) in zip(axes[:, 0], digits().items(), strict=True):
        top = np.abs(coef).max()
        ax.imshow(coef, cmap="RdBu_r", vmin=-top, vmax=top)
        ax.set(xticks=[], yticks=[])
        ax.set_title(f"3 or 8? {name}\n{score:.1%} correct", fontsize=9)
    truth, found = chain()
    for ax, (name, coef) in zip(axes[:, 1], found.items(), strict=True):
        ax.step(np.arange(100), truth, where="mid", color="0.7", linewidth=4, label="truth")
        ax.step(np.arange(100), coef, where="mid", label=name)
        error = np.linalg.norm(coef - truth) / np.linalg.norm(truth)
        ax.set_title(f"sensors in a row, {name}: error {error:.2f}", fontsize=9)
        ax.set(ylim=(-2.2, 2.2))
    axes[1, 1].set_xlabel("sensor")
    figure.savefig(sys.argv[1] if len(sys.argv) > 1 else "structure.png", dpi=130)


if __name__ == "__main__":
    main()
