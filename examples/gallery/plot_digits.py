"""
Patches of an image: total variation on a grid
==============================================

Which pixels tell an eight from a three? With a penalty on differences between neighboring pixels
the answer is a map of patches instead of a scatter of dots.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import stochadmm as sa

images, labels = load_digits(return_X_y=True)
chosen = np.isin(labels, (3, 8))
X, y = images[chosen] / 16.0, labels[chosen]
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0, stratify=y)

# %%
# The same strength, divided differently between the grid and the l1 norm.
models = {
    "l1 norm alone": sa.SparseLogisticClassifier(alpha=0.005),
    "grid, some l1": sa.GraphFusedClassifier(graph=(8, 8), alpha=0.01, l1_ratio=0.2),
    "grid alone": sa.GraphFusedClassifier(graph=(8, 8), alpha=0.01, l1_ratio=0.0),
}
figure, axes = plt.subplots(1, 3, figsize=(9, 3.4), layout="constrained")
for ax, (name, model) in zip(axes, models.items(), strict=True):
    model.fit(X_train, y_train)
    coef = model.coef_.reshape(8, 8)
    top = np.abs(coef).max()
    ax.imshow(coef, cmap="RdBu_r", vmin=-top, vmax=top)
    levels = len(np.unique(coef))
    score = model.score(X_test, y_test)
    ax.set(title=f"{name}\n{levels} values, {score:.1%} correct", xticks=[], yticks=[])
plt.show()

# %%
# Each of them is certified:
for name, model in models.items():
    print(f"{name:15} within {model.dual_gap_:.1e} of its optimum")
