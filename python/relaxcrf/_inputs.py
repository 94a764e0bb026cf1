"""Likely mistakes in arrays: what they look like, and what to do instead."""

from __future__ import annotations

from typing import Optional

import numpy as np

from ._arrays import axis_of, room_for, size, warn
from .errors import DataError, ShapeError

_SUM_TOLERANCE = 0.02
# As the extension module: probabilities this far outside of 0 to 1 are rounding errors.
_ROUNDING = 1e-3


def check_pair(image: np.ndarray, probabilities: np.ndarray, label_axis: int, channel_axis: Optional[int]) -> np.ndarray:
    """Probabilities with a label axis: those given, or both labels of a foreground map. Fails for batch axes."""
    check_batch_axes(image, probabilities, channel_axis)
    return with_background(image, probabilities, label_axis, channel_axis)


def check_batch_axes(image: np.ndarray, probabilities: np.ndarray, channel_axis: Optional[int]) -> None:
    """Fails if image or probabilities have an axis of images in front."""
    if probabilities.ndim == 4 and (image.ndim == 4 or probabilities.shape[0] != 1):
        images, grid = probabilities.shape[0], image.shape[1:] if image.ndim == 4 else image.shape
        same_grid = image.ndim >= 3 and probabilities.shape[2:] in (grid[:2], grid[1:])
        if image.ndim == 4 and image.shape[0] == images == 1 and same_grid:
            raise ShapeError(
                f"image has shape {image.shape} and probabilities {probabilities.shape}, but an image and labels x "
                "height x width are needed: drop the batch axis: image[0], probabilities[0]"
            )
        if image.ndim == 4 and image.shape[0] == images and same_grid and channel_axis is not None:
            raise ShapeError(
                f"image has shape {image.shape} and probabilities {probabilities.shape}, which look like {images} "
                "images: use relaxcrf.batch(images, probabilities)"
            )
    if probabilities.ndim == 4 and image.ndim <= 3 and probabilities.shape[0] == 1:
        raise ShapeError(
            f"probabilities have shape {probabilities.shape}, but labels x height x width is needed: drop the batch "
            "axis: probabilities[0]"
        )
    if image.ndim == 4 and probabilities.ndim == 3 and image.shape[0] == 1 and channel_axis is not None:
        raise ShapeError(
            f"image has shape {image.shape}, but height x width x channels is needed: drop the batch axis: image[0]"
        )


def batch_axis_hint(array: np.ndarray, axes: int, name: str) -> str:
    """What to do about an array with one axis more than `axes`, for the end of a message."""
    if array.ndim != axes + 1:
        return ""
    if array.shape[0] == 1:
        return f": drop the batch axis: {name}[0]"
    return ": use relaxcrf.batch for many images"


def with_background(
    image: np.ndarray, probabilities: np.ndarray, label_axis: int, channel_axis: Optional[int]
) -> np.ndarray:
    """The probabilities, or ``[1 - p, p]`` with a warning if they are one foreground map of the image's size."""
    spatial = image.ndim - (channel_axis is not None and image.ndim > 2)
    if probabilities.ndim != spatial or probabilities.ndim < 2:
        return probabilities
    grid = image.shape
    if image.ndim > spatial:
        channel = axis_of(channel_axis, image.ndim, "channel_axis", "the image")
        grid = image.shape[:channel] + image.shape[channel + 1 :]
    if probabilities.shape != grid:
        return probabilities
    axis = axis_of(label_axis, probabilities.ndim + 1, "label_axis", "the array of both labels")
    warn(
        f"probabilities of shape {size(probabilities.shape)} have no axis of labels: taken as the probability p of a "
        f"foreground, label 1, with 1 - p for label 0; np.stack([1 - p, p], {axis}) says the same without this warning"
    )
    return _both_labels(np.expand_dims(probabilities, axis), axis)


def both_labels(probabilities: np.ndarray, axis: int) -> np.ndarray:
    """The probabilities, or ``[1 - p, p]`` with a warning if they have one label only."""
    if probabilities.shape[axis] != 1:
        return probabilities
    warn(
        f"probabilities of shape {probabilities.shape} have one label on axis {axis}: taken as the probability p of a "
        f"foreground, label 1, with 1 - p for label 0; np.concatenate([1 - p, p], {axis}) says the same without this "
        "warning"
    )
    return _both_labels(probabilities, axis)


@room_for("array to be copied")
def _both_labels(p: np.ndarray, axis: int) -> np.ndarray:
    p = np.asarray(p, np.float32)
    return np.concatenate([1 - p, p], axis)


def check_probabilities(array: np.ndarray, axis: int) -> None:
    """Fails for NaN and for values outside of 0 to 1, naming what they probably are."""
    if not array.size:
        return
    low, high = array.min(), array.max()
    if -_ROUNDING <= low and high <= 1 + _ROUNDING:
        return
    place, value = _first(array, axis, ~((array >= -_ROUNDING) & (array <= 1 + _ROUNDING)))
    if np.isnan(value):
        raise DataError(f"probabilities hold NaN at {place}, but must be numbers from 0 to 1")
    raise DataError(
        f"probabilities hold {value:g} at {place}, but must be numbers from 0 to 1{_likely_scale(array, axis)}"
    )


def _likely_scale(array: np.ndarray, axis: int) -> str:
    finite = array[np.isfinite(array)]
    if not finite.size:
        return ""
    low, high = float(finite.min()), float(finite.max())
    if low >= 0 and high > 2:
        sums = array.sum(axis=axis)
        if high <= 255 and ((finite == np.rint(finite)).all() or (np.abs(sums / 255 - 1) < _SUM_TOLERANCE).mean() > 0.9):
            return ": values from 0 to 255? Divide by 255: probabilities / 255"
        if (np.abs(sums / 100 - 1) < _SUM_TOLERANCE).mean() > 0.9:
            return ": values in percent? Divide by 100: probabilities / 100"
    return (
        f" (values from {low:g} to {high:g}): if these are scores (logits), use Model.from_scores, or take the softmax "
        "first; if energies, use Model"
    )


def check_energies(array: np.ndarray, axis: int) -> None:
    """Fails for NaN; warns if the energies are probabilities."""
    if not array.size:
        return
    low, high = array.min(), array.max()
    if np.isnan(low):
        place, _ = _first(array, axis, np.isnan(array))
        raise DataError(
            f"unary energies hold NaN at {place}, but must be finite, or inf to forbid a label; {np.isnan(array).sum()} "
            f"of {array.size} values are NaN"
        )
    if looks_like_probabilities(array, axis, low, high):
        warn(
            f"unary energies of shape {array.shape} lie in 0 to 1 and sum to 1 at every pixel, as probabilities do, but "
            "energies are lower where a label is likelier: for probabilities use Model.from_probabilities"
        )


@room_for("array to be copied")
def looks_like_probabilities(array: np.ndarray, axis: int, low: float, high: float) -> bool:
    """Whether values within `low` to `high` are probabilities: those of several labels sum to 1.

    Equal values are no preference at all, and 0 and 1 alone are costs of wrong labels.
    """
    if array.shape[axis] < 2 or not 0 <= low < high <= 1 or ((array == 0) | (array == 1)).all():
        return False
    return bool((np.abs(array.sum(axis=axis) - 1) <= _SUM_TOLERANCE).all())


def _first(array: np.ndarray, axis: int, wrong: np.ndarray) -> tuple:
    """Place and value of the first wrong entry, pixels in order."""
    moved = np.moveaxis(wrong, axis, -1)
    found = np.unravel_index(int(moved.reshape(-1).argmax()), moved.shape)
    pixel, label = found[:-1], found[-1]
    return f"{_place(pixel)}, label {label}", np.moveaxis(array, axis, -1)[found]


def _place(pixel: tuple) -> str:
    """``x 3, y 2`` of an index in the order of the axes."""
    if len(pixel) == 1:
        return f"pixel {pixel[0]}"
    names = ["x", "y", "z"][: len(pixel)]
    if len(pixel) > len(names):
        return f"pixel {tuple(map(int, pixel))}"
    return ", ".join(f"{name} {index}" for name, index in zip(names, pixel[::-1]))


# Values up to this far apart are not compacted: a label that an image happens to lack costs little.
_MIN_MISSING = 8


def compact_labels(labels: np.ndarray, unsure: Optional[int]) -> tuple:
    """Labels 0, 1, ... of a label map, the value that each stands for (None if values stay), and the unsure mark.

    A mask of 0 and 255 becomes two labels, and maps with far fewer values than the largest, such as 0, 12 and 180, one
    label for each value. ``values[result]`` restores the values.
    """
    values, places = np.unique(labels, return_inverse=True)
    sure = values[values != unsure]
    largest = int(sure[-1]) if sure.size else 0
    if not sure.size or sure[0] < 0 or (
        sure.tolist() != [0, 255] and (largest + 1 < 2 * sure.size or largest + 1 - sure.size < _MIN_MISSING)
    ):
        return labels, None, unsure
    mark = None if unsure is None else sure.size
    table = np.where(values == unsure, sure.size, np.searchsorted(sure, values))
    return table[places].reshape(labels.shape), sure, mark


# On the circle of 256 levels, neighbouring pixels move along short arcs. In a photograph hardly any arc crosses from 255
# to 0, since the scale ends there. After subtracting a mean and wrapping, mid-grey surfaces lie at 0 and cross it as often
# as the levels beside it, and the end of the scale has moved to another level.
_MOST_PAIRS = 1 << 17
_NEAR_LEVELS = 32
_MIN_CROSSINGS = 100
_MIN_CROSSING_FRACTION = 0.002
_MAX_BEST_CUT = 0.5
_BESIDE = 4
_BESIDE_RATIO = (0.25, 2.0)
_MEDIAN_RATIO = (0.25, 20.0)


def looks_wrapped(image: np.ndarray) -> bool:
    """Whether an image of 8-bit values looks as if a mean had been subtracted and the result had wrapped around."""
    if image.ndim < 2 or not image.size or image.dtype.kind not in "uif" or image.dtype.itemsize > 8:
        return False
    every = max(1, -(-image.size // (3 * _MOST_PAIRS)))
    rows = image[::every]
    if rows.dtype != np.uint8:
        if not (rows.min() >= 0 and rows.max() <= 255 and (rows == np.rint(rows)).all()):
            return False
    rows = rows.astype(np.int16)
    few = rows.ndim > 2 and rows.shape[-1] <= 4
    return any(_is_wrapped(rows[..., c]) for c in range(rows.shape[-1])) if few else _is_wrapped(rows)


def _is_wrapped(levels: np.ndarray) -> bool:
    """`levels` with neighbours along the second axis."""
    start, stop = levels[:, :-1].reshape(-1), levels[:, 1:].reshape(-1)
    arcs = (stop - start + 128) % 256 - 128
    near = (arcs != 0) & (np.abs(arcs) <= _NEAR_LEVELS)
    low = np.where(arcs > 0, start, stop)[near]
    length = np.abs(arcs)[near]
    # Where arcs begin and end, on two turns of the circle.
    changes = np.bincount(low + 1, minlength=513)[:513] - np.bincount(low + 1 + length, minlength=513)[:513]
    counts = np.cumsum(changes)[:512].reshape(2, 256).sum(axis=0)
    at_zero, beside, median = counts[0], max(counts[_BESIDE], counts[-_BESIDE], 1), max(np.median(counts), 1)
    return bool(
        at_zero >= _MIN_CROSSINGS
        and at_zero > _MIN_CROSSING_FRACTION * arcs.size
        and counts.min() <= _MAX_BEST_CUT * at_zero
        and _BESIDE_RATIO[0] <= at_zero / beside <= _BESIDE_RATIO[1]
        and _MEDIAN_RATIO[0] <= at_zero / median <= _MEDIAN_RATIO[1]
    )

