"""Answers of samplics for cluster samples: JSON in, JSON out.

A sample is a list of strata: {"sent": N, "messages": [[y of each record], ...]}. Records are rows,
messages are clusters, senders are strata, and each record stands for N/m of its kind.
"""

import json
import sys

import numpy as np
from samplics.estimation import TaylorEstimator
from samplics.utils.types import PopParam


def answers(sample):
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
    return result


json.dump([answers(sample) for sample in json.load(sys.stdin)], sys.stdout)
