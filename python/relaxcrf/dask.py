"""Huge images on a Dask cluster. Needs ``pip install relaxcrf[dask]``.

>>> import dask.array as da, numpy as np, relaxcrf.dask
>>> image = da.zeros((200, 300, 3), chunks=(100, 100, 3), dtype=np.uint8)
>>> probabilities = da.full((2, 200, 300), 0.5, chunks=(2, 100, 100), dtype=np.float32)
>>> labels = relaxcrf.dask.refine(image, probabilities)
>>> labels.shape, labels.chunksize, str(labels.dtype)
((200, 300), (100, 100), 'uint8')
"""

from __future__ import annotations

import os
from typing import Any, Optional, Sequence, Union

import numpy as np

try:
    import dask.array as da
    from dask.array.overlap import overlap
except ImportError as error:  # pragma: no cover - depends on the installation
    raise ImportError("relaxcrf.dask needs Dask: pip install relaxcrf[dask]") from error

from ._refine import Preset
from ._tiles import Windows
from .errors import ArgumentError, ShapeError

__all__ = ["refine"]


def refine(
    image: Any,
    probabilities: Any,
    preset: Union[str, os.PathLike, Preset, None] = None,
    *,
    halo: Union[str, int, Sequence[int]] = "auto",
    label_axis: Union[int, str] = 0,
    channel_axis: Union[int, str, None] = -1,
    data_range: float = 255.0,
    method: Optional[str] = None,
    iterations: Optional[int] = None,
    output: str = "labels",
    threads: Optional[int] = 1,
) -> Any:
    """As `relaxcrf.refine_tiled` on chunked arrays: every chunk is a tile. Lazy; compute or store the result.

    Parameters
    ----------
    image, probabilities : dask array or xarray.DataArray
        Chunks along labels and channels are joined; along the other axes those of `image` are used for both, and
        chunks narrower than the halo are joined with their neighbours. Large chunks waste less on the halo: see
        ``docs/scale.md``.
    preset, data_range, method, iterations
        As for `relaxcrf.refine_tiled`.
    halo : "auto", int or sequence of int
        Pixels around a chunk that it looks at.
    label_axis, channel_axis : int or str
        Where labels and channels are; names of dimensions for xarray.
    output : {"labels", "probabilities"}
        What to return.
    threads : int, optional
        Threads of one task. One, since Dask runs as many tasks as a worker has threads; None for all cores.

    Returns
    -------
    dask array or xarray.DataArray
        Chunked as the image. With xarray input a DataArray with the coordinates of the pixels.
    """
    labels_of, pixels_of = _unwrapped(probabilities, "probabilities"), _unwrapped(image, "image")
    label_axis = _named(probabilities, label_axis, "label_axis", "probabilities")
    if not _is_xarray(image) or not isinstance(channel_axis, str) or channel_axis in image.dims:
        channel_axis = _named(image, channel_axis, "channel_axis", "image")
    windows = Windows(preset, label_axis, channel_axis, data_range, method, output, threads, iterations)
    sizes, label, channel = windows.spatial(pixels_of, labels_of)
    result = _refine(pixels_of, labels_of, windows, sizes, label, channel, windows.halos(halo, len(sizes)))
    if _is_xarray(image) or _is_xarray(probabilities):
        return _wrapped(result, image, probabilities, output, label, channel)
    return result


def _refine(
    image: Any, probabilities: Any, windows: Windows, sizes: tuple, label: int, channel: Optional[int], halos: list
) -> Any:
    asked = _without(image.chunks, channel)
    chunks = [_at_least(sizes, halo) for sizes, halo in zip(asked, halos)]
    image = image.rechunk(_with(chunks, channel, -1))
    probabilities = probabilities.rechunk(_with(chunks, label, -1))

    # Letters for the axes of the image's pixels, its channels and the labels.
    space = tuple(f"x{k}" for k in range(len(sizes)))
    arguments: list = []
    for array, extra, name in ((image, channel, "c"), (probabilities, label, "l")):
        index = list(space)
        if extra is not None:
            index.insert(extra, name)
        # An axis in one chunk has no neighbours to look at, and may well be shorter than the halo.
        depth = {k: _depth(chunks, halos, space, x) for k, x in enumerate(index)}
        widened = overlap(array, depth=depth, boundary={k: "none" for k in depth}, allow_rechunk=False)
        arguments += [widened, tuple(index)]
    for k, (axis_chunks, halo) in enumerate(zip(chunks, halos)):
        arguments += [_places(axis_chunks, halo), (space[k], f"p{k}")]

    labels = probabilities.shape[label]
    out_index, dtype = space, np.dtype(np.uint8 if labels <= 256 else np.uint16)
    if windows.output == "probabilities":
        out_index, dtype = space[:label] + ("l",) + space[label:], np.dtype(np.float32)
    result = da.blockwise(
        _refine_chunk,
        out_index,
        *arguments,
        windows=windows,
        whole=sizes,
        label=label if windows.output == "probabilities" else None,
        name=f"refine-{_token(image, probabilities, windows, halos)}",
        concatenate=True,
        align_arrays=False,
        adjust_chunks={x: tuple(c) for x, c in zip(space, chunks)},
        dtype=dtype,
        meta=np.empty((0,) * len(out_index), dtype),
    )
    back = _with(asked, label, -1) if windows.output == "probabilities" else asked
    return result.rechunk(tuple(back))


def _refine_chunk(
    image: np.ndarray, probabilities: np.ndarray, *places: np.ndarray, windows: Windows, whole: tuple, label: Optional[int]
) -> np.ndarray:
    """One chunk with its halo; the halo is cut off again."""
    origin, core = [], []
    for place in places:
        start, before, length = (int(v) for v in place.reshape(3))
        origin.append(start)
        core.append(slice(before, before + length))
    if label is not None:
        core.insert(label, slice(None))
    part = windows.refine(image, probabilities, origin, whole, check=not any(origin))
    return np.ascontiguousarray(part[tuple(core)])


def _depth(chunks: list, halos: list, space: tuple, name: str) -> int:
    if name not in space or len(chunks[space.index(name)]) == 1:
        return 0
    return halos[space.index(name)]


def _places(chunks: Sequence[int], halo: int) -> Any:
    """For every chunk along an axis: where its halo begins, how wide that is in front, and the chunk's length."""
    starts = np.concatenate([[0], np.cumsum(chunks)[:-1]]).astype(np.int64)
    before = np.minimum(starts, halo)
    table = np.stack([starts - before, before, np.asarray(chunks, np.int64)], axis=1)
    return da.from_array(table, chunks=(1, 3))


def _at_least(chunks: Sequence[int], halo: int) -> tuple:
    """Chunks joined from left to right until each is as wide as the halo, which comes from direct neighbours only."""
    joined: list = []
    pending = 0
    for chunk in chunks:
        pending += int(chunk)
        if pending >= max(halo, 1):
            joined.append(pending)
            pending = 0
    if pending and joined:
        joined[-1] += pending
    elif pending:
        joined.append(pending)
    return tuple(joined)


def _token(image: Any, probabilities: Any, windows: Windows, halos: list) -> str:
    from dask.base import tokenize

    return tokenize(image.name, probabilities.name, vars(windows), halos)


def _without(chunks: tuple, axis: Optional[int]) -> list:
    return [c for k, c in enumerate(chunks) if k != axis]


def _with(chunks: Sequence, axis: Optional[int], value: Any) -> tuple:
    chunks = list(chunks)
    if axis is not None:
        chunks.insert(axis, value)
    return tuple(chunks)


def _is_xarray(array: Any) -> bool:
    return hasattr(array, "dims") and hasattr(array, "coords") and hasattr(array, "isel")


def _unwrapped(array: Any, what: str) -> Any:
    """The dask array inside; plain arrays become one."""
    array = array.data if _is_xarray(array) else array
    if not hasattr(array, "shape"):
        raise ArgumentError(f"{what} of type {type(array).__name__} is no array")
    array = array if isinstance(array, da.Array) else da.from_array(array)
    if any(np.isnan(s) for s in array.shape):
        raise ShapeError(f"{what} has chunks of unknown size: call compute_chunk_sizes() on it first")
    return array


def _named(array: Any, axis: Union[int, str, None], name: str, what: str) -> Any:
    if not isinstance(axis, str):
        return axis
    if not _is_xarray(array):
        raise ArgumentError(f"{name} is {axis!r}, but {what} has no named dimensions: give a number")
    if axis not in array.dims:
        raise ArgumentError(f"{name} is {axis!r}, but {what} has the dimensions {', '.join(map(str, array.dims))}")
    return list(array.dims).index(axis)


def _wrapped(result: Any, image: Any, probabilities: Any, output: str, label: int, channel: Optional[int]) -> Any:
    """The result with the dimensions and coordinates of the input."""
    import xarray

    if output == "probabilities" and _is_xarray(probabilities):
        return probabilities.copy(data=result)
    if _is_xarray(image):
        like = image if channel is None else image.isel({image.dims[channel]: 0}, drop=True)
    else:
        like = probabilities.isel({probabilities.dims[label]: 0}, drop=True)
    dims, coords = list(like.dims), like.coords
    if output == "probabilities":
        dims.insert(label, "label")
    return xarray.DataArray(result, dims=dims, coords=coords, name=output)
