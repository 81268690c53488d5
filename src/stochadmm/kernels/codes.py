"""The integers that name losses, penalties and operators inside compiled code."""

# losses: (code, p0, p1)
SQUARED = 0  # p0 = second derivative: 1 with the factor 1/2, 2 without
LOGISTIC = 1
HUBER = 2  # p0 = delta
SQUARED_HINGE = 3  # p0 = second derivative on the active side
POISSON = 4
QUANTILE = 5  # p0 = level, p1 = smoothing width
MULTINOMIAL = 6

# penalty terms on consecutive rows
ELEMENTWISE = 0
GROUP_NORMS = 1
TOTAL_VARIATION = 2

# operators
NOTHING = 0  # no constraint: zero rows
SCALED_IDENTITY = 1
SPARSE = 2
