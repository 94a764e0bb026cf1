"""Edge-aware filters of probability maps: what one would use instead of a dense CRF.

Every filter gets the image as its guide and each label's probability map as input; the label is the argmax of the
filtered maps. Labels whose probability is below 1 / labels at every pixel are left out: an average of probabilities
cannot make them win. Parameters are one set for all data, chosen on the validation halves (`run search filters`).
"""

from __future__ import annotations

from typing import Callable

import cv2
import numpy as np
import solver

Filter = Callable[[np.ndarray, np.ndarray], np.ndarray]


def filtered_labels(filter: Filter, image: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """Labels of the filtered probabilities."""
    kept = np.flatnonzero(probabilities.max((1, 2)) >= 1 / len(probabilities))
    return kept[filter(image, probabilities[kept]).argmax(0)]


def by_map(filter: Callable[[np.ndarray], np.ndarray], probabilities: np.ndarray) -> np.ndarray:
    """Filters one map after the other."""
    return np.stack([filter(np.ascontiguousarray(p)) for p in probabilities])


def guided(image, probabilities, radius=8, eps=1e-2):
    """Guided filter (He, Sun and Tang, 2010), colour guide."""
    engine = cv2.ximgproc.createGuidedFilter(image.astype(np.float32) / 255, radius, eps)
    return by_map(engine.filter, probabilities)


def domain_transform(image, probabilities, sigma_xy=40.0, sigma_rgb=60.0):
    """Domain transform, recursive filter, three iterations (Gastal and Oliveira, 2011)."""
    engine = cv2.ximgproc.createDTFilter(image, sigma_xy, sigma_rgb, cv2.ximgproc.DTF_RF, 3)
    return by_map(engine.filter, probabilities)


def global_smoother(image, probabilities, strength=30.0, sigma_rgb=12.0):
    """Fast global smoother, weighted least squares in three passes (Min et al., 2014)."""
    engine = cv2.ximgproc.createFastGlobalSmootherFilter(image, strength, sigma_rgb)
    return by_map(engine.filter, probabilities)


def bilateral_solver(image, probabilities, sigma_xy=8.0, sigma_luma=16.0, sigma_chroma=16.0, strength=8.0):
    """Fast bilateral solver (Barron and Poole, 2016); the confidence is the largest probability."""
    return solver.solve(image, probabilities, probabilities.max(0), sigma_xy, sigma_luma, sigma_chroma, strength)


DILATIONS = (1, 2, 4, 8, 12, 24)


def neighbours(planes: np.ndarray, reach: int):
    """The planes shifted to each of the 8 neighbours at every dilation; values at the border are repeated."""
    height, width = planes.shape[-2:]
    padded = np.pad(planes, [(0, 0)] * (planes.ndim - 2) + [(reach, reach)] * 2, mode="edge")
    for d in DILATIONS:
        for dy, dx in ((-d, -d), (-d, 0), (-d, d), (0, -d), (0, d), (d, -d), (d, 0), (d, d)):
            yield padded[..., reach + dy : reach + dy + height, reach + dx : reach + dx + width]


def pamr(image, probabilities, iterations=10, strength=10.0):
    """Pixel-adaptive mask refinement (Araslanov and Roth, 2020), written from its description.

    Each iteration replaces a pixel's probabilities by an average over 48 neighbours. The weights are a softmax of
    minus the colour differences over the local standard deviation, averaged over the channels. `strength` multiplies
    the exponent.
    """
    reach = max(DILATIONS)
    colors = np.moveaxis(image.astype(np.float32) / 255, -1, 0)
    shifted = np.stack(list(neighbours(colors, reach)))
    deviation = np.concatenate([shifted, colors[None]]).std(0) + 1e-5
    exponent = -strength * (np.abs(shifted - colors) / deviation).mean(1)
    weights = np.exp(exponent - exponent.max(0))
    weights /= weights.sum(0)
    current = probabilities
    for _ in range(iterations):
        total = np.zeros_like(current)
        for weight, moved in zip(weights, neighbours(current, reach)):
            total += weight * moved
        current = total
    return current


FILTERS: dict[str, Filter] = {
    "guided filter": guided,
    "domain transform": domain_transform,
    "fast global smoother": global_smoother,
    "bilateral solver": bilateral_solver,
    "PAMR, 10 iterations": pamr,
}
