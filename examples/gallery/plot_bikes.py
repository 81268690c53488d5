"""
Hours and weekdays: a grid that closes on itself
================================================

How many bicycles are hired depends on the hour, the weekday, and on both together: commuters ride
on working days at eight and at six. Hour 23 is a neighbor of hour 0, and Sunday of Monday, so both
factors are rings, and their interaction is a grid on a torus.
"""

# %%
# Generated counts of one year, with the weather.
import numpy as np
import pandas as pd

import stochadmm as sa

rng = np.random.default_rng(0)
time = pd.date_range("2025-01-06", periods=24 * 7 * 40, freq="h")
hour, weekday = time.hour.to_numpy(), time.day_of_week.to_numpy()
warm = (
    12 - 9 * np.cos(2 * np.pi * time.day_of_year.to_numpy() / 365) + 2 * rng.normal(size=len(time))
)
working = weekday < 5
log_mean = np.where((hour > 6) & (hour < 22), 3.0, 1.0) + 0.04 * warm
log_mean += 1.2 * (working & np.isin(hour, [7, 8, 17, 18]))
log_mean += 0.8 * (~working & (hour > 10) & (hour < 17))
names = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
hires = pd.DataFrame(
    {
        "hour": hour,
        "weekday": pd.Categorical.from_codes(weekday, names, ordered=True),
        "warm": warm,
        "hired": rng.negative_binomial(5, 1 / (1 + np.exp(log_mean) / 5)),
    }
)

# %%
# The terms of both columns say that they are rings; the pair of them is their interaction. The
# effect of warmth is a smooth curve. Counts of this kind vary more than Poisson's: the negative
# binomial loss has the variance ``mean + dispersion mean^2``.
terms = {
    "hour": sa.terms.Periodic(),
    "weekday": sa.terms.Periodic(),
    ("hour", "weekday"): sa.terms.Grid(),
    "warm": sa.terms.Smooth(),
}
model = sa.StructuredRegressor(0.005, terms=terms, loss=sa.NegativeBinomial(0.2))
model.fit(hires, "hired")
axes = model.plot_terms()

# %%
# What the model says of a week, beside the means of the counts.
import matplotlib.pyplot as plt  # noqa: E402

week = pd.DataFrame(
    {
        "hour": np.tile(np.arange(24), 7),
        "weekday": pd.Categorical(np.repeat(names, 24), names, ordered=True),
        "warm": 12.0,
    }
)
means = hires.groupby(["weekday", "hour"], observed=True)["hired"].mean()
figure, ax = plt.subplots(figsize=(9, 3), layout="constrained")
ax.plot(means.to_numpy(), ".", color="0.6", label="means")
ax.step(np.arange(len(week)), model.predict(week), where="mid", label="model, at 12 degrees")
ax.set(xticks=24 * np.arange(7) + 12, xticklabels=names, ylabel="hired per hour")
ax.legend(frameon=False)
plt.show()

# %%
cells = len(set(model.level_map_["hour", "weekday"].values()))
print(f"{cells} classes of {7 * 24} cells, deviance explained {model.score(hires, 'hired'):.2f}")
print(f"certified relative gap {model.dual_gap_:.1e}")
