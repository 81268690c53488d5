"""
Weights and offsets
===================

A weighted row stands for many: a table of counts gives the same fit as the rows that it counts,
and exposures enter as an offset. Both give the optimum of the single rows, not an approximation.
"""

# %%
# Visits per age group and day, first as single persons, then counted.
import matplotlib.pyplot as plt
import numpy as np

import stochadmm as sa

rng = np.random.default_rng(0)
n, ages = 20_000, 30
age = rng.integers(ages, size=n)
years = rng.choice([0.25, 0.5, 1.0], n)
rate = np.exp(-0.5 + np.select([np.arange(ages) < 8, np.arange(ages) < 20], [0.8, 0.0], 0.4))
visits = rng.poisson(years * rate[age])
X = np.eye(ages)[age]
options = {"loss": "poisson", "alpha": 2e-3, "l1_ratio": 0.0, "tol": 1e-9}
persons = sa.FusedLassoRegressor(**options).fit(X, visits, offset=np.log(years))

# %%
# The same rows counted: each different row once, with its number as weight.
table, counts = np.unique(np.column_stack([age, years, visits]), axis=0, return_counts=True)
counted = sa.FusedLassoRegressor(**options).fit(
    np.eye(ages)[table[:, 0].astype(int)],
    table[:, 2],
    sample_weight=counts,
    offset=np.log(table[:, 1]),
)

# %%
naive = sa.FusedLassoRegressor(**options).fit(X, visits)  # forgets how long people were watched
figure, ax = plt.subplots(figsize=(8, 3.8), layout="constrained")
ax.step(np.arange(ages), rate, where="mid", color="0.6", linewidth=5, alpha=0.5, label="truth")
for name, model, style in (
    ("20,000 rows", persons, "-"),
    (f"{len(table)} weighted rows", counted, "--"),
    ("without offset", naive, ":"),
):
    yearly = np.exp(model.coef_ + model.intercept_)
    ax.step(np.arange(ages), yearly, style, where="mid", label=name)
ax.set(xlabel="age group", ylabel="visits per year", ylim=(0, None))
ax.legend()
plt.show()

# %%
apart = np.abs(persons.coef_ - counted.coef_).max()
print(f"{n:,} rows and {len(table)} weighted rows: coefficients differ by at most {apart:.0e}")
