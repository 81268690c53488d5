"""
Pathways that overlap
=====================

A gene may belong to several pathways. Overlapping groups switch whole pathways off.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import stochadmm as sa

data = sa.datasets.make_overlapping_groups(
    400, n_groups=20, group_size=8, overlap=2, n_active=4, noise=0.5, random_state=0
)
model = sa.OverlappingGroupRegressorCV(groups=data.groups, alphas=25, cv=5).fit(data.X, data.y)

# %%
# The size of every pathway's coefficients, found and planted.
groups = list(data.groups.values()) if isinstance(data.groups, dict) else list(data.groups)
found = np.array([np.linalg.norm(model.coef_[list(g)]) for g in groups])
planted = np.array([np.linalg.norm(np.asarray(data.coef)[list(g)]) for g in groups])
figure, ax = plt.subplots(figsize=(8, 3.2), layout="constrained")
places = np.arange(len(groups))
ax.bar(places - 0.2, planted, 0.4, color="0.7", label="planted")
ax.bar(places + 0.2, found, 0.4, color="tab:blue", label="found")
ax.set(xlabel="pathway", ylabel="size of its coefficients", xticks=places)
ax.legend()
plt.show()

# %%
print(f"{np.count_nonzero(model.coef_)} of {model.coef_.size} coefficients are not zero,",
      f"certified gap {model.dual_gap_:.1e}")  # fmt: skip
