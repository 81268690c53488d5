"""
Many tasks with a few common factors
====================================

Twenty related regressions with little information each: a penalty on the rank lets them borrow
strength from each other, and norms of whole columns leave out columns that no task needs.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import MultiTaskLassoCV

import stochadmm as sa

rng = np.random.default_rng(0)
n, d, tasks, rank = 120, 30, 20, 2
W = rng.standard_normal((d, rank)) @ rng.standard_normal((rank, tasks))
W[rng.random(d) < 0.5] = 0.0
X = rng.standard_normal((n, d))
Y = X @ W + 4.0 * rng.standard_normal((n, tasks))

# %%
# The nuclear norm shrinks the directions that it finds, so that cross-validation of the penalized
# fit prefers weak penalties, which let in directions of noise. A second fit on the directions and
# columns found (``refit=True``) does not shrink, and the choice is a simple model.
low = sa.SparseLowRankRegressorCV(
    sparsity="rows", l1_ratio=0.4, alphas=10, eps=0.15, cv=3, refit=True
).fit(X, Y)
rows = MultiTaskLassoCV(cv=3).fit(X, Y)

# %%
figure, axes = plt.subplots(1, 3, figsize=(9, 3.6), sharey=True, layout="constrained")
shown = {
    "truth": W.T,
    "low rank and column sparsity": low.coef_,
    "column sparsity only": rows.coef_,
}
for ax, (name, values) in zip(axes, shown.items(), strict=True):
    ax.imshow(values, cmap="RdBu_r", vmin=-4, vmax=4, aspect="auto")
    error = np.linalg.norm(values - W.T) / np.linalg.norm(W)
    ax.set(title=name if name == "truth" else f"{name}\nerror {error:.2f}", xlabel="column")
axes[0].set(ylabel="task", yticks=range(0, tasks, 5))
plt.show()

# %%
# Both are about equally close to the truth. What the low rank gains is a smaller model:
# r (k + tasks - r) numbers describe a matrix of rank r on k columns.
used, planted, plain = (int(v.any(axis=0).sum()) for v in (low.coef_, W.T, rows.coef_))
numbers = low.rank_ * (used + tasks - low.rank_)
print(f"rank {low.rank_} (planted {rank}), {used} columns (planted {planted}): {numbers} numbers,")
print(f"{plain * tasks} without the rank; certified gap {low.dual_gap_:.1e}")
