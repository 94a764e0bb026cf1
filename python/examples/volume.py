"""Segments a volume, or any grid: ``python python/examples/volume.py``."""

import numpy as np

import relaxcrf

# A noisy ball in a volume of 24 slices, 32 rows and 32 columns. Voxels are 2 mm thick and 1 mm wide.
z, y, x = np.mgrid[:24, :32, :32]
inside = (2.0 * (z - 12)) ** 2 + (y - 16) ** 2 + (x - 16) ** 2 < 100
intensity = 60 * inside + 100 * np.random.default_rng(1).random(inside.shape)
# The unary energies of label 0 (outside) and 1 (inside) grow with the distance to its typical intensity.
unary = np.stack([np.abs(intensity - 50), np.abs(intensity - 110)]) / 50

# One standard deviation per axis, in voxels, columns first: 2 mm along each.
model = relaxcrf.Model(unary, relaxcrf.Gaussian(sigma=(2, 2, 1), weight=1))
result = relaxcrf.solve(model, "mf")


def wrong(labels):
    return int((labels.astype(bool) != inside).sum())


print(f"unaries alone: {wrong(unary.argmin(0))} of {inside.size} voxels are wrong")
print(f"mean field: {wrong(result.labels)}")
assert wrong(result.labels) < wrong(unary.argmin(0))
