"""Both functions of SimpleCRF: mean field as in pydensecrf, then the most believed labels."""

from __future__ import annotations

from typing import Any, Sequence

import numpy as np

from ... import _core
from ..._arrays import as_float32, rows_of, small_labels

# Probabilities of 0 and 1 are softened by this much in two dimensions, as SimpleCRF does.
_CLIP = 0.01


def run(
    image: np.ndarray,
    probabilities: np.ndarray,
    sigma: Sequence[float],
    sigma_color: Sequence[float],
    bilateral_weight: float,
    spatial_sigma: Sequence[float],
    spatial_weight: float,
    iterations: Any,
    clip: float = _CLIP,
) -> np.ndarray:
    """Labels; standard deviations in the order of the axes."""
    shape, labels = image.shape[:-1], probabilities.shape[-1]
    rows = rows_of(probabilities, -1)
    crf = _core.DenseCrf(rows.shape[0], labels)
    crf.set_unary(_core.unary_from_probabilities(rows, clip))
    colors = rows_of(as_float32(image, "I"), -1)
    deviations = np.broadcast_to(np.asarray(sigma_color, np.float32), (colors.shape[1],)).tolist()
    crf.add_grid(shape, list(sigma[::-1]), colors, deviations, [bilateral_weight])
    crf.add_grid(shape, list(spatial_sigma[::-1]), None, [], [spatial_weight])
    return small_labels(_core.argmax(crf.inference(max(int(iterations), 0))), labels, shape)
