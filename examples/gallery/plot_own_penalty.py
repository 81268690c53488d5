"""
A penalty of your own
=====================

A response that should rise with the dose, but need not: falling steps cost, rising ones are free.
The library has no such penalty. You write it as an object with a value and a prox; there is
nothing to register. With a conjugate, its answers are certified like any other.
"""

# %%
import matplotlib.pyplot as plt
import numpy as np

import stochadmm as sa


class Falling:
    """``alpha * sum_j max(-u_j, 0)``."""

    def __init__(self, alpha):
        self.alpha = alpha

    def value(self, u):
        """Return the penalty."""
        return float(self.alpha * np.maximum(-u, 0).sum())

    def prox(self, v, step):
        """Leave rises as they are, and make falls shorter by ``step * alpha``."""
        return np.where(v > 0, v, np.minimum(v + step * self.alpha, 0)).astype(v.dtype)

    def conjugate(self, u):
        """Return sup u'v - value(v): zero between -alpha and 0, infinite elsewhere."""
        slack = 1e-12 * self.alpha
        inside = u.min(initial=0.0) >= -self.alpha - slack and u.max(initial=0.0) <= slack
        return 0.0 if inside else np.inf

    def project_dual(self, u):
        """Return the nearest point where the conjugate is finite."""
        return np.clip(u, -self.alpha, 0)


# %%
# Forty doses, five patients each; the truth rises, and falls once, at high doses.
rng = np.random.default_rng(0)
d, n = 40, 200
dose = np.arange(d)
truth = 3 / (1 + np.exp(-(dose - 14) / 3)) - 1.5 * (dose >= 32)
X = np.eye(d)[np.repeat(dose, n // d)]
y = X @ truth + 1.2 * rng.standard_normal(n)
patient = np.tile(np.arange(n // d), d)


def fit(penalty, rows):
    """Return the result for some of the patients."""
    problem = sa.Problem.linear(
        sa.Squared(), X[rows], y[rows], structure=sa.Differences(d), on_structure=penalty
    )
    return sa.minimize(problem, stop=sa.Gap(1e-5), max_passes=5000)


def left_out(penalty):
    """Return the mean squared error for patients that were left out, one after the other."""
    errors = []
    for k in range(n // d):
        coef = fit(penalty, patient != k).coef
        errors.append(np.mean((X[patient == k] @ coef - y[patient == k]) ** 2))
    return np.mean(errors)


# %%
# Both strengths are chosen by leaving out one patient of every dose.
alphas = np.geomspace(0.005, 0.32, 7)
found = {}
for name, kind in {"every step costs": sa.L1, "falling steps cost": Falling}.items():
    best = min(alphas, key=lambda alpha, kind=kind: left_out(kind(alpha)))
    found[name] = fit(kind(best), slice(None))
errors = {name: np.sqrt(np.mean((r.coef - truth) ** 2)) for name, r in found.items()}

# %%
figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
ax.plot(dose, y.reshape(d, -1).mean(axis=1), ".", color="0.6", label="mean of five patients")
ax.plot(dose, truth, color="0.6", linewidth=5, alpha=0.5, label="truth")
for name, result in found.items():
    falls = int((np.diff(result.coef) < 0).sum())
    ax.step(dose, result.coef, where="mid", label=f"{name}: {falls} of {d - 1} steps fall")
ax.set(xlabel="dose", ylabel="response")
ax.legend()
plt.show()

# %%
own = found["falling steps cost"]
print(
    f"{own.status.name} by {own.info.get('route', 'auto')}: {own.message};",
    f"errors {' and '.join(f'{value:.2f}' for value in errors.values())}",
)
