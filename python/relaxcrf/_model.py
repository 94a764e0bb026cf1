"""The problem: unary energies, kernels, label compatibilities."""

from __future__ import annotations

from typing import Any, Iterator, Optional, Sequence, Union

import numpy as np

from . import _core
from ._arrays import as_array, as_float32, axis_of, from_rows, room_for, rows_of, size, warn
from ._inputs import both_labels, check_energies, check_probabilities, with_background
from ._kernels import Bilateral, Kernel, parse_compatibility, restricted_compatibility
from ._numbers import MOST_LABELS, check_labels, check_points, flag, number, optional, shown, text, whole
from .errors import ArgumentError, DtypeError, ShapeError

_SUM_TOLERANCE = 0.02


class Model:
    """A dense CRF: everything that defines the energy of a labelling. Immutable.

    ``E(x) = sum_a unary[x_a, a] + sum_a sum_{b != a} compatibility[x_a, x_b] K_ab``, where every pair of pixels is
    connected and counts twice, once from each end, and K is the weighted sum of the kernels.

    Parameters
    ----------
    unary : array
        Energies (lower is better), labels x height x width, or labels x depth x height x width, or labels x points.
        ``inf`` forbids a label. See `from_probabilities`, `from_scores` and `from_labels` for other inputs.
    kernels : sequence of Gaussian, Bilateral or Features
        What makes two pixels want the same label.
    compatibility : str or array
        ``"potts"``, ``"linear"``, ``"linear:T"`` (truncated at T), ``"quadratic"``, ``"quadratic:T"``, one weight per
        label, or a symmetric matrix of costs.
    label_axis : int
        Where the labels are in `unary`, and in the probabilities of results.
    filter : {"auto", "lattice", "lattice-classic", "separable", "exact"}
        The operator that stands behind the kernels. Energies are energies of that operator.
    normalization : {"symmetric", "none", "before", "after"}
        How each kernel is normalised. Published parameters are for ``"symmetric"``.
    threads : int, optional
        Threads used to build the filters.

    Examples
    --------
    >>> import numpy as np, relaxcrf
    >>> unary = np.random.default_rng(0).random((3, 20, 30))
    >>> image = np.zeros((20, 30, 3), np.uint8)
    >>> model = relaxcrf.Model(unary, [relaxcrf.Gaussian(3, 1.5), relaxcrf.Bilateral(image, 80, 13, 5)])
    >>> model
    Model(20 x 30 pixels, 3 labels, potts, symmetric; gaussian 3:1.5 [lattice], bilateral 80:13:5 [lattice])
    >>> bool(np.isclose(model.energy(np.zeros((20, 30), int)), unary[0].sum()))
    True
    """

    def __init__(
        self,
        unary: Any,
        kernels: Sequence[Kernel] = (),
        compatibility: Union[str, Any] = "potts",
        label_axis: int = 0,
        filter: str = "auto",
        normalization: str = "symmetric",
        threads: Optional[int] = None,
    ) -> None:
        unary = as_float32(unary, "unary energies")
        axis = check_label_axis(unary, label_axis, "unary energies")
        check_energies(unary, axis)
        compatibility = parse_compatibility(compatibility, unary.shape[axis])
        source = ("energies", rows_of(unary, axis), 0.0)
        shape, labels = _without(unary.shape, axis), unary.shape[axis]
        self._build(source, labels, shape, axis, kernels, compatibility, filter, normalization, threads)

    def _build(
        self,
        source: tuple,
        labels: int,
        shape: tuple,
        axis: int,
        kernels: Sequence[Kernel],
        compatibility: tuple,
        filter: str,
        normalization: str,
        threads: Optional[int] = None,
        learned: Optional[tuple] = None,
    ) -> None:
        if hasattr(kernels, "_specification"):
            kernels = [kernels]  # type: ignore[list-item]
        kernels = list(_each_kernel(kernels))
        self._shape, self._axis, self._filter = tuple(shape), axis, text(str(filter), "filter")
        self._labels = labels
        self._compatibility = compatibility
        self._core = _core.Model(
            source,
            list(shape),
            [kernel._specification(self._shape, labels) for kernel in kernels],
            self._compatibility,
            self._filter,
            text(str(normalization), "normalization"),
            threads,
            None,
            learned,
        )

    @classmethod
    def from_probabilities(
        cls, probabilities: Any, kernels: Sequence[Kernel] = (), *, clip: float = 1e-5, label_axis: int = 0, **options: Any
    ) -> "Model":
        """A model with energies ``-log p``; probabilities below `clip` are raised to it.

        Examples
        --------
        >>> import numpy as np, relaxcrf
        >>> p = np.random.default_rng(0).dirichlet([1, 1], size=(4, 5))
        >>> relaxcrf.Model.from_probabilities(p, [relaxcrf.Gaussian(2)], label_axis=-1).labels
        2
        """
        clip = number(clip, "clip")
        if hasattr(kernels, "_specification"):
            kernels = [kernels]  # type: ignore[list-item]
        kernels = list(_each_kernel(kernels))
        probabilities = as_array(probabilities, "probabilities")
        for kernel in kernels:
            if isinstance(kernel, Bilateral):
                probabilities = with_background(kernel.image, probabilities, label_axis, kernel.channel_axis)
        rows, shape, axis = probability_rows(probabilities, label_axis)
        return cls._of_source(("probabilities", rows, clip), rows.shape[1], shape, axis, kernels, options)

    @classmethod
    def from_scores(
        cls, scores: Any, kernels: Sequence[Kernel] = (), *, label_axis: int = 0, **options: Any
    ) -> "Model":
        """A model with energies ``-log softmax(scores)``: logits of a network, or any "higher is better"."""
        scores = as_float32(scores, "scores")
        axis = check_label_axis(scores, label_axis, "scores")
        source, shape = ("scores", rows_of(scores, axis), 0.0), _without(scores.shape, axis)
        return cls._of_source(source, scores.shape[axis], shape, axis, kernels, options)

    @classmethod
    def from_labels(
        cls,
        labels: Any,
        n_labels: int,
        kernels: Sequence[Kernel] = (),
        *,
        confidence: float = 0.7,
        unsure: Optional[int] = None,
        label_axis: int = 0,
        **options: Any,
    ) -> "Model":
        """A model from hard labels that are right with probability `confidence`.

        Pixels marked `unsure` have no preference.

        Examples
        --------
        >>> import numpy as np, relaxcrf
        >>> scribbles = np.full((4, 5), 255); scribbles[1, 1] = 0; scribbles[3, 3] = 1
        >>> relaxcrf.Model.from_labels(scribbles, 2, [relaxcrf.Gaussian(2)], unsure=255).shape
        (4, 5)
        """
        n_labels = whole(n_labels, "n_labels", 1, MOST_LABELS)
        confidence = number(confidence, "confidence")
        unsure = optional(whole, unsure, "unsure", 0, MOST_LABELS)
        array = as_array(labels, "labels")
        axis = axis_of(label_axis, array.ndim + 1, "label_axis", "the model")
        source = (label_values(array, MOST_LABELS), n_labels, confidence, unsure)
        return cls._of_source(source, n_labels, array.shape, axis, kernels, options)

    @classmethod
    def _of_source(
        cls,
        source: tuple,
        labels: int,
        shape: tuple,
        axis: int,
        kernels: Sequence[Kernel],
        options: dict,
        learned: Optional[tuple] = None,
    ) -> "Model":
        model = cls.__new__(cls)
        defaults = {"compatibility": "potts", "filter": "auto", "normalization": "symmetric", "threads": None}
        unknown = set(options) - set(defaults)
        if unknown:
            raise TypeError(f"unknown arguments: {', '.join(sorted(unknown))}; known: {', '.join(defaults)}")
        options = {**defaults, **options}
        options["compatibility"] = parse_compatibility(options["compatibility"], labels)
        model._build(source, labels, tuple(shape), axis, kernels, **options, learned=learned)
        return model

    def with_unary(self, unary: Any, threads: Optional[int] = None) -> "Model":
        """The same kernels and labels with other energies. The filters, the expensive part, are shared."""
        unary = as_float32(unary, "unary energies")
        axis = check_label_axis(unary, self._axis, "unary energies")
        check_energies(unary, axis)
        if _without(unary.shape, axis) != self._shape or unary.shape[axis] != self.labels:
            raise ShapeError(
                f"unary energies have shape {unary.shape}, but {self.labels} labels on axis {self._axis} and "
                f"{size(self._shape)} pixels are needed"
            )
        model = type(self).__new__(type(self))
        model.__dict__.update(self.__dict__)
        model._core = self._core.with_unary(rows_of(unary, axis), threads)
        return model

    def restrict(self, labels: Sequence[int]) -> "Model":
        """The same problem with some of the labels only, in the order given. The filters are shared.

        Examples
        --------
        >>> import numpy as np, relaxcrf
        >>> unary = np.random.default_rng(0).random((5, 4, 6))
        >>> relaxcrf.Model(unary, [relaxcrf.Gaussian(2)]).restrict([0, 3]).labels
        2
        """
        keep = [whole(label, "labels", 0, self.labels - 1) for label in labels]
        model = type(self).__new__(type(self))
        model.__dict__.update(self.__dict__)
        model._compatibility = restricted_compatibility(self._compatibility, self.labels, keep)
        model._core = self._core.restrict(keep)
        model._labels = len(keep)
        return model

    @property
    def shape(self) -> tuple:
        """Sizes of the grid, such as (height, width)."""
        return self._shape

    @property
    def labels(self) -> int:
        """Number of labels."""
        return self._labels

    @property
    def label_axis(self) -> int:
        """Where labels are in arrays of energies and probabilities."""
        return self._axis

    @property
    def normalization(self) -> str:
        """How each kernel is normalised."""
        return self._core.normalization

    @property
    def unary(self) -> np.ndarray:
        """The energies (a copy), labels on `label_axis`."""
        return from_rows(self._core.unary(), self._shape, self._axis)

    @property
    def kernels(self) -> list:
        """For every kernel: its text, the filter behind it and the filter's size."""
        return self._core.describe()

    def energy(self, labels: Any, exact: bool = False, threads: Optional[int] = None) -> float:
        """The energy of a labelling.

        Parameters
        ----------
        labels : array of int
            One label per pixel, in the model's shape or flat.
        exact : bool
            Of the true Gaussian sum instead of the model's filter. Takes time quadratic in the number of pixels.
        threads : int, optional
            Threads to use.
        """
        return sum(self.energy_parts(labels, exact, threads))

    def energy_parts(self, labels: Any, exact: bool = False, threads: Optional[int] = None) -> tuple:
        """Unary and pairwise part of `energy`."""
        return self._core.energy(self._label_values(labels), flag(exact, "exact"), threads)

    def _label_values(self, labels: Any) -> np.ndarray:
        array = as_array(labels, "labels")
        if array.shape != self._shape and array.shape != (self._core.points,):
            hint = ": transposed?" if array.shape == self._shape[::-1] else ""
            raise ShapeError(f"labels have shape {array.shape}, but one for each of {size(self._shape)} is needed{hint}")
        return label_values(array, self.labels - 1)

    def __repr__(self) -> str:
        kernels = ", ".join(f"{text} [{name}]" for text, name, _ in self.kernels) or "no kernels"
        return (
            f"Model({size(self._shape)} pixels, {self.labels} labels, {self._compatibility[0]}, "
            f"{self.normalization}; {kernels})"
        )

    def _repr_html_(self) -> str:
        from ._html import table

        rows = [("size", size(self._shape)), ("labels", self.labels), ("compatibility", self._compatibility[0])]
        rows += [("normalization", self.normalization)]
        rows += [(text, f"{name}, {count} vertices" if count else name) for text, name, count in self.kernels]
        return table("relaxcrf.Model", rows)

    def __reduce__(self) -> tuple:
        state = (self._core.unary(), self._shape, self._axis, self._core.kernels())
        return _unpickle, (*state, self._compatibility, self._filter, self.normalization)


def _each_kernel(kernels: Any) -> Iterator[Kernel]:
    # One at a time: the first that is none ends it, however many would follow.
    try:
        for kernel in kernels:
            if isinstance(kernel, type):
                raise DtypeError(f"kernel {shown(kernel)} is a class: call it, as in Gaussian(sigma=3)")
            if not hasattr(kernel, "_specification"):
                raise DtypeError(f"kernel {shown(kernel)} is none of Gaussian, Bilateral and Features")
            yield kernel
    except DtypeError:
        raise
    except (NotImplementedError, TypeError) as e:
        raise DtypeError(f"kernels of type {type(kernels).__name__} is no sequence of kernels: {e}") from e


class _Stored:
    """A kernel as the extension module returned it."""

    def __init__(self, parts: dict) -> None:
        self.parts = parts

    def _specification(self, shape: tuple, labels: int) -> tuple:
        p = self.parts
        values = (p["kind"], p.get("sigma", []), p.get("values"), p.get("sigma_color", []))
        return (*values, p["weight"], p.get("compatibility"))


def _unpickle(
    rows: np.ndarray, shape: tuple, axis: int, kernels: list, compatibility: tuple, filter: str, normalization: str
) -> Model:
    model = Model.__new__(Model)
    stored, source = [_Stored(k) for k in kernels], ("energies", rows, 0.0)
    model._build(source, rows.shape[1], shape, axis, stored, compatibility, filter, normalization)
    return model


def _without(shape: tuple, axis: int) -> tuple:
    return tuple(shape[:axis]) + tuple(shape[axis + 1 :])


def check_label_axis(array: np.ndarray, axis: int, what: str) -> int:
    """The checked axis of labels, with a warning when there is nothing to choose from."""
    if array.ndim < 2:
        raise ShapeError(
            f"{what} has shape {array.shape}, but labels x height x width (or labels x points) is needed"
        )
    axis = axis_of(axis, array.ndim, "label_axis", what)
    check_labels(array.shape[axis], what)
    check_points(_without(array.shape, axis), what)
    has_batch_axis = array.ndim == 4 and axis == 0 and array.shape[0] == 1
    if has_batch_axis and what in ("probabilities", "scores"):
        raise ShapeError(
            f"{what} has shape {array.shape}, but labels x height x width is needed: drop the batch axis: {what}[0]"
        )
    if array.shape[axis] == 1 and what != "probabilities":
        fix = "drop the batch axis (unary[0])" if has_batch_axis else "add the energies of the background"
        warn(
            f"{what} of shape {array.shape} have one label on axis {axis}, so there is nothing to decide: {fix}, or set "
            "label_axis"
        )
    return axis


def probability_rows(probabilities: Any, label_axis: int, foreground: bool = True) -> tuple:
    """Probabilities as rows, the shape of the grid and the axis; warns if they do not sum to one.

    One label is taken as the foreground, with the background as the other label; without `foreground` it stays alone.
    """
    array = as_float32(probabilities, "probabilities")
    axis = check_label_axis(array, label_axis, "probabilities")
    check_probabilities(array, axis)
    if foreground:
        array = both_labels(array, axis)
    elif array.shape[axis] == 1:
        warn(
            f"probabilities of shape {array.shape} have one label on axis {axis}, so there is nothing to decide: for the "
            "probability p of a foreground pass np.concatenate([1 - p, p]), or set label_axis"
        )
    if array.shape[axis] > 1:
        _check_sums(array, axis)
    return rows_of(array, axis), _without(array.shape, axis), axis


def _check_sums(array: np.ndarray, axis: int) -> None:
    @room_for("array to be copied")
    def off(k: int) -> np.ndarray:
        return np.abs(array.sum(axis=k) - 1) > _SUM_TOLERANCE

    wrong = off(axis)
    if not wrong.any():
        return
    fits = [k for k in range(array.ndim) if k != axis and array.shape[k] > 1 and not off(k).any()]
    if fits:
        raise ShapeError(
            f"probabilities of shape {array.shape} do not sum to one along axis {axis}, but they do along axis "
            f"{fits[0]}: pass label_axis={fits[0]}"
        )
    warn(
        f"probabilities of shape {array.shape} do not sum to one along axis {axis} at {int(wrong.sum())} of "
        f"{wrong.size} pixels: divide them by their sum, or use Model.from_scores for logits"
    )


@room_for("array to be copied")
def label_values(array: np.ndarray, largest: int) -> np.ndarray:
    """Flat labels as the extension module takes them."""
    check_points(array.shape, "labels")
    if array.dtype.kind not in "biu":
        if array.dtype.kind != "f" or not (array == np.rint(array)).all():
            raise DtypeError(f"labels have dtype {array.dtype}, but whole numbers are needed: argmax of them first?")
    if array.size and not 0 <= array.min() <= array.max() <= largest:
        raise ArgumentError(
            f"labels lie in {array.min()} to {array.max()}, but must be 0 to {largest}: is one of them a void mark?"
        )
    return np.ascontiguousarray(array, dtype=np.uint16).reshape(-1)
