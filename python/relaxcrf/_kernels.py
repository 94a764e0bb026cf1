"""The kernels of a model: what makes two pixels want the same label."""

from __future__ import annotations

from numbers import Number
from typing import Any, Optional, Sequence, Union

import numpy as np

from ._arrays import as_array, as_float32, axis_of, room_for, rows_of, size, warn
from ._inputs import batch_axis_hint, looks_wrapped
from ._numbers import MOST_DIMENSIONS, number, shown
from .errors import ArgumentError, DtypeError, ShapeError

Sigma = Union[float, Sequence[float]]
Cost = Union[None, str, float, Any]


def numbers(value: Any, name: str) -> list:
    """One number, or several in a row, as floats."""
    if isinstance(value, Number):
        return [number(value, name)]
    try:
        array = np.atleast_1d(as_array(value, name))
    except DtypeError as e:
        raise ArgumentError(f"{name} is {shown(value)}, but must be a number or one number per axis") from e
    if array.ndim > 1:
        raise ArgumentError(f"{name} has shape {array.shape}, but must be a number or one number per axis")
    return array.astype(float).tolist()


def _deviations(value: Any, name: str) -> list:
    given = numbers(value, name)
    if not given or not all(np.isfinite(v) and v > 0 for v in given):
        raise ArgumentError(f"{name} is {shown(value)}, but must be positive and finite")
    return given


def _weight(value: Any) -> float:
    weight = number(value, "weight")
    if not (np.isfinite(weight) and weight >= 0):
        raise ArgumentError(f"weight is {shown(value)}, but must be a finite number, 0 or more (positive smooths)")
    return weight


def restricted_compatibility(given: tuple, labels: int, keep: list) -> tuple:
    """What `parse_compatibility` made of the costs of all labels, for some of them."""
    kind, values = given
    if kind == "potts":
        return given
    if kind == "per-label":
        return (kind, [values[i] for i in keep])
    if kind == "matrix":
        costs = np.reshape(values, (labels, labels))
    else:
        places = np.arange(labels, dtype=np.float64)
        costs = np.abs(places[:, None] - places) ** (2 if kind == "quadratic" else 1)
        costs = np.minimum(costs, values[0]) if values else costs
    return ("matrix", costs[np.ix_(keep, keep)].ravel().tolist())


def parse_compatibility(given: Any, labels: int, number_allowed: bool = False) -> tuple:
    """A label cost as the extension module takes it: kind and numbers."""
    expected = "'potts', 'linear', 'linear:T', 'quadratic', 'quadratic:T', one weight per label or a matrix"
    if number_allowed:
        expected = f"a number (the cost of different labels), {expected}"
        if isinstance(given, Number) and not isinstance(given, bool):
            strength = number(given, "compatibility")
            if not np.isfinite(strength):
                raise ArgumentError(f"compatibility is {shown(given)}; expected a finite number")
            return ("potts", [strength])
    if isinstance(given, str):
        name, _, truncation = given.partition(":")
        if name == "potts" and not truncation:
            return ("potts", [])
        try:
            if name in ("linear", "quadratic"):
                return (name, [float(truncation)] if truncation else [])
        except ValueError:
            pass
        raise ArgumentError(f"compatibility is {shown(given)}, but must be {expected}")
    try:
        array = as_float32(given, "compatibility")
    except DtypeError as e:
        raise ArgumentError(f"compatibility is {shown(given)}, but must be {expected}") from e
    if array.shape == (labels,):
        return ("per-label", array.tolist())
    if array.shape == (labels, labels):
        return ("matrix", array.ravel().tolist())
    raise ShapeError(
        f"compatibility has shape {array.shape}, but ({labels},) or ({labels}, {labels}) is needed for {labels} labels"
    )


def _cost(given: Cost, labels: int) -> Optional[tuple]:
    """The label cost of a kernel; None for the model's."""
    return None if given is None else parse_compatibility(given, labels, number_allowed=True)


def _show_cost(given: Cost) -> str:
    return "" if given is None else f", compatibility={shown(given)}"


def _show(values: list) -> str:
    texts = [f"{v:g}" for v in values]
    return texts[0] if len(texts) == 1 else "(" + ", ".join(texts) + ")"


class Gaussian:
    """Pixels close to each other should have the same label.

    Parameters
    ----------
    sigma : float or sequence of float
        Standard deviation in pixels; one for all axes, or one per axis with x (the last axis of the image) first.
    weight : float
        Strength. Every pair counts twice, once from each end; pydensecrf's ``compat=3`` is ``weight=1.5`` here.
    compatibility : optional
        Label cost of this kernel alone, in place of the model's: a number (the cost of different labels; a negative one
        favours them), or anything that `Model` takes. Energies, ``mf``, ``qp`` and ``dc-gen`` take any; costs that are
        multiples of one another count as weights, and every method takes them.

    Examples
    --------
    >>> import relaxcrf
    >>> relaxcrf.Gaussian(sigma=3, weight=1.5)
    Gaussian(sigma=3, weight=1.5)
    """

    def __init__(self, sigma: Sigma, weight: float = 1.0, compatibility: Cost = None) -> None:
        self.sigma = _deviations(sigma, "sigma")
        self.weight = _weight(weight)
        self.compatibility = compatibility

    def __repr__(self) -> str:
        return f"Gaussian(sigma={_show(self.sigma)}, weight={self.weight:g}{_show_cost(self.compatibility)})"

    def _specification(self, shape: tuple, labels: int) -> tuple:
        if len(self.sigma) not in (1, len(shape)):
            raise ShapeError(f"sigma has {len(self.sigma)} values, but the model has {len(shape)} axes")
        return ("gaussian", self.sigma, None, [], self.weight, _cost(self.compatibility, labels))


class Bilateral:
    """Pixels close to each other and of similar colour should have the same label.

    Parameters
    ----------
    image : array
        Height x width x channels (or depth x height x width x channels, ...), any number of channels and any
        real dtype; without a channel axis it is grey.
    sigma_xy : float or sequence of float
        Standard deviation in pixels; one for all axes, or one per axis with x first.
    sigma_rgb : float or sequence of float
        Standard deviation in the image's own units, one for all channels or one per channel. Published values
        such as 13 are for images on the 0 to 255 scale; for an image in 0..1 divide them by 255.
    weight : float
        Strength. Every pair counts twice, once from each end; pydensecrf's ``compat=10`` is ``weight=5`` here.
    channel_axis : int or None
        Where the channels are; None if all axes are spatial.
    compatibility : optional
        Label cost of this kernel alone, in place of the model's: a number (the cost of different labels; a negative one
        favours them), or anything that `Model` takes. Energies, ``mf``, ``qp`` and ``dc-gen`` take any; costs that are
        multiples of one another count as weights, and every method takes them.

    Examples
    --------
    >>> import numpy as np, relaxcrf
    >>> relaxcrf.Bilateral(np.zeros((4, 5, 3), np.uint8), sigma_xy=80, sigma_rgb=13, weight=5)
    Bilateral(image of 4 x 5 x 3 uint8, sigma_xy=80, sigma_rgb=13, weight=5)
    """

    def __init__(
        self,
        image: Any,
        sigma_xy: Sigma,
        sigma_rgb: Sigma,
        weight: float = 1.0,
        channel_axis: Optional[int] = -1,
        compatibility: Cost = None,
    ) -> None:
        self.image = as_array(image, "image")
        self.sigma_xy = _deviations(sigma_xy, "sigma_xy")
        self.sigma_rgb = _deviations(sigma_rgb, "sigma_rgb")
        self.weight = _weight(weight)
        self.channel_axis = channel_axis
        self.compatibility = compatibility

    def __repr__(self) -> str:
        image = f"image of {size(self.image.shape)} {self.image.dtype}"
        return (
            f"Bilateral({image}, sigma_xy={_show(self.sigma_xy)}, sigma_rgb={_show(self.sigma_rgb)}, "
            f"weight={self.weight:g}{_show_cost(self.compatibility)})"
        )

    def _specification(self, shape: tuple, labels: int) -> tuple:
        rows = image_rows(self.image, shape, self.channel_axis)
        if len(self.sigma_xy) not in (1, len(shape)):
            raise ShapeError(f"sigma_xy has {len(self.sigma_xy)} values, but the model has {len(shape)} axes")
        if len(self.sigma_rgb) not in (1, rows.shape[1]):
            raise ShapeError(f"sigma_rgb has {len(self.sigma_rgb)} values, but the image has {rows.shape[1]} channels")
        check_scale(self.image, self.sigma_rgb)
        cost = _cost(self.compatibility, labels)
        return ("bilateral", self.sigma_xy, rows, self.sigma_rgb, self.weight, cost)


class Features:
    """Points with similar features should have the same label: the general kernel.

    Parameters
    ----------
    array : array
        Points x features (or height x width x features, ...), each feature already divided by its standard
        deviation.
    weight : float
        Strength; every pair counts twice, once from each end.
    compatibility : optional
        Label cost of this kernel alone, in place of the model's: a number (the cost of different labels; a negative one
        favours them), or anything that `Model` takes. Energies, ``mf``, ``qp`` and ``dc-gen`` take any; costs that are
        multiples of one another count as weights, and every method takes them.

    Examples
    --------
    >>> import numpy as np, relaxcrf
    >>> relaxcrf.Features(np.zeros((100, 6), np.float32), weight=2)
    Features(array of 100 x 6 float32, weight=2)
    """

    def __init__(self, array: Any, weight: float = 1.0, compatibility: Cost = None) -> None:
        self.array = as_array(array, "features")
        self.weight = _weight(weight)
        self.compatibility = compatibility

    def __repr__(self) -> str:
        array = f"array of {size(self.array.shape)} {self.array.dtype}"
        return f"Features({array}, weight={self.weight:g}{_show_cost(self.compatibility)})"

    def _specification(self, shape: tuple, labels: int) -> tuple:
        points = int(np.prod(shape))
        array = self.array[:, np.newaxis] if self.array.ndim == 1 else self.array
        if array.shape[:-1] != tuple(shape) and array.shape[:-1] != (points,):
            hint = " (features first? pass array.T)" if array.ndim == 2 and array.shape[1] == points else ""
            raise ShapeError(
                f"features have shape {array.shape}, but {size(shape)} points with one row of features each are "
                f"needed{hint}"
            )
        rows = rows_of(as_float32(array, "features"), -1)
        return ("features", [], rows, [], self.weight, _cost(self.compatibility, labels))


Kernel = Union[Gaussian, Bilateral, Features]


@room_for("array to be copied")
def image_rows(
    image: np.ndarray, shape: tuple, channel_axis: Optional[int], dimensions: int = MOST_DIMENSIONS
) -> np.ndarray:
    """The image as one row of channels per pixel of a grid of that shape, axes and channels within `dimensions`."""
    if channel_axis is None or image.ndim == len(shape):
        spatial, rows = image.shape, None
    elif image.ndim == len(shape) + 1:
        axis = axis_of(channel_axis, image.ndim, "channel_axis", "the image")
        spatial, rows = image.shape[:axis] + image.shape[axis + 1 :], axis
    else:
        raise ShapeError(
            f"image has shape {image.shape}, but {size(shape)} pixels with or without one axis of channels are needed"
            f"{batch_axis_hint(image, len(shape) + 1, 'image')}"
        )
    if tuple(spatial) != tuple(shape):
        raise ShapeError(
            f"image is {size(spatial)} but the energies or probabilities are {size(shape)}"
            f"{_likely_fix(image, spatial, shape, channel_axis)}"
        )
    channels = 1 if rows is None else image.shape[rows]
    if channels < 1:
        raise ShapeError(f"image has shape {image.shape}, but at least one channel is needed: is channel_axis right?")
    if len(shape) + channels > dimensions:
        raise ArgumentError(
            f"number of feature dimensions is {len(shape) + channels} ({len(shape)} axes and {channels} channels of "
            f"the image), but must be 1 to {dimensions}: is channel_axis right?"
        )
    # Bytes are converted where they are kept.
    values = image if image.dtype == np.uint8 else as_float32(image, "image")
    return values.reshape(-1, 1) if rows is None else rows_of(values, rows)


def _likely_fix(image: np.ndarray, spatial: tuple, shape: tuple, channel_axis: Optional[int]) -> str:
    if tuple(spatial) == tuple(shape)[::-1]:
        return ": transposed? Swap height and width of one of them (image.swapaxes(0, 1))"
    for axis in range(image.ndim):
        if image.shape[:axis] + image.shape[axis + 1 :] == tuple(shape):
            return f": the channels seem to be axis {axis}, pass channel_axis={axis}"
    return ": resize one of them, both must describe the same pixels"


def check_scale(image: np.ndarray, sigma_rgb: Sequence[float]) -> None:
    """Warns when image and colour sigma are obviously on different scales, or when the image has wrapped around."""
    if image.size == 0 or image.dtype.kind == "b":
        return
    low, high = float(image.min()), float(image.max())
    if low >= 0 and 0 < high <= 1 and min(sigma_rgb) > 1:
        warn(
            f"the image's values lie in {low:g} to {high:g} but sigma_rgb={min(sigma_rgb):g} is meant for 0 to 255, "
            "so that all colours look alike: pass data_range=1 to refine, or divide sigma_rgb of Bilateral by 255"
        )
    elif high - low > 64 and max(sigma_rgb) < 0.5:
        warn(
            f"the image's values lie in {low:g} to {high:g} but sigma_rgb={max(sigma_rgb):g} is meant for 0 to 1, "
            "so that no two colours look alike: divide the image by 255, or multiply sigma_rgb by 255"
        )
    if looks_wrapped(image):
        warn(
            "the image's values seem to have wrapped around: many neighbours jump between 0 and 255, as after subtracting "
            "a mean and casting to uint8. Use the original image; the kernels need no mean subtracted"
        )
