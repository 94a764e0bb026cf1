"""The classes and constants of ``pydensecrf.densecrf``, with the same numbers out.

Beyond pydensecrf: any dtype, layout and read-only arrays are accepted, results are real NumPy arrays, the
interpreter lock is released, objects pickle, and bad input is an error instead of a crash.

Two things to know about `compat`, as in pydensecrf: a number smooths when positive; one number per label is taken
as it is, so it smooths when *negative*; a matrix of penalties smooths when positive off the diagonal.
"""

from __future__ import annotations

import sys
from enum import IntEnum
from numbers import Number
from typing import Any, Optional

import numpy as np

from ... import _core
from ..._arrays import as_array, as_float32, room_for
from ..._kernels import numbers
from ..._numbers import MOST_LABELS, MOST_POINTS, number, truncated, whole
from ...errors import ArgumentError, ShapeError

__all__ = [
    "CONST_KERNEL",
    "ConstUnary",
    "DIAG_KERNEL",
    "DenseCRF",
    "DenseCRF2D",
    "FULL_KERNEL",
    "KernelType",
    "LogisticUnary",
    "NORMALIZE_AFTER",
    "NORMALIZE_BEFORE",
    "NORMALIZE_SYMMETRIC",
    "NO_NORMALIZATION",
    "NormalizationType",
    "Unary",
]


class KernelType(IntEnum):
    """How kernels would be learned; all behave the same in inference."""

    CONST_KERNEL = 0
    DIAG_KERNEL = 1
    FULL_KERNEL = 2


class NormalizationType(IntEnum):
    """How a kernel is normalised."""

    NO_NORMALIZATION = 0
    NORMALIZE_BEFORE = 1
    NORMALIZE_AFTER = 2
    NORMALIZE_SYMMETRIC = 3


CONST_KERNEL = KernelType.CONST_KERNEL
DIAG_KERNEL = KernelType.DIAG_KERNEL
FULL_KERNEL = KernelType.FULL_KERNEL
NO_NORMALIZATION = NormalizationType.NO_NORMALIZATION
NORMALIZE_BEFORE = NormalizationType.NORMALIZE_BEFORE
NORMALIZE_AFTER = NormalizationType.NORMALIZE_AFTER
NORMALIZE_SYMMETRIC = NormalizationType.NORMALIZE_SYMMETRIC

_NORMALIZATIONS = ("none", "before", "after", "symmetric")


class Unary:
    """Base class of unary energies for `DenseCRF.setUnary`."""

    _energies: np.ndarray


class ConstUnary(Unary):
    """Energies as they are, labels x points."""

    def __init__(self, u: Any) -> None:
        self._energies = _matrix(u, "u")


class LogisticUnary(Unary):
    """Energies ``L @ f`` of a linear classifier: labels x features, features x points."""

    def __init__(self, L: Any, f: Any) -> None:
        self._energies = _product(_matrix(L, "L"), _matrix(f, "f"), "L")


class DenseCRF:
    """A dense CRF on any points. ``DenseCRF(nvar, nlabels)``."""

    def __init__(self, nvar: int, nlabels: int, *_: Any, **__: Any) -> None:
        self._create(truncated(nvar, "nvar", 1, MOST_POINTS), nlabels)

    def _create(self, nvar: int, nlabels: int) -> None:
        self._nvar, self._nlabel = nvar, truncated(nlabels, "nlabels", 1, MOST_LABELS)
        self._core = self._new_core()
        self._unary: Optional[np.ndarray] = None
        self._terms: list = []

    def _new_core(self) -> _core.DenseCrf:
        return _core.DenseCrf([self._nvar], self._nlabel)

    def setUnary(self, u: Unary) -> None:
        """Sets the unary energies from a `ConstUnary` or `LogisticUnary`."""
        if not isinstance(u, Unary):
            raise TypeError(f"Argument 'u' has incorrect type (expected Unary, got {type(u).__name__})")
        self.setUnaryEnergy(u._energies)

    def setUnaryEnergy(self, u: Any, f: Any = None) -> None:
        """Sets the unary energies, labels x points (or labels x height x width); with `f`, to ``u @ f``."""
        u = _matrix(u, "u", self._nlabel)
        if f is not None:
            u = _product(u, _matrix(f, "f"), "u")
        need = (self._nlabel, self._nvar)
        if u.shape != need:
            raise ValueError("Bad shape for unary energy (Need {}, got {})".format(need, u.shape))
        self._core.set_unary(("energies", u.T, 0.0))
        self._unary = u

    def addPairwiseEnergy(
        self,
        features: Any,
        compat: Any,
        kernel: int = DIAG_KERNEL,
        normalization: int = NORMALIZE_SYMMETRIC,
    ) -> None:
        """Adds a kernel on features x points, already divided by standard deviations."""
        features = _matrix(features, "features")
        if features.shape[1] != self._nvar:
            raise ValueError(
                "Bad shape for pairwise energy (Need (?, {}), got {})".format(self._nvar, features.shape)
            )
        self._add(("features", [], features.T, []), compat, kernel, normalization)

    def _add(self, what: tuple, compat: Any, kernel: int, normalization: int) -> None:
        whole(kernel, "kernel", 0, len(KernelType) - 1)
        kind = _NORMALIZATIONS[whole(normalization, "normalization", 0, len(_NORMALIZATIONS) - 1)]
        term = (*what, _compatibility(compat, self._nlabel), kind)
        self._core.add_kernel(*term)
        self._terms.append(term)

    def inference(self, niter: int) -> np.ndarray:
        """Beliefs after `niter` mean-field updates: labels x points, float32, columns contiguous."""
        return self._core.inference(max(truncated(niter, "niter", -sys.maxsize), 0)).T

    def startInference(self) -> tuple:
        """The first beliefs, and two arrays that `stepInference` takes for old times' sake."""
        return self._core.inference(0).T, np.empty((0, 0), np.float32), np.empty((0, 0), np.float32)

    def stepInference(self, Q: Any, tmp1: Any = None, tmp2: Any = None) -> None:
        """One update of `Q` in place."""
        Q = _in_place(Q, "Q")
        if Q.shape != (self._nlabel, self._nvar):
            raise ShapeError(f"Q has shape {Q.shape}, but ({self._nlabel}, {self._nvar}), labels x points, is needed")
        if Q.dtype == np.float32 and Q.flags.aligned:
            self._core.step(Q.T)
        else:
            with room_for("array to be copied"):
                work = Q.astype(np.float32)
            self._core.step(work.T)
            Q[...] = work

    def klDivergence(self, Q: Any) -> float:
        """``sum Q log Q + sum U Q + sum_k <Q, message_k>``, which lacks log Z: negative values are normal."""
        return self._core.divergence(_matrix(Q, "Q").T)

    def __getstate__(self) -> dict:
        return {k: v for k, v in self.__dict__.items() if k != "_core"}

    def __setstate__(self, state: dict) -> None:
        self.__dict__.update(state)
        self._core = self._new_core()
        if self._unary is not None:
            self._core.set_unary(("energies", self._unary.T, 0.0))
        for term in self._terms:
            self._core.add_kernel(*term)


class DenseCRF2D(DenseCRF):
    """A dense CRF on an image: ``DenseCRF2D(width, height, nlabels)``, width first."""

    def __init__(self, w: int, h: int, nlabels: int, *_: Any, **__: Any) -> None:
        self._w, self._h = truncated(w, "w", 1, MOST_POINTS), truncated(h, "h", 1, MOST_POINTS)
        self._create(self._w * self._h, nlabels)

    def _new_core(self) -> _core.DenseCrf:
        return _core.DenseCrf([self._h, self._w], self._nlabel)

    def addPairwiseGaussian(
        self, sxy: Any, compat: Any, kernel: int = DIAG_KERNEL, normalization: int = NORMALIZE_SYMMETRIC
    ) -> None:
        """Adds a kernel on position; `sxy` is one standard deviation in pixels, or (x, y)."""
        self._add(("gaussian", _deviations(sxy, "sxy", 2), None, []), compat, kernel, normalization)

    def addPairwiseBilateral(
        self,
        sxy: Any,
        srgb: Any,
        rgbim: Any,
        compat: Any,
        kernel: int = DIAG_KERNEL,
        normalization: int = NORMALIZE_SYMMETRIC,
    ) -> None:
        """Adds a kernel on position and colour; `rgbim` is height x width x 3."""
        image = as_array(rgbim, "rgbim")
        need = (self._h, self._w, 3)
        if image.ndim != 3 or image.shape[:2] != need[:2]:
            raise ValueError("Bad shape for pairwise bilateral (Need {}, got {})".format(need, image.shape))
        if image.shape[2] != 3:
            raise ValueError(
                "addPairwiseBilateral only works for RGB images. For other images make features with "
                "`utils.create_pairwise_bilateral` and give them to `addPairwiseEnergy`."
            )
        colors = (image if image.dtype == np.uint8 else as_float32(image, "rgbim")).reshape(-1, 3)
        if np.shares_memory(colors, image):
            colors = colors.copy()  # kept for pickling, so not the caller's
        what = ("bilateral", _deviations(sxy, "sxy", 2), colors, _deviations(srgb, "srgb", 3))
        self._add(what, compat, kernel, normalization)


def _deviations(given: Any, name: str, count: int) -> list:
    """So many deviations, from one for all or from the first ones of a sequence."""
    values = numbers(given, name)
    if isinstance(given, Number) or as_array(given, name).ndim == 0:
        return values * count
    if len(values) < count:
        raise ArgumentError(f"{name} has {len(values)} values, but must have {count}, or be one number")
    return values[:count]


def _matrix(x: Any, what: str, flatten: Optional[int] = None) -> np.ndarray:
    """A two-dimensional float32 array; more axes are flattened behind `flatten` first ones."""
    if x is None:
        raise TypeError(f"Argument '{what}' must not be None")
    array = as_float32(x, what)
    if array.ndim > 2 and flatten is not None and array.shape[0] == flatten:
        array = array.reshape(flatten, -1)
    if array.ndim != 2:
        raise ValueError("Buffer has wrong number of dimensions (expected 2, got {})".format(array.ndim))
    return array


@room_for("array to be copied")
def _product(weights: np.ndarray, features: np.ndarray, what: str) -> np.ndarray:
    """Energies of a linear classifier."""
    if weights.shape[1] != features.shape[0]:
        raise ShapeError(
            f"{what} has shape {weights.shape} and f {features.shape}, but labels x features and features x points "
            "are needed"
        )
    return weights @ features


_IN_PLACE = "it is updated in place"


def _in_place(x: Any, what: str) -> np.ndarray:
    """An array to update, with the memory of what was given."""
    array = as_array(x, what)
    # A list or a tensor of a GPU is copied anew each time, and whoever gave it would never see the update.
    if not np.may_share_memory(array, as_array(x, what)):
        raise ArgumentError(f"{what} is a {type(x).__name__}, but must be an array that can be written: {_IN_PLACE}")
    if not array.flags.writeable:
        raise ArgumentError(f"{what} is read-only, but must be writable: {_IN_PLACE}")
    if array.dtype.kind != "f":
        raise ArgumentError(f"{what} has dtype {array.dtype}, but must be one of floats: {_IN_PLACE}")
    return array


def _compatibility(compat: Any, labels: int) -> list:
    """One number, one per label, or a symmetric matrix row by row."""
    if isinstance(compat, Number):
        return [number(compat, "compat")]
    array = as_float32(compat, "compat")
    if array.ndim == 0:
        return [float(array)]
    if array.ndim > 2:
        raise ValueError("LabelCompatibility of dimension >2 not meaningful.")
    if array.shape != (labels,) * array.ndim:
        raise ValueError(
            "Bad shape for compatibility (Need {} or {}, got {})".format((labels,), (labels, labels), array.shape)
        )
    return (array if array.ndim == 1 else (array + array.T) / 2).ravel().tolist()
