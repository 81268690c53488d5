"""
Pathways that overlap
=====================

A gene may belong to several pathways. With ``latent=True`` a gene is used if one of its
pathways is, so that the selected genes form a union of pathways. The simplest model within one
standard error of the best is chosen.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import stochadmm as sa

data = sa.datasets.make_overlapping_groups(
    400, n_groups=20, group_size=8, overlap=2, n_active=4, noise=0.5, random_state=0
)
model = sa.OverlappingGroupRegressorCV(
    groups=data.groups, alphas=15, eps=1e-2, cv=4, one_standard_error=True, latent=True
).fit(data.X, data.y)

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
print(
    f"{len(model.active_groups_)} of {len(groups)} pathways are active (planted: 4),",
    f"certified gap {model.dual_gap_:.1e}",
)
