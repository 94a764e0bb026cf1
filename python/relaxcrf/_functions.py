"""Functions without a model: matching costs, bare filters, threads."""

from __future__ import annotations

import sys
from typing import Any, Optional

import numpy as np

from . import _core
from ._arrays import as_array, as_float32, axis_of, from_rows, rows_of
from ._kernels import image_rows
from ._numbers import MOST_LABELS, flag, number, optional, text, whole
from .errors import ShapeError


def stereo_unary(
    left: Any,
    right: Any,
    disparities: int,
    measure: str = "absolute",
    *,
    radius: int = 2,
    truncation: Optional[float] = None,
    channel_axis: Optional[int] = -1,
    threads: Optional[int] = None,
) -> np.ndarray:
    """Matching costs of a rectified pair: the unary energies of a disparity problem.

    Parameters
    ----------
    left, right : array
        Images of the same size on the 0 to 255 scale. Left pixel x matches right pixel x - d.
    disparities : int
        Number of labels D; disparities 0 to D - 1.
    measure : {"absolute", "birchfield-tomasi", "census"}
        How two pixels are compared.
    radius : int
        Of the census window, 1 to 3.
    truncation : float, optional
        No cost exceeds this; by default the measure's usual one.
    channel_axis : int or None
        Where the channels are.
    threads : int, optional
        Threads to use.

    Returns
    -------
    array
        D x height x width, float32.

    Examples
    --------
    >>> import numpy as np, relaxcrf
    >>> right = np.random.default_rng(0).integers(0, 255, (8, 20), np.uint8)
    >>> left = np.roll(right, 3, axis=1)
    >>> int(relaxcrf.stereo_unary(left, right, 5)[:, 4, 10].argmin())
    3
    """
    pair = [as_array(left, "left image"), as_array(right, "right image")]
    if pair[0].shape != pair[1].shape:
        raise ShapeError(f"the right image has shape {pair[1].shape}, but the left one has {pair[0].shape}: rectified?")
    if pair[0].ndim not in (2, 3):
        raise ShapeError(f"images have shape {pair[0].shape}, but height x width x channels is needed")
    shape, axis = pair[0].shape, None
    if len(shape) == 3 and channel_axis is not None:
        axis = axis_of(channel_axis, 3, "channel_axis", "the image")
        shape = shape[:axis] + shape[axis + 1 :]
    if len(shape) != 2:
        raise ShapeError(f"images have shape {pair[0].shape}, but height x width with one axis of channels is needed")
    labels = whole(disparities, "disparities", 1, MOST_LABELS)
    radius = whole(radius, "radius")
    truncation = optional(number, truncation, "truncation")
    rows = [image_rows(image, shape, axis, dimensions=sys.maxsize) for image in pair]
    costs = _core.stereo_unary(*rows, *shape, labels, text(measure, "measure"), radius, truncation, threads)
    return from_rows(costs, shape, 0)


def filter(
    features: Any, values: Any, kind: str = "lattice", *, transposed: bool = False, threads: Optional[int] = None
) -> np.ndarray:
    """The bare Gaussian operator: ``out_a = sum_b exp(-|f_a - f_b|^2 / 2) values_b``, the pixel itself included.

    Parameters
    ----------
    features : array
        Points x features, each divided by its standard deviation.
    values : array
        Points, or points x channels.
    kind : {"lattice", "lattice-classic", "exact"}
        The operator.
    transposed : bool
        Apply the transposed operator; differs for ``lattice-classic`` only.
    threads : int, optional
        Threads to use.

    Returns
    -------
    array
        Shaped as `values`, float32.

    Examples
    --------
    >>> import numpy as np, relaxcrf
    >>> relaxcrf.filter([[0.0], [1.0]], [1.0, 0.0], kind="exact").round(4)
    array([1.    , 0.6065], dtype=float32)
    """
    features = as_float32(features, "features")
    values = as_float32(values, "values")
    features = features[:, np.newaxis] if features.ndim == 1 else features
    if features.ndim != 2 or values.ndim not in (1, 2) or not values.size:
        raise ShapeError(
            f"features have shape {features.shape} and values {values.shape}, but points x features and points "
            "(x channels) are needed"
        )
    rows = values.reshape(-1, 1) if values.ndim == 1 else rows_of(values, 1)
    kind, transposed = text(kind, "kind"), flag(transposed, "transposed")
    return _core.filter(features, rows, kind, transposed, threads).reshape(values.shape)


def get_num_threads() -> int:
    """Threads used when a call does not say: `set_num_threads`, else RELAXCRF_NUM_THREADS, else RAYON_NUM_THREADS,
    else the number of processors this process may use."""
    return _core.get_num_threads()


def set_num_threads(threads: Optional[int]) -> None:
    """Sets the threads used when a call does not say; None goes back to the environment and the machine."""
    _core.set_num_threads(threads)
