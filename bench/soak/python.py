#!/usr/bin/env python3
"""Memory of a Python process over many different calls: bench/soak/python.py [CALLS [SECONDS]].

Everything public in turn, with errors and interrupted runs among it, under the allocator as it comes. Fails if memory in
the last quarter of the run is on average more than 5 % above that in the second.
"""

import random
import resource
import sys
import time

import numpy as np

import relaxcrf
from relaxcrf.compat.pydensecrf import densecrf as dcrf
from relaxcrf.compat.pydensecrf import utils

METHODS = list(relaxcrf.methods())


def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize() / 2**20


def call(rng):
    height, width, labels = rng.randint(8, 120), rng.randint(8, 120), rng.choice([2, 2, 3, 5, 21])
    numbers = np.random.default_rng(rng.getrandbits(32))
    image = numbers.integers(0, 255, (height, width, 3), np.uint8)
    p = numbers.dirichlet(np.full(labels, 0.3), (height, width)).transpose(2, 0, 1)
    kernels = [relaxcrf.Gaussian(rng.uniform(0.5, 6), 2)]
    if rng.random() < 0.7:
        kernels.append(relaxcrf.Bilateral(image, rng.uniform(5, 60), rng.uniform(3, 30), rng.uniform(0.5, 8)))
    what = rng.randrange(8)
    if what < 4:
        model = relaxcrf.Model.from_probabilities(p, kernels)
        method = rng.choice(METHODS)
        stop = rng.randint(1, 12)
        callback = (lambda step: step.iteration >= stop) if rng.random() < 0.3 else None
        try:
            # Moves among 21 labels in noise would take minutes.
            relaxcrf.solve(model, method, max_iter=12, time_limit=1, callback=callback)
        except relaxcrf.errors.MethodError:
            pass
    elif what == 4:
        relaxcrf.refine(image, p)
    elif what == 5:
        crf = dcrf.DenseCRF2D(width, height, labels)
        crf.setUnaryEnergy(utils.unary_from_softmax(p.astype(np.float32)))
        crf.addPairwiseBilateral(sxy=40, srgb=13, rgbim=np.ascontiguousarray(image), compat=5)
        crf.inference(5)
    elif what == 6:
        list(relaxcrf.batch([image] * 3, [p] * 3))
    else:
        try:
            relaxcrf.refine(image[1:], p)
        except relaxcrf.errors.ShapeError:
            pass


def main():
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else float("inf")
    rng, began, history = random.Random(1), time.monotonic(), []
    for k in range(1, calls + 1):
        call(rng)
        history.append(resident())
        if k % 200 == 0:
            print(f"{k:6} calls {time.monotonic() - began:7.1f} s {history[-1]:8.1f} MiB", flush=True)
        if time.monotonic() - began > seconds:
            break
    quarter = len(history) // 4
    early, late = np.mean(history[quarter : 2 * quarter]), np.mean(history[3 * quarter :])
    growth = 100 * (late / early - 1)
    print(f"{len(history)} calls: {early:.1f} MiB in the second quarter, {late:.1f} in the last ({growth:+.1f} %)")
    sys.exit(int(growth > 5))


main()
