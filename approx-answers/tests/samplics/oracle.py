"""Answers of samplics, NumPy and SciPy for cluster samples: JSON in, JSON out.

A sample is a list of strata: {"sent": N, "messages": [[y of each record], ...]}. Records are rows,
messages are clusters, senders are strata, and each record stands for N/m of its kind. Quantiles are
those of the ranks, and "student" has those of Student's t for the levels and degrees of freedom.
"""

import json
import sys

import numpy as np
import scipy.stats
from samplics.estimation import TaylorEstimator
from samplics.utils.types import PopParam


def answers(sample, ranks):
    y, weight, stratum, cluster, fpc = [], [], [], [], {}
    for h, part in enumerate(sample):
        arrived, sent = len(part["messages"]), part["sent"]
        fpc[h] = 1 - arrived / sent  # samplics multiplies the variance by it
        for i, message in enumerate(part["messages"]):
            y += message
            weight += [sent / arrived] * len(message)
            stratum += [h] * len(message)
            cluster += [1000 * h + i] * len(message)
    design = dict(
        samp_weight=np.array(weight), stratum=np.array(stratum), psu=np.array(cluster), fpc=fpc
    )
    y = np.array(y)
    result = {}
    for name, parameter, values in [
        ("sum", PopParam.total, y),
        ("count", PopParam.total, np.ones_like(y)),
        ("mean", PopParam.mean, y),
    ]:
        estimator = TaylorEstimator(parameter)
        estimator.estimate(y=values, **design)
        result[name] = [float(estimator.point_est), float(estimator.stderror)]
    weights = np.array(weight)
    quantiles = np.quantile(y, ranks, weights=weights, method="inverted_cdf")
    return result | {"quantiles": quantiles.tolist()}


def student(level, degrees):
    # The upper tail: 1 - level has more digits than level.
    return float(scipy.stats.t.isf((1 - level) / 2, degrees))


asked = json.load(sys.stdin)
found = {
    "samples": [answers(sample, asked["ranks"]) for sample in asked["samples"]],
    "student": [student(level, degrees) for level, degrees in asked["student"]],
}
json.dump(found, sys.stdout)
