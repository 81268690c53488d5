"""
The path, and the simplest good model
=====================================

Solutions for thirty strengths, each started from the previous one, and a choice by the
one-standard-error rule.
"""

# %%
import matplotlib.pyplot as plt

import stochadmm as sa

data = sa.datasets.make_graph_fused(600, 40, response="real", noise=2.0, random_state=1)
search = sa.GraphFusedRegressorCV(
    graph=data.graph, l1_ratio=0.2, alphas=30, eps=1e-2, cv=5, one_standard_error=True
).fit(data.X, data.y)
path = sa.GraphFusedRegressor(graph=data.graph, l1_ratio=0.2).path(
    data.X, data.y, alphas=search.alphas_
)

# %%
figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
path.plot(axes[0])
search.plot_path(axes[1])
for ax in axes:
    ax.axvline(search.alpha_, color="tab:orange", linestyle="--")
plt.show()

# %%
best = search.alphas_[search.score_path_.mean(axis=1).argmax()]
print(f"best score at alpha = {best:.3g}, chosen {search.alpha_:.3g}")
print(f"{path.n_passes.mean():.1f} passes per strength, worst gap {path.gaps.max():.1e}")
