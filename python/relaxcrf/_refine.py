"""One call from network output to better labels."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _core
from ._arrays import as_array, axis_of, from_rows, small_labels
from ._inputs import check_pair, compact_labels
from ._kernels import Bilateral, Gaussian
from ._model import Model, label_values, probability_rows
from ._numbers import MOST_LABELS, number, one_of, optional, several, shown, text, whole
from ._solve import solve, warn_about_constant
from .errors import ArgumentError, DtypeError


class Preset(NamedTuple):
    """A named parameter set. Weights count every pair twice: pydensecrf's compat is twice the weight.

    ``gaussian`` is (sigma, weight), ``bilateral`` is (sigma_xy, sigma_rgb, weight) for images on the 0 to 255 scale.
    ``method`` is a name or a chain of `methods`, such as ``"mf10"`` (ten mean-field updates). Change one with
    ``preset._replace(method="mf5")``.
    """

    name: str
    summary: str
    source: str
    gaussian: tuple
    bilateral: tuple
    method: str
    normalization: str
    temperature: float = 1.0
    bias: tuple = ()
    label_costs: tuple = ()


def presets() -> dict:
    """All named parameter sets, the default first.

    Examples
    --------
    >>> import relaxcrf
    >>> relaxcrf.presets()["pydensecrf"].bilateral
    (80.0, 13.0, 5.0)
    """
    return dict(_known_presets())


@lru_cache(maxsize=None)
def _known_presets() -> dict:
    return {p["name"]: Preset(**p) for p in _core.presets()}


# Probabilities below this are raised to it, as the program does.
CLIP = 1e-5

_KEYS = {"gaussian": ("sigma", "weight"), "bilateral": ("sigma_xy", "sigma_rgb", "weight")}


def read_preset(path: Union[str, os.PathLike]) -> Preset:
    """Reads a preset file (TOML), such as the ``best.toml`` that ``relaxcrf tune`` writes."""
    if not isinstance(path, (str, os.PathLike)):
        raise DtypeError(f"path is {shown(path)}; expected a str or an os.PathLike")
    return Preset(**_core.read_preset(os.fsdecode(path)))


def _checked(preset: Preset, where: str) -> Preset:
    """The preset with plain numbers in it, all of which make sense."""
    kernels = {}
    for kernel, keys in _KEYS.items():
        name, given = f"{where}: {kernel}", getattr(preset, kernel)
        entries = several(given, len(keys))
        values = tuple(map(number, entries or (), [f"{name}.{key}" for key in keys]))
        if not values or not all(np.isfinite(values)) or min(values[:-1]) <= 0 or values[-1] < 0:
            expected = f"({', '.join(keys)}), sigmas positive and weights 0 or more"
            raise ArgumentError(f"{name} is {shown(given)}, but must be {expected}")
        kernels[kernel] = values
    method = text(preset.method, f"{where}: method")
    try:
        _core.preferred_filter(method)
    except ArgumentError as error:
        raise ArgumentError(f"{where}: {error}") from None
    normalization = text(preset.normalization, f"{where}: normalization")
    temperature = number(preset.temperature, f"{where}: temperature")
    if not (np.isfinite(temperature) and temperature > 0):
        raise ArgumentError(f"{where}: temperature is {shown(temperature)}, but must be a positive, finite number")
    learned = {"temperature": temperature}
    for name, least in (("bias", -np.inf), ("label_costs", 0.0)):
        given = getattr(preset, name)
        if isinstance(given, str) or not hasattr(given, "__iter__"):
            raise ArgumentError(f"{where}: {name} is {shown(given)}, but must be one number per label")
        learned[name] = tuple(number(v, f"{where}: {name}") for v in given)
        if not all(np.isfinite(v) and v >= least for v in learned[name]):
            expected = "finite numbers" if name == "bias" else "finite numbers, 0 or more"
            raise ArgumentError(f"{where}: {name} is {shown(given)}, but must be {expected}")
    return preset._replace(method=method, normalization=normalization, **kernels, **learned)


def refine(
    image: Any,
    probabilities: Any = None,
    preset: Union[str, os.PathLike, Preset, None] = None,
    *,
    labels: Any = None,
    n_labels: Optional[int] = None,
    confidence: float = 0.7,
    unsure: Optional[int] = None,
    label_axis: int = 0,
    channel_axis: Optional[int] = -1,
    data_range: float = 255.0,
    method: Optional[str] = None,
    iterations: Optional[int] = None,
    output: str = "labels",
    threads: Optional[int] = None,
) -> Any:
    """Refines the probabilities of a network (or any other source), or hard labels, along the edges of an image.

    Parameters
    ----------
    image : array
        Height x width x channels, or a volume; grey images may lack the channel axis.
    probabilities : array
        Labels x height x width.
    preset : str, path or Preset, optional
        Kernels and method: a name from `presets`, a preset file (TOML, as ``relaxcrf tune`` writes it), or a `Preset` of
        your own. By default ``"network"``, whose method is ten mean-field updates.
    labels : array of int, optional
        Hard labels, height x width, in place of probabilities. Each is right with probability `confidence`; pixels marked
        `unsure` have no preference; `n_labels` is by default the largest label + 1. The values of a mask (0 and 255) and
        other sparse values are taken as labels 0, 1, ..., and returned labels have the given values.
    label_axis, channel_axis : int
        Where labels and channels are.
    data_range : float
        The width of the image's scale: 255, or 1 for images in 0..1. Colour sigmas are scaled with it.
    method : str, optional
        A name from `methods` in place of the preset's method.
    iterations : int, optional
        Iterations in place of the method's own number: of ``"mf10"``, the number of mean-field updates.
    output : {"labels", "probabilities", "result"}
        What to return.
    threads : int, optional
        Threads to use.

    Returns
    -------
    array or Result
        Labels in the image's shape (uint8, uint16 beyond 256 labels), or probabilities shaped as the given ones. With
        mean field the labels are the argmax of the probabilities.

    Examples
    --------
    >>> import numpy as np, relaxcrf
    >>> image = np.zeros((20, 30, 3), np.uint8); image[:, 15:] = 200
    >>> noise = np.random.default_rng(0).uniform(-0.3, 0.3, (20, 30))
    >>> bright = np.where(image[..., 0] > 0, 0.7, 0.3) + noise; p = np.stack([1 - bright, bright])
    >>> refined = relaxcrf.refine(image, p)
    >>> bool((refined == (image[..., 0] > 0)).all())
    True
    """
    check_output(output)
    chosen = preset_of(preset)
    method = chosen.method if method is None else text(method, "method")
    iterations = optional(whole, iterations, "iterations", 1)
    scale = color_scale(data_range)
    image = as_array(image, "image")
    sigma_xy, sigma_rgb, weight = chosen.bilateral
    kernels = [Gaussian(*chosen.gaussian), Bilateral(image, sigma_xy, sigma_rgb * scale, weight, channel_axis)]
    if (probabilities is None) == (labels is None):
        raise ArgumentError("expected either probabilities or labels= (hard labels), and not both")
    values = None
    if labels is not None:
        labels, unsure = as_array(labels, "labels"), optional(whole, unsure, "unsure", 0, MOST_LABELS)
        if n_labels is None:
            labels, values, unsure = compact_labels(labels, unsure)
            n_labels = _label_count(labels, unsure)
        n_labels = whole(n_labels, "n_labels", 1, MOST_LABELS)
        axis = axis_of(label_axis, labels.ndim + 1, "label_axis", "the model")
        marks = label_values(labels, MOST_LABELS)
        source, shape = (marks, n_labels, number(confidence, "confidence"), unsure), labels.shape
    else:
        probabilities = check_pair(image, as_array(probabilities, "probabilities"), label_axis, channel_axis)
        rows, shape, axis = probability_rows(probabilities, label_axis)
        source, n_labels = ("probabilities", rows, CLIP), rows.shape[1]
    if output == "result":
        options = {"filter": _core.preferred_filter(method), "normalization": chosen.normalization, "threads": threads}
        model = Model._of_source(source, n_labels, shape, axis, kernels, options, learned_of(chosen))
        result = solve(model, method, max_iter=iterations, threads=threads)
        if result.lower_constant is not None and method != "unary":
            warn_about_constant(_weaker_than(chosen), *result.lower_constant, result.energy)
        if values is not None:
            result = replace(result, labels=_restored(result.labels, values), best=_restored(result.best, values))
        return result
    found, beliefs, constant = _core.refine(
        source,
        list(shape),
        [kernel._specification(tuple(shape), n_labels) for kernel in kernels],
        chosen.normalization,
        method,
        iterations,
        None,
        method != "unary",
        threads,
        learned_of(chosen),
    )
    if constant is not None:
        warn_about_constant(_weaker_than(chosen), *constant)
    if output == "probabilities":
        return from_rows(beliefs, tuple(shape), axis)
    found = found.reshape(shape)
    return found if values is None else _restored(found, values)


def learned_of(preset: Preset) -> Optional[tuple]:
    """What the preset has learned beyond kernels, for native code."""
    if preset.temperature == 1.0 and not preset.bias and not preset.label_costs:
        return None
    return (preset.temperature, list(preset.bias), list(preset.label_costs))


def _restored(labels: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The value that each label stands for."""
    return small_labels(values[labels], int(values.max()) + 1, labels.shape)


def _weaker_than(preset: Preset) -> str:
    """What to try if kernels are too strong."""
    default = preset_of(None)
    same = (preset.gaussian, preset.bilateral) == (default.gaussian, default.bilateral)
    return "smaller weights" if same else f"preset={default.name!r}"


def _label_count(labels: Any, unsure: Optional[int]) -> int:
    """The largest label + 1."""
    values = np.asarray(labels)
    if unsure is not None:
        values = values[values != unsure]
    if values.size == 0:
        raise ArgumentError("every label is marked unsure: pass n_labels")
    return int(values.max()) + 1


def color_scale(data_range: Any) -> float:
    """What colour sigmas for 0 to 255 are multiplied by."""
    width = number(data_range, "data_range")
    if not (np.isfinite(width) and width > 0):
        raise ArgumentError(f"data_range is {shown(data_range)}, but must be a positive number such as 255 or 1")
    return width / 255.0


def check_output(output: Any) -> None:
    """Fails for what `refine` cannot return."""
    one_of(output, "output", "labels", "probabilities", "result")


def preset_of(preset: Union[str, os.PathLike, Preset, None]) -> Preset:
    """The preset of that name or file."""
    if isinstance(preset, Preset):
        return _checked(preset, "preset")
    known = _known_presets()
    if preset is None:
        return next(iter(known.values()))
    if isinstance(preset, str) and preset in known:
        return known[preset]
    if isinstance(preset, os.PathLike) or (isinstance(preset, str) and any(c in preset for c in "./\\")):
        return read_preset(preset)
    raise ArgumentError(f"preset is {shown(preset)}, but must be one of {', '.join(known)}, a file, or a Preset")
