"""Intervals of sums by Hall's transformation, with SciPy's roots, for the tests of skewness.rs."""

import numpy as np
from scipy import optimize, stats


def interval(strata, level):
    """The ends for strata of (values, N)."""
    total, own, with_variance, degrees = 0.0, 0.0, 0.0, 0.0
    for values, sent in strata:
        count = len(values)
        missing = 1 - count / sent
        variance = sent**2 * missing * np.var(values, ddof=1) / count
        cube = sent**3 * stats.moment(values, 3) / count**2
        own += cube * missing * max(2 * missing - 1, -3 * missing)
        with_variance += cube * missing**2
        total += variance
        degrees += variance**2 / (count - 1)
    own, with_variance = own / total**1.5, with_variance / total**1.5
    quantile = stats.t.ppf(0.5 + level / 2, total**2 / degrees)
    a, b = (3 * with_variance - own) / 6, own / 6

    def error(sign):
        g = lambda t: t + a * t**2 + b + a**2 * t**3 / 3 - sign * quantile
        return optimize.brentq(g, -200, 200, xtol=1e-13)

    value = sum(sent * np.mean(values) for values, sent in strata)
    return float(value - error(1) * total**0.5), float(value - error(-1) * total**0.5)


even = np.array([i * i % 37 for i in range(40)], float)
skewed = np.array([2 ** (i % 7) for i in range(50)], float)
print(interval([(even, 200)], 0.95))
print(interval([(skewed, 200)], 0.95))
print(interval([(skewed, 55)], 0.95))
print(interval([(skewed, 200), (even, 70)], 0.99))
