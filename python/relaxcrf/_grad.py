"""Beliefs after mean-field updates, and the gradients of any function of them. NumPy is all it needs."""

from __future__ import annotations

from typing import Any, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _core
from ._arrays import as_array, axis_of, from_rows, rows_of, size
from ._kernels import Bilateral, Features, Gaussian, Kernel
from ._model import parse_compatibility
from ._numbers import one_of, shown, whole
from .errors import ArgumentError, ShapeError

# Labels with less belief everywhere send no messages on lattices: the logits change by about as much times the weights.
_NEGLIGIBLE_BELIEF = 1e-4
# Beliefs of updates that are kept, in bytes; beyond it some are computed again.
_MEMORY = 1 << 31
# Most updates, so that a misprint does not run for ever.
_MOST_UPDATES = 10_000


class Gradients(NamedTuple):
    """Gradients of a function of the beliefs; every field has the shape of what it belongs to.

    ``unary`` is an array like the energies. ``weights`` holds one number per kernel. ``sigmas`` holds for each kernel what
    its constructor took: ``(sigma,)`` of a `Gaussian`, ``(sigma_xy, sigma_rgb)`` of a `Bilateral`, ``()`` of `Features`.
    ``features`` holds for each kernel None, the gradient of the image (`Bilateral`), or that of the array (`Features`).
    ``compatibility`` belongs to the label costs: one number per label, a matrix, or None for Potts costs.
    """

    unary: np.ndarray
    weights: np.ndarray
    sigmas: list
    features: list
    compatibility: Optional[np.ndarray]


def positions(shape: Sequence[int], dtype: Any = np.float32) -> np.ndarray:
    """Grid coordinates, one row per pixel, x (the last axis) first."""
    axes = np.meshgrid(*[np.arange(n, dtype=dtype) for n in shape], indexing="ij")
    return np.stack([axis.ravel() for axis in axes[::-1]], axis=1)


def _rows_of_kernel(kernel: Kernel, shape: tuple, labels: int, dtype: Any) -> np.ndarray:
    """The kernel's features, divided by their deviations."""
    kernel._specification(shape, labels)  # checks
    if isinstance(kernel, Features):
        array = np.asarray(kernel.array, dtype)
        return np.ascontiguousarray(array.reshape(int(np.prod(shape)), -1))
    places = positions(shape, dtype)
    if isinstance(kernel, Gaussian):
        return places / np.asarray(kernel.sigma, dtype)
    if not isinstance(kernel, Bilateral):
        raise ArgumentError(f"kernel is {shown(kernel)}, but must be a Gaussian, Bilateral or Features")
    colors = np.asarray(rows_of(np.asarray(kernel.image, dtype), _channels(kernel, shape)), dtype)
    return np.concatenate([places / np.asarray(kernel.sigma_xy, dtype), colors / np.asarray(kernel.sigma_rgb, dtype)], axis=1)


def _channels(kernel: Bilateral, shape: tuple) -> int:
    if kernel.image.ndim == len(shape):
        raise ArgumentError("the image has no channel axis, but gradients need one: pass image[..., None]")
    return axis_of(kernel.channel_axis, kernel.image.ndim, "channel_axis", "the image")


def _sum_to(values: np.ndarray, given: list) -> np.ndarray:
    """Gradients of one number for all axes, or of one for each."""
    return np.array([values.sum()]) if len(given) == 1 else values


def grad(
    unary: Any,
    kernels: Union[Kernel, Sequence[Kernel]],
    *,
    compatibility: Any = "potts",
    updates: int = 5,
    converged: bool = False,
    label_axis: int = 0,
    normalization: str = "symmetric",
    filter: Optional[str] = None,
    dtype: Any = np.float32,
    threads: Optional[int] = None,
) -> tuple:
    """Runs mean-field updates and returns the beliefs and a function that returns gradients.

    Parameters
    ----------
    unary : array
        Energies (lower is better), labels x height x width, or with other axes.
    kernels : sequence of Gaussian, Bilateral or Features
        As for `Model`.
    compatibility : str or array
        ``"potts"``, one cost per label, or a symmetric matrix with zeros on the diagonal.
    updates : int
        Number of mean-field updates, as in ``"mf5"``.
    converged : bool
        Whether gradients are those of the fixed point, which `updates` must have reached; they take no more memory for
        more updates.
    filter : {"lattice-classic", "lattice", "exact"}, optional
        By default ``"lattice-classic"`` in single precision. Double precision needs ``"exact"``, whose cost is quadratic.
    dtype : dtype
        ``np.float32``, or ``np.float64`` for checks on small problems.

    Returns
    -------
    beliefs : array
        Shaped as `unary`.
    backward : function
        From the gradient of a function with respect to the beliefs to `Gradients`. Its option ``features=True`` also
        returns the gradients of images and feature arrays.

    Examples
    --------
    >>> import numpy as np, relaxcrf
    >>> rng = np.random.default_rng(0)
    >>> unary, image = rng.normal(size=(3, 8, 9)), rng.uniform(0, 255, (8, 9, 3))
    >>> kernels = [relaxcrf.Gaussian(2, 0.5), relaxcrf.Bilateral(image, 5, 40, 1.0)]
    >>> beliefs, backward = relaxcrf.grad(unary, kernels)
    >>> beliefs.shape, backward(np.ones_like(beliefs)).weights.shape
    ((3, 8, 9), (2,))
    """
    dtype = np.dtype(dtype)
    if dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ArgumentError(f"dtype is {dtype}, but must be float32 or float64")
    filter = filter or ("exact" if dtype == np.float64 else "lattice-classic")
    one_of(filter, "filter", "exact", "lattice", "lattice-classic")
    updates = whole(updates, "updates", 0, _MOST_UPDATES)
    unary = as_array(unary, "unary energies")
    axis = axis_of(label_axis, unary.ndim, "label_axis", "unary energies")
    shape = unary.shape[:axis] + unary.shape[axis + 1 :]
    labels = unary.shape[axis]
    kernels = [kernels] if hasattr(kernels, "_specification") else list(kernels)
    kind, values = parse_compatibility(compatibility, labels)
    if kind == "linear":
        raise ArgumentError(f"compatibility is {shown(compatibility)}, but gradients need 'potts', weights or a matrix")
    if kind != "potts":
        values = as_array(compatibility, "compatibility").astype(float).ravel().tolist()  # in double precision
    rows = np.ascontiguousarray(rows_of(unary.astype(dtype, copy=False), axis))
    features = [_rows_of_kernel(kernel, shape, labels, dtype) for kernel in kernels]
    weights = [float(kernel.weight) for kernel in kernels]
    negligible = 0.0 if filter == "exact" else _NEGLIGIBLE_BELIEF
    run = _core.Unrolled(
        rows, features, weights, (kind, values), normalization, filter, updates, bool(converged), negligible, _MEMORY, threads
    )

    def backward(of_beliefs: Any, *, features: bool = False) -> Gradients:
        given = as_array(of_beliefs, "gradient of the beliefs")
        if given.shape != unary.shape:
            raise ShapeError(f"gradient of the beliefs is {size(given.shape)}, but the beliefs are {size(unary.shape)}")
        own = np.ascontiguousarray(rows_of(given.astype(dtype, copy=False), axis))
        asked = ["rows" if features or isinstance(k, Features) else "widths" for k in kernels]
        found = run.gradients(own, asked, threads)
        sigmas, of_features = [], []
        for kernel, logs, rows in zip(kernels, found["log_widths"], found["features"]):
            sigmas.append(_sigmas(kernel, logs, len(shape)))
            of_features.append(_of_features(kernel, rows, shape) if features else None)
        return Gradients(
            from_rows(found["unary"], shape, axis),
            np.asarray(found["weights"]),
            sigmas,
            of_features,
            _of_costs(kind, found["costs"]),
        )

    return from_rows(run.beliefs(), shape, axis), backward


def _sigmas(kernel: Kernel, logs: np.ndarray, axes: int) -> tuple:
    """Gradients of deviations from those of their logarithms."""
    if isinstance(kernel, Gaussian):
        return (_sum_to(logs, kernel.sigma) / np.array(kernel.sigma),)
    if isinstance(kernel, Bilateral):
        place = _sum_to(logs[:axes], kernel.sigma_xy) / np.array(kernel.sigma_xy)
        return (place, _sum_to(logs[axes:], kernel.sigma_rgb) / np.array(kernel.sigma_rgb))
    return ()


def _of_features(kernel: Kernel, rows: np.ndarray, shape: tuple) -> Optional[np.ndarray]:
    """Gradients of what a kernel's features were made from."""
    if isinstance(kernel, Bilateral):
        colors = rows[:, len(shape) :] / np.array(kernel.sigma_rgb)
        return from_rows(colors, shape, _channels(kernel, shape))
    if isinstance(kernel, Features):
        return rows.reshape(kernel.array.shape)
    return None


def _of_costs(kind: str, entries: np.ndarray) -> Optional[np.ndarray]:
    """The gradient of label costs as they were given, from that of every entry of their matrix."""
    both = entries + entries.T
    np.fill_diagonal(both, 0.0)
    if kind == "potts":
        return None
    return both.sum(1) / 2 if kind == "per-label" else both / 2

