"""Compares methods by energy, bound and cost: ``python python/examples/compare_methods.py``."""

import numpy as np

import relaxcrf

rng = np.random.default_rng(1)
y, x = np.mgrid[:60, :80]
truth = (x // 16 + y // 30) % 5
image = np.clip(50 * truth[..., None] + rng.normal(20, 8, (60, 80, 3)), 0, 255).astype(np.uint8)
scores = rng.normal(0, 1, (5, 60, 80)) + 1.2 * (truth == np.arange(5)[:, None, None])
probabilities = np.exp(scores) / np.exp(scores).sum(0)
kernels = [
    relaxcrf.Gaussian(sigma=3, weight=1.5),
    relaxcrf.Bilateral(image, sigma_xy=40, sigma_rgb=13, weight=2.5),
]
model = relaxcrf.Model.from_probabilities(probabilities, kernels)

print(f"{'method':16} {'energy':>12} {'bound':>12} {'filter':>8} {'ordered':>8}")
# A chain passes beliefs on: each method starts where the one before ended.
for method in ("unary", "mf5", "mf", "qp+dc-neg", "graduated", "smooth-lp"):
    result = relaxcrf.solve(model, method)
    # No labelling has lower energy than the bound: what is left between the two is all that can be gained.
    bound = "-" if result.lower_bound is None else f"{result.lower_bound:.2f}"
    print(f"{method:16} {result.energy:12.2f} {bound:>12} {result.filter_calls:8} {result.ordered_calls:8}")
    assert result.lower_bound is None or result.lower_bound <= result.best_energy
