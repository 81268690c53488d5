"""
Watch a run and stop it early
=============================

A callback is called after every epoch with the record that goes into the history and the state of
the method. If it returns true, the run stops.
"""

# %%
# Stop when the loss on held-out rows has not improved for five epochs, long before the optimum of
# the training rows.
import matplotlib.pyplot as plt
import numpy as np

import stochadmm as sa

rng = np.random.default_rng(0)
n, d = 300, 120
coef = np.repeat(rng.normal(0, 0.5, 8), d // 8)
X = rng.standard_normal((2 * n, d))
y = np.where(X @ coef + 4 * rng.logistic(size=2 * n) > 0, 1.0, -1.0)
problem = sa.Problem.linear(
    sa.Logistic(), X[:n], y[:n], structure=sa.Differences(d), on_structure=sa.L1(1e-4)
)


class Watch:
    """Record the loss on other rows, and stop when it no longer improves."""

    def __init__(self, patience):
        self.patience, self.losses, self.passes = patience, [], []

    def __call__(self, record, state):
        """Measure the point that would be returned."""
        z = X[n:] @ state.output.x2
        self.losses.append(float(np.logaddexp(0, -y[n:] * z).mean()))
        self.passes.append(record.passes)
        best = int(np.argmin(self.losses))
        return len(self.losses) - 1 - best >= self.patience


# %%
runs = {}
for name, patience in (("to the optimum", 10**9), ("stopped early", 5)):
    watch = Watch(patience)
    result = sa.minimize(problem, "acc-sadmm", stop=sa.Gap(1e-6), max_passes=150, callback=watch)
    runs[name] = watch, result

# %%
figure, ax = plt.subplots(figsize=(7.5, 3.8), layout="constrained")
for (name, (watch, result)), style in zip(runs.items(), ("-", "o-"), strict=True):
    ax.plot(watch.passes, watch.losses, style, ms=4, label=f"{name}: {result.status.name}")
ax.set(xlabel="passes over the data", ylabel="loss on held-out rows", xscale="log")
ax.legend()
plt.show()

# %%
early, late = runs["stopped early"], runs["to the optimum"]
print(
    f"stopped after {early[1].n_passes:.0f} of {late[1].n_passes:.0f} passes, loss",
    f"{min(early[0].losses):.3f} against {late[0].losses[-1]:.3f} at the end",
)
