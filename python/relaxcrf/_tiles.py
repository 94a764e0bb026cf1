"""Images of any size, in tiles that are refined one after the other."""

from __future__ import annotations

import math
import os
from typing import Any, Callable, Optional, Sequence, Union

import numpy as np

from . import _core
from ._arrays import as_array, as_float32, axis_of, from_rows, room_for, rows_of, size
from ._kernels import Gaussian, check_scale, image_rows
from ._model import probability_rows
from ._numbers import check_labels, function, one_of, optional, shown, text, whole
from ._refine import CLIP, Preset, color_scale, learned_of, preset_of
from .errors import ArgumentError, ShapeError


class Windows:
    """How windows of one image are refined, so that they fit together. Plain data: it travels to other processes."""

    def __init__(
        self,
        preset: Union[str, os.PathLike, Preset, None],
        label_axis: int,
        channel_axis: Optional[int],
        data_range: float,
        method: Optional[str],
        output: str,
        threads: Optional[int],
        iterations: Optional[int] = None,
    ) -> None:
        one_of(output, "output", "labels", "probabilities")
        self.preset = preset_of(preset)
        self.method = self.preset.method if method is None else text(method, "method")
        self.iterations = optional(whole, iterations, "iterations", 1)
        _core.tile_check_method(self.method)
        self.label_axis, self.channel_axis = label_axis, channel_axis
        self.scale = color_scale(data_range)
        self.output, self.threads = output, threads

    def spatial(self, image: Any, probabilities: Any) -> tuple:
        """The common sizes of image and probabilities, and where labels and channels are (None for no axis)."""
        for array, what in ((image, "image"), (probabilities, "probabilities")):
            _check_sliceable(array, what, "__getitem__")
        shape = tuple(probabilities.shape)
        axis = axis_of(self.label_axis, len(shape), "label_axis", "the array of probabilities")
        check_labels(shape[axis], "probabilities")
        sizes = shape[:axis] + shape[axis + 1 :]
        pixels, channel = tuple(image.shape), None
        if self.channel_axis is not None and len(pixels) == len(shape):
            channel = axis_of(self.channel_axis, len(pixels), "channel_axis", "the image")
            pixels = pixels[:channel] + pixels[channel + 1 :]
        if pixels != sizes or not sizes or 0 in sizes:
            raise ShapeError(
                f"image has shape {tuple(image.shape)} and probabilities {shape}: {size(pixels)} and {size(sizes)} "
                "pixels, but both must describe the same (see label_axis and channel_axis)"
            )
        return sizes, axis, channel

    def halos(self, halo: Union[str, int, Sequence[int]], axes: int) -> list:
        """Pixels around a tile along each axis."""
        if isinstance(halo, str):
            if halo != "auto":
                raise ArgumentError(f"halo is {shown(halo)}, but must be 'auto' or a number of pixels")
            kernels = [self.preset.gaussian, self.preset.bilateral]
            return [_core.tile_halo([k[0] for k in kernels if k[-1] > 0])] * axes
        try:
            each = np.broadcast_to(halo, (axes,)).tolist()
        except ValueError:
            raise ArgumentError(f"halo is {shown(halo)}, but must be 'auto', a number of pixels, or one per axis") from None
        return [whole(h, "halo", instead=_AUTO) for h in each]

    def refine(self, image: np.ndarray, probabilities: np.ndarray, origin: list, whole: tuple, check: bool) -> Any:
        """One window: labels, or probabilities shaped as the given ones. Positions are those in the whole image."""
        if check:
            rows, shape, axis = probability_rows(probabilities, self.label_axis, foreground=False)
        else:
            array = as_float32(probabilities, "probabilities")
            axis = self.label_axis % array.ndim
            rows, shape = rows_of(array, axis), array.shape[:axis] + array.shape[axis + 1 :]
        image = as_array(image, "image")
        # Sizes first: looking at the values of an image that does not fit would take forever.
        source, kernels = ("probabilities", rows, CLIP), self._kernels(image, tuple(shape))
        if check and image.dtype.kind == "f":
            check_scale(image, [self.preset.bilateral[1] * self.scale])
        place = (list(origin), list(whole))
        labels, beliefs, _ = _core.refine(
            source,
            list(shape),
            kernels,
            self.preset.normalization,
            self.method,
            self.iterations,
            place,
            False,
            self.threads,
            learned_of(self.preset),
        )
        if self.output == "probabilities":
            return from_rows(beliefs, shape, axis)
        return labels.reshape(shape)

    def _kernels(self, image: np.ndarray, shape: tuple) -> list:
        sigma_xy, sigma_rgb, weight = self.preset.bilateral
        colors = image_rows(image, shape, self.channel_axis)
        spatial = Gaussian(*self.preset.gaussian)._specification(shape, 0)
        return [spatial, ("bilateral", [sigma_xy], colors, [sigma_rgb * self.scale], weight, None)]

    def bytes_per_pixel(self, image: Any, channel: Optional[int], sizes: tuple, labels: int) -> int:
        """The most that a pixel takes in some parts of the image."""
        most = 0
        for window in _core.tile_samples(list(sizes)):
            colors = as_array(cut(image, window, channel), "image")
            shape = [stop - start for start, stop in window]
            kernels = self._kernels(colors, tuple(shape))
            channels = kernels[1][2].shape[1]
            source = ("energies", np.zeros((math.prod(shape), labels), np.float32), 0.0)
            options = (("potts", []), "lattice", self.preset.normalization, self.threads)
            model = _core.Model(source, shape, kernels, *options)
            most = max(most, _core.tile_bytes_per_pixel(model, channels))
        return most


def cut(array: Any, window: Sequence[tuple], extra: Optional[int]) -> np.ndarray:
    """A window of an array that has all of one more axis; whatever slicing gives, as NumPy."""
    index = [slice(start, stop) for start, stop in window]
    if extra is not None:
        index.insert(extra, slice(None))
    return array[tuple(index)]


_AUTO = "'auto' or "


def _check_sliceable(array: Any, what: str, operation: str) -> None:
    # A memoryview has both, but knows slices along one axis only.
    if isinstance(array, memoryview) or not hasattr(array, "shape") or not hasattr(array, operation):
        raise ArgumentError(
            f"{what} of type {type(array).__name__} has no shape, or no windows can be sliced: np.asarray of it?"
        )


def refine_tiled(
    image: Any,
    probabilities: Any,
    preset: Union[str, os.PathLike, Preset, None] = None,
    *,
    out: Any = None,
    tile: Union[str, int] = "auto",
    halo: Union[str, int, Sequence[int]] = "auto",
    memory: Optional[int] = None,
    label_axis: int = 0,
    channel_axis: Optional[int] = -1,
    data_range: float = 255.0,
    method: Optional[str] = None,
    iterations: Optional[int] = None,
    output: str = "labels",
    threads: Optional[int] = None,
    callback: Optional[Callable[[int, int], Any]] = None,
) -> Any:
    """As `refine` for images that do not fit into memory: tile by tile, each with a halo of its surroundings.

    Parameters
    ----------
    image, probabilities : array-like with a shape and slices
        NumPy arrays, memory maps, zarr arrays, HDF5 data sets, ... Only one tile of them is read at a time.
    preset, label_axis, channel_axis, data_range, threads
        As for `refine`.
    out : array-like with a shape and slices to assign to, optional
        Where the result goes: a memory map or a zarr array, say. By default a new NumPy array.
    tile : "auto" or int
        Side of the tiles in pixels; "auto" is what `memory` allows.
    halo : "auto", int or sequence of int
        Pixels around a tile that it looks at (one number, or one per axis); "auto" is 5 standard deviations of the
        widest kernel, with which no seam is seen.
    memory : int, optional
        Bytes for one tile when `tile` is "auto". By default 1.5 GiB, whatever the machine has: results must not
        depend on it.
    method, iterations : optional
        As for `refine`, but not "auto". Labels are the argmax of the probabilities.
    output : {"labels", "probabilities"}
        What to return.
    callback : callable, optional
        Called after every tile with the number of tiles done and of all.

    Returns
    -------
    array
        `out`, or a new array.

    Examples
    --------
    >>> import numpy as np, relaxcrf
    >>> image = np.zeros((60, 90, 3), np.uint8); image[:, 45:] = 200
    >>> noise = np.random.default_rng(0).uniform(-0.3, 0.3, (60, 90))
    >>> bright = np.where(image[..., 0] > 0, 0.7, 0.3) + noise; p = np.stack([1 - bright, bright])
    >>> labels = relaxcrf.refine_tiled(image, p, tile=32)
    >>> bool((labels == relaxcrf.refine(image, p)).all())
    True
    """
    windows = Windows(preset, label_axis, channel_axis, data_range, method, output, threads, iterations)
    sizes, axis, channel = windows.spatial(image, probabilities)
    labels = probabilities.shape[axis]
    halos = windows.halos(halo, len(sizes))
    limit = optional(whole, memory, "memory", 1)
    callback = optional(function, callback, "callback", "two arguments, the numbers of tiles done and of all")
    out = _destination(out, output, sizes, axis, labels)
    if isinstance(tile, str) and tile == "auto":
        bytes_per_pixel = windows.bytes_per_pixel(image, channel, sizes, labels)
        side = _core.tile_side(bytes_per_pixel, max(halos), len(sizes), limit)
    else:
        side = whole(tile, "tile", 1, instead=_AUTO)
    plan = _core.tile_windows(list(sizes), side, halos)
    for done, (core, outer) in enumerate(plan):
        part = windows.refine(
            cut(image, outer, channel),
            cut(probabilities, outer, axis),
            [start for start, _ in outer],
            sizes,
            check=done == 0,
        )
        inner = [(c[0] - o[0], c[1] - o[0]) for c, o in zip(core, outer)]
        extra = axis if output == "probabilities" else None
        index = [slice(start, stop) for start, stop in core]
        if extra is not None:
            index.insert(extra, slice(None))
        out[tuple(index)] = cut(part, inner, extra)
        if callback is not None:
            callback(done + 1, len(plan))
    return out


def _destination(out: Any, output: str, sizes: tuple, axis: int, labels: int) -> Any:
    """The array to write to, checked."""
    small = np.dtype(np.uint8 if labels <= 256 else np.uint16)
    shape, dtype = sizes, small
    if output == "probabilities":
        shape, dtype = sizes[:axis] + (labels,) + sizes[axis:], np.dtype(np.float32)
    if out is None:
        with room_for("array for the result"):
            return np.empty(shape, dtype)
    _check_sliceable(out, "out", "__setitem__")
    if tuple(out.shape) != shape:
        raise ShapeError(f"out has shape {tuple(out.shape)}, but {size(shape)} is needed for {output}")
    # Of NumPy, and of zarr; what knows neither is asked when the first tile is written.
    if getattr(getattr(out, "flags", None), "writeable", True) is False or getattr(out, "read_only", False) is True:
        raise ArgumentError("out is read-only, but must be writable: the result goes there")
    try:
        given = np.dtype(getattr(out, "dtype", dtype))
    except TypeError as e:
        raise ArgumentError(f"out has a dtype that NumPy does not know: {e}") from e
    # What has no numbers (or True alone) takes labels as well, and makes something else of them.
    if given.kind not in ("iuf" if output == "labels" else "f"):
        raise ArgumentError(f"out has dtype {given}, but {output} need one such as {dtype}")
    if output == "labels" and _largest_whole(given) < labels - 1:
        raise ArgumentError(f"out of dtype {given} cannot hold {labels} labels: use {small}")
    return out


def _largest_whole(dtype: np.dtype) -> int:
    """Up to here a type of numbers holds every whole one."""
    return np.iinfo(dtype).max if dtype.kind in "iu" else 2 ** (np.finfo(dtype).nmant + 1)
