"""SimpleCRF's ``denseCRF.densecrf``."""

from __future__ import annotations

import sys
from typing import Any, Sequence

import numpy as np

from ..._arrays import as_array, as_float32, size
from ..._numbers import number, several, shown, truncated
from ...errors import ArgumentError, ShapeError
from ._run import run

__all__ = ["densecrf"]


def densecrf(I: Any, P: Any, param: Sequence[float]) -> np.ndarray:  # noqa: E741
    """Labels of an image.

    Parameters
    ----------
    I : array
        Height x width x 3, values 0 to 255.
    P : array
        Probabilities, height x width x labels.
    param : sequence
        ``(w1, alpha, beta, w2, gamma, it)``: weight, spatial and colour standard deviation of the bilateral kernel,
        weight and standard deviation of the spatial one, iterations.

    Returns
    -------
    array
        Height x width, uint8.

    Examples
    --------
    >>> import numpy as np
    >>> from relaxcrf.compat.simplecrf import densecrf
    >>> P = np.full((6, 8, 2), 0.5, np.float32); P[2, 2] = 0.1, 0.9
    >>> densecrf(np.zeros((6, 8, 3), np.uint8), P, (10.0, 80, 13, 3.0, 3, 5.0)).sum()
    np.uint64(48)
    """
    values = several(param, 6)
    if values is None:
        raise ArgumentError(f"param is {shown(param)}, but six values, (w1, alpha, beta, w2, gamma, it), are needed")
    *kernels, iterations = values
    w1, alpha, beta, w2, gamma = map(number, kernels, ("w1", "alpha", "beta", "w2", "gamma"))
    iterations = truncated(iterations, "it", -sys.maxsize)
    image, probabilities = as_array(I, "I"), as_float32(P, "P")
    if image.ndim == 2:
        image = image[..., np.newaxis]
    if image.ndim != 3 or probabilities.ndim != 3 or image.shape[:2] != probabilities.shape[:2]:
        raise ShapeError(
            f"I is {size(image.shape)} and P is {size(probabilities.shape)}, but height x width x channels and "
            "height x width x labels are needed"
        )
    return run(image, probabilities, (alpha,) * 2, (beta,), w1, (gamma,) * 2, w2, iterations)
