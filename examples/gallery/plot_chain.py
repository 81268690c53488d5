"""
Stretches of a chain: the fused lasso
=====================================

A hundred sensors stand in a row; three stretches of them matter. The plain lasso picks single
sensors, the fused lasso finds the stretches.
"""

# %%
# Data with known coefficients; neighbouring sensors measure nearly the same.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LassoCV

import stochadmm as sa

rng = np.random.default_rng(0)
n, d = 150, 100
coef = np.zeros(d)
coef[15:30], coef[50:58], coef[70:90] = 1.0, -1.5, 0.5
X = rng.standard_normal((n, d))
X = 0.6 * X + 0.8 * np.repeat(rng.standard_normal((n, d // 5)), 5, axis=1)
y = X @ coef + 3.0 * rng.standard_normal(n)

# %%
# Both strengths are chosen by five-fold cross-validation.
fused = sa.FusedLassoRegressorCV(l1_ratio=0.1, alphas=30, cv=5).fit(X, y)
plain = LassoCV(cv=5, random_state=0).fit(X, y)

# %%
# The levels are exact: coefficients within a stretch are equal to the last bit.
error = {
    "fused": np.linalg.norm(fused.coef_ - coef) / np.linalg.norm(coef),
    "plain": np.linalg.norm(plain.coef_ - coef) / np.linalg.norm(coef),
}
figure, axes = plt.subplots(2, 1, figsize=(8, 5), sharex=True, sharey=True, layout="constrained")
for ax, name, found in zip(axes, error, (fused.coef_, plain.coef_), strict=True):
    ax.step(np.arange(d), coef, where="mid", color="0.6", label="truth")
    ax.step(np.arange(d), found, where="mid", color="tab:blue", label=name)
    ax.set(title=f"{name} lasso: relative error {error[name]:.2f}", ylabel="coefficient")
    ax.legend(loc="upper right")
axes[1].set_xlabel("sensor")
plt.show()

# %%
# How good is the answer? No other coefficients can lower the objective by more than this fraction.
levels = len(np.unique(fused.levels_))
print(f"certified gap {fused.dual_gap_:.1e}, {levels} levels of {d} columns")
