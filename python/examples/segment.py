"""Refines noisy class probabilities of an image: ``python python/examples/segment.py``."""

import numpy as np

import relaxcrf

# An image of five regions with known labels, and the probabilities that a poor classifier might give.
rng = np.random.default_rng(1)
y, x = np.mgrid[:90, :120]
truth = (x // 24 + y // 45) % 5
image = np.clip(50 * truth[..., None] + rng.normal(20, 8, (90, 120, 3)), 0, 255).astype(np.uint8)
scores = rng.normal(0, 1, (5, 90, 120)) + 1.2 * (truth == np.arange(5)[:, None, None])
probabilities = np.exp(scores) / np.exp(scores).sum(0)

refined = relaxcrf.refine(image, probabilities, preset="pydensecrf")


def accuracy(labels):
    return 100 * (labels == truth).mean()


print(f"classifier alone: {accuracy(probabilities.argmax(0)):.1f} % of the pixels are right")
print(f"refined: {accuracy(refined):.1f} %")
assert accuracy(refined) > accuracy(probabilities.argmax(0))
