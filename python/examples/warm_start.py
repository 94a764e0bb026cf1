"""Solves again after a small change, from the old beliefs: ``python python/examples/warm_start.py``."""

import numpy as np

import relaxcrf

rng = np.random.default_rng(1)
y, x = np.mgrid[:90, :120]
truth = (x // 24 + y // 45) % 5
image = np.clip(50 * truth[..., None] + rng.normal(20, 25, (90, 120, 3)), 0, 255).astype(np.uint8)
scores = rng.normal(0, 1, (5, 90, 120)) + 0.7 * (truth == np.arange(5)[:, None, None])
probabilities = np.exp(scores) / np.exp(scores).sum(0)
kernels = [relaxcrf.Gaussian(3, 1.5), relaxcrf.Bilateral(image, 40, 13, 2.5)]
model = relaxcrf.Model.from_probabilities(probabilities, kernels)
first = relaxcrf.solve(model, "mf")

# A user marks a square as label 2. The new model shares the filters of the old one, which are the expensive part.
unary = model.unary
unary[:, 30:40, 40:50] = 10
unary[2, 30:40, 40:50] = 0
marked = model.with_unary(unary)

# With time for a few iterations only, the old beliefs are far ahead of the unaries alone.
cold = relaxcrf.solve(marked, "mf", max_iter=3)
warm = relaxcrf.solve(marked, "mf", init=first, max_iter=3)
print(f"three iterations from the unaries: energy {cold.energy:.2f}")
print(f"three iterations from the old beliefs: energy {warm.energy:.2f}")
assert warm.energy < cold.energy

# Another method can go on from a result.
better = relaxcrf.solve(marked, "dc-neg", init=warm)
print(f"dc-neg from there: energy {better.energy:.2f}")
