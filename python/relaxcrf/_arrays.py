"""From whatever users have to NumPy arrays, with a copy only where one is needed."""

from __future__ import annotations

import math
import os
import sys
import warnings
from contextlib import contextmanager
from typing import Any, Iterator

import numpy as np

from ._numbers import shown
from .errors import ArgumentError, DtypeError, InputWarning, ShapeError


@contextmanager
def room_for(what: str) -> Iterator[None]:
    """Around whatever takes memory, also as a decorator: an error of ours if there is not as much.

    No decorator for what warns: `warn` looks for the caller, and would find the decorator's own frame.
    """
    try:
        yield
    except MemoryError as e:
        raise ArgumentError(f"{what} is too large, but must be no larger than memory has room for: {e}") from e


@room_for("array to be copied")
def as_array(x: Any, what: str) -> np.ndarray:
    """Any array-like as a NumPy array of numbers; torch, DLPack and buffers without importing anything."""
    if isinstance(x, (str, os.PathLike)):
        raise DtypeError(f"{what} is {shown(x)}, but an array is expected{_how_to_read(x, what)}")
    if not isinstance(x, np.ndarray):
        x = _from_protocol(x, what)
    if x.dtype.kind in "biuf":
        if np.ma.is_masked(x):
            raise ArgumentError(
                f"{what} is a masked array that hides {np.ma.count_masked(x)} of {x.size} values, and what they are "
                "is not known here: give them one with .filled(...)"
            )
        return np.asarray(x)  # without the manners of a subclass such as np.matrix
    if x.dtype.kind == "O":
        raise DtypeError(f"{what} is an array of Python objects, but numbers are needed: ragged rows, or None inside?")
    raise DtypeError(f"{what} has dtype {x.dtype}, but real numbers are needed")


def _how_to_read(path: Any, what: str) -> str:
    """How to read the file that was given in place of an array."""
    name = shown(os.fspath(path))
    ending = os.path.splitext(os.fspath(path))[1]
    if not isinstance(ending, str) or not ending:
        return ""
    if "image" in what or ending.lower() not in (".npy", ".npz"):
        mode = ".convert('RGB')" if "image" in what else ""
        return f": read it first, with numpy.asarray(PIL.Image.open({name}){mode}) or another reader"
    return f": read it first, with numpy.load({name})"


def _from_protocol(x: Any, what: str) -> np.ndarray:
    # torch: a tensor that records gradients, lives on a device or is bfloat16 refuses plain conversion.
    if hasattr(x, "detach") and hasattr(x, "cpu"):
        x = x.detach().cpu()
        if "bfloat16" in str(getattr(x, "dtype", "")):
            x = x.float()
    if hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
        read = np.from_dlpack
    else:
        read = np.asanyarray  # with its mask, if it has one
    try:
        return read(x)
    except (BufferError, TypeError, ValueError) as e:
        raise DtypeError(f"{what} of type {type(x).__name__} cannot be read as an array: {e}") from e


@room_for("array to be copied")
def as_float32(x: Any, what: str) -> np.ndarray:
    """As `as_array`, in the precision that is computed in. No copy of what already is."""
    x = as_array(x, what)
    if x.size > sys.maxsize // 4:  # bytes that NumPy cannot even count
        raise MemoryError(f"{what} of {size(x.shape)} values")
    # Values beyond float32 become infinite, and are refused with their place where they matter.
    with np.errstate(over="ignore"):
        return x.astype(np.float32, copy=False)


def axis_of(axis: Any, ndim: int, name: str, what: str) -> int:
    """A checked axis, counted from the front."""
    if not isinstance(axis, (int, np.integer)) or isinstance(axis, bool) or not -ndim <= axis < ndim:
        raise ShapeError(f"{name} is {shown(axis)}, but {what} has the axes {-ndim} to {ndim - 1}")
    return int(axis) % ndim


@room_for("array to be copied")
def rows_of(x: np.ndarray, axis: int) -> np.ndarray:
    """A view (where possible) with one row per pixel, the values along `axis` in it."""
    moved = np.moveaxis(x, axis, -1)
    return moved.reshape(math.prod(moved.shape[:-1]), moved.shape[-1])  # -1 is no number of rows if these are empty


def from_rows(rows: np.ndarray, shape: tuple, axis: int) -> np.ndarray:
    """The opposite of `rows_of`, without a copy."""
    return np.moveaxis(rows.reshape(*shape, rows.shape[-1]), -1, axis)


@room_for("array to be copied")
def small_labels(labels: np.ndarray, count: int, shape: tuple) -> np.ndarray:
    """Labels in the smallest unsigned type."""
    return labels.astype(np.uint8 if count <= 256 else np.uint16, copy=False).reshape(shape)


def size(shape: tuple) -> str:
    """``45 x 62``."""
    return " x ".join(map(str, shape))


def warn(text: str) -> None:
    """Warns at the line outside of this package that caused it."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("relaxcrf"):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, InputWarning, stacklevel=level)
