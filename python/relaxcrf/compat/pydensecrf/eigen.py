"""The two conversions of ``pydensecrf.eigen``: here matrices simply are NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._arrays import as_float32, room_for

__all__ = ["MatrixXf", "VectorXf", "matrixXf", "vectorXf"]

MatrixXf = np.ndarray
VectorXf = np.ndarray


@room_for("array to be copied")
def matrixXf(arr: Any) -> np.ndarray:
    """A copy as a two-dimensional float32 array, columns contiguous."""
    array = as_float32(arr, "matrix")
    if array.ndim != 2:
        raise ValueError("Buffer has wrong number of dimensions (expected 2, got {})".format(array.ndim))
    return np.array(array, order="F")


@room_for("array to be copied")
def vectorXf(arr: Any) -> np.ndarray:
    """A copy as a one-dimensional float32 array."""
    array = as_float32(arr, "vector")
    if array.ndim != 1:
        raise ValueError("Buffer has wrong number of dimensions (expected 1, got {})".format(array.ndim))
    return np.array(array)
