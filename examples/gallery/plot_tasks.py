"""
Many tasks with a few common factors
====================================

Thirty related regressions, each with few rows' worth of information: a penalty on the rank lets
them borrow strength from each other, an l1 norm beside it keeps entries at zero.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import MultiTaskLassoCV

import stochadmm as sa

rng = np.random.default_rng(0)
n, d, tasks, rank = 120, 40, 30, 2
W = rng.standard_normal((d, rank)) @ rng.standard_normal((rank, tasks))
W[rng.random(d) < 0.5] = 0.0
X = rng.standard_normal((n, d))
Y = X @ W + 4.0 * rng.standard_normal((n, tasks))

# %%
low = sa.SparseLowRankRegressorCV(l1_ratio=0.2, alphas=12, cv=3, one_standard_error=True).fit(X, Y)
rows = MultiTaskLassoCV(cv=3).fit(X, Y)

# %%
figure, axes = plt.subplots(1, 3, figsize=(9, 3.6), layout="constrained")
shown = {"truth": W.T, "sparse + low rank": low.coef_, "rows at zero only": rows.coef_}
for ax, (name, values) in zip(axes, shown.items(), strict=True):
    ax.imshow(values, cmap="RdBu_r", vmin=-4, vmax=4, aspect="auto")
    error = np.linalg.norm(values - W.T) / np.linalg.norm(W)
    ax.set(title=name if name == "truth" else f"{name}\nerror {error:.2f}", xlabel="column")
axes[0].set_ylabel("task")
plt.show()

# %%
# Cross-validation chooses a weak penalty, because prediction forgives small further directions;
# what counts is how much of the coefficients lies in the first two.
sizes = np.linalg.svd(low.coef_, compute_uv=False)
share = np.sum(sizes[:rank] ** 2) / np.sum(sizes**2)
print(f"{share:.0%} of the coefficients in {rank} directions (planted {rank}), rank {low.rank_},",
      f"certified gap {low.dual_gap_:.1e}")  # fmt: skip
