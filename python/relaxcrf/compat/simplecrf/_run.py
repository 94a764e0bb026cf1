"""Both functions of SimpleCRF: mean field as in pydensecrf, then the most believed labels."""

from __future__ import annotations

from typing import Sequence

import numpy as np

from ... import _core
from ..._arrays import rows_of, small_labels
from ..._kernels import image_rows
from ..._numbers import check_labels

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
    iterations: int,
    clip: float = _CLIP,
) -> np.ndarray:
    """Labels; standard deviations in the order of the axes, those of colours one for all or one each."""
    shape, labels = image.shape[:-1], probabilities.shape[-1]
    check_labels(labels, "P")
    colors = image_rows(image, shape, -1)
    rows = rows_of(probabilities, -1)
    crf = _core.DenseCrf(list(shape), labels)
    crf.set_unary(("probabilities", rows, clip))
    deviations = np.broadcast_to(sigma_color, (colors.shape[1],)).tolist()
    crf.add_kernel("bilateral", list(sigma[::-1]), colors, deviations, [bilateral_weight])
    crf.add_kernel("gaussian", list(spatial_sigma[::-1]), None, [], [spatial_weight])
    return small_labels(crf.inference(max(iterations, 0)).argmax(1), labels, shape)
