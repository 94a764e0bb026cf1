"""The helpers of ``pydensecrf.utils``."""

from __future__ import annotations

import warnings
from numbers import Number
from typing import Any, Optional, Sequence, Union

import numpy as np

from ..._arrays import as_array, axis_of, room_for
from ..._kernels import numbers
from ..._model import label_values
from ..._numbers import MOST_LABELS, number, shown, truncated, truth
from ...errors import ArgumentError, ShapeError

__all__ = [
    "compute_unary",
    "create_pairwise_bilateral",
    "create_pairwise_gaussian",
    "softmax_to_unary",
    "unary_from_labels",
    "unary_from_softmax",
]


@room_for("array to be copied")
def unary_from_labels(labels: Any, n_labels: int, gt_prob: float, zero_unsure: bool = True) -> np.ndarray:
    """Energies of hard labels that are right with probability `gt_prob`, labels x pixels, float32.

    With `zero_unsure` (the default) a 0 means "could be anything" and the labels count from 1.
    """
    gt_prob, zero_unsure = _number(gt_prob, "gt_prob"), truth(zero_unsure, "zero_unsure")
    assert 0 < gt_prob < 1, "`gt_prob must be in (0,1)."
    n_labels = truncated(n_labels, "n_labels", 1, MOST_LABELS)
    labels = label_values(as_array(labels, "labels"), n_labels if zero_unsure else n_labels - 1).astype(np.intp)
    hit = -np.log(gt_prob)
    # One label leaves nothing to share: an infinite energy for labels that do not exist.
    miss = -np.log((1.0 - gt_prob) / (n_labels - 1)) if n_labels > 1 else np.inf
    energies = np.full((n_labels, labels.size), miss, np.float32)
    energies[labels - 1 if zero_unsure else labels, np.arange(labels.size)] = hit
    if zero_unsure:
        energies[:, labels == 0] = np.log(n_labels)
    return energies


@room_for("array to be copied")
def unary_from_softmax(sm: Any, scale: Optional[float] = None, clip: Optional[float] = 1e-5) -> np.ndarray:
    """Energies ``-log p`` of probabilities with the labels first, labels x pixels, float32.

    `scale` mixes them with the uniform distribution; `clip` is the smallest probability.
    """
    sm = as_array(sm, "probabilities")
    if sm.ndim == 0 or sm.shape[0] == 0:
        raise ShapeError(f"probabilities have shape {sm.shape}, but labels x pixels with at least one label is needed")
    if scale is not None:
        scale = _number(scale, "scale")
        assert 0 < scale <= 1, "`scale` needs to be in (0,1]"
        sm = scale * sm + (1 - scale) / sm.shape[0]
    if clip is not None:
        clip = _number(clip, "clip")
        number(clip, "clip")  # no assertion judges this one
        sm = np.clip(sm, clip, 1.0)
    return -np.log(sm).reshape([sm.shape[0], -1]).astype(np.float32)


def compute_unary(labels: Any, M: int, GT_PROB: float = 0.5) -> np.ndarray:
    """The old name of `unary_from_labels`."""
    warnings.warn("compute_unary is deprecated, use unary_from_labels", DeprecationWarning, stacklevel=2)
    return unary_from_labels(labels, M, GT_PROB)


def softmax_to_unary(sm: Any, GT_PROB: float = 1) -> np.ndarray:
    """The old name of `unary_from_softmax`, without clipping."""
    warnings.warn("softmax_to_unary is deprecated, use unary_from_softmax", DeprecationWarning, stacklevel=2)
    scale = _number(GT_PROB, "GT_PROB")
    return unary_from_softmax(sm, None if scale == 1 else scale, clip=None)


@room_for("array to be copied")
def create_pairwise_gaussian(sdims: Sequence[float], shape: Sequence[int]) -> np.ndarray:
    """Features of a kernel on position: one row per axis, divided by `sdims` (in the order of `shape`)."""
    planes, count = _grid(sdims, shape), len(sdims)
    if count == 0 or planes.size % count:
        raise ShapeError(f"sdims has {count} values, but there are {len(planes)} axes to divide")
    return planes.reshape(count, -1)


@room_for("array to be copied")
def create_pairwise_bilateral(
    sdims: Sequence[float], schan: Union[float, Sequence[float]], img: Any, chdim: int = -1
) -> np.ndarray:
    """Features of a kernel on position and image values, positions first.

    `chdim` is the axis of channels; -1, unlike anywhere else, means that there is none.
    """
    img = as_array(img, "image")
    none = isinstance(chdim, (int, np.integer)) and chdim == -1
    channels = img[np.newaxis] if none else np.moveaxis(img, axis_of(chdim, img.ndim, "chdim", "the image"), 0)
    if isinstance(schan, Number):
        schan = [schan] * len(channels)
    channels = _divided(channels.astype(np.float32), schan, "schan")
    features = np.concatenate([_grid(sdims, channels.shape[1:]), channels])
    return features.reshape(features.shape[0], -1)


def _number(value: Any, name: str) -> Any:
    """A number that NumPy computes with; how large it may be is for the original's assertions to judge."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(())[()]
    # NumPy's own stay what they are: their precision is that of the result.
    return value if isinstance(value, (int, float, np.integer, np.floating)) else number(value, name)


def _grid(sdims: Sequence[float], shape: Sequence[int]) -> np.ndarray:
    lengths = [truncated(n, "shape") for n in _row(shape, "shape", "a sequence of sizes")]
    try:
        planes = np.indices(lengths, dtype=np.float32)
    except ValueError as e:  # more axes, or more values, than NumPy counts
        raise ArgumentError(f"shape is {shown(shape)}, but must be a sequence of sizes that NumPy takes: {e}") from e
    return _divided(planes, sdims, "sdims")


def _row(given: Any, name: str, expected: str) -> list:
    """As `numbers`, but one alone is not enough."""
    values = numbers(given, name)
    if np.ndim(given) == 0:
        raise ArgumentError(f"{name} is {shown(given)}, but must be {expected}")
    return values


def _divided(planes: np.ndarray, deviations: Any, name: str) -> np.ndarray:
    """The first planes divided, each by its deviation; if there are fewer of these, the rest stays as it is."""
    count = len(_row(deviations, name, "a sequence with one number per axis or channel"))
    if count > len(planes):
        raise ShapeError(f"{name} has {count} values, but there are {len(planes)} axes or channels to divide")
    # By what was given, not by `numbers` of it: NumPy divides by its own float64 with more digits than by a float.
    for plane, deviation in zip(planes, deviations):
        plane /= deviation
    return planes
