"""One call from network output to better labels."""

from __future__ import annotations

import os
from typing import Any, BinaryIO, NamedTuple, Optional, Sequence, Union

import numpy as np

from . import _core
from ._arrays import as_array, from_rows, size, small_labels
from ._kernels import Bilateral, Gaussian, check_scale, image_rows
from ._model import Model, probability_rows
from ._numbers import number, one_of, optional, several, shown, text, whole
from ._solve import solve
from .errors import ArgumentError, DtypeError, ShapeError


class Preset(NamedTuple):
    """A named parameter set. Weights count every pair twice: pydensecrf's compat is twice the weight.

    ``gaussian`` is (sigma, weight), ``bilateral`` is (sigma_xy, sigma_rgb, weight) for images on the 0 to 255 scale.
    Change one with ``preset._replace(iterations=5)``.
    """

    name: str
    summary: str
    source: str
    gaussian: tuple
    bilateral: tuple
    iterations: int
    normalization: str


def presets() -> dict:
    """All named parameter sets, the default first.

    Examples
    --------
    >>> import relaxcrf
    >>> relaxcrf.presets()["pydensecrf"].bilateral
    (80.0, 13.0, 5.0)
    """
    return {p["name"]: Preset(**p) for p in _core.presets()}


_MOST_BYTES = 1 << 16
_KEYS = {"gaussian": ("sigma", "weight"), "bilateral": ("sigma_xy", "sigma_rgb", "weight")}


def read_preset(path: Union[str, os.PathLike]) -> Preset:
    """Reads a preset file, such as the ``best.toml`` that ``relaxcrf tune`` writes.

    Needs Python 3.11 or later, or the package tomli.
    """
    if not isinstance(path, (str, os.PathLike)):
        # A number would be a file that is open already, and would be closed.
        raise DtypeError(f"path is {shown(path)}, but must be a str or an os.PathLike")
    path = os.fsdecode(path)
    try:
        import tomllib
    except ImportError:
        try:
            import tomli as tomllib
        except ImportError:
            raise ArgumentError(
                f"{path}: reading a preset file needs Python 3.11 or later, or `pip install tomli`"
            ) from None
    try:
        # Pipes are waited for and devices may have no end.
        if os.path.exists(path) and not os.path.isfile(path):
            raise ArgumentError(f"{path}: is not a regular file, but must be a preset file")
        with open(path, "rb") as file:
            given = tomllib.loads(_head(file, path).decode())
    except ArgumentError:
        raise
    except (OSError, RecursionError, ValueError) as error:
        raise ArgumentError(f"{path}: cannot be read as a preset file: {error}") from None
    stem = os.path.splitext(os.path.basename(path))[0]
    texts = {"name": stem, "summary": "", "source": path, "normalization": "symmetric"}
    unknown = sorted(set(given) - set(texts) - set(_KEYS) - {"iterations"})
    if unknown:
        raise ArgumentError(f"{path}: has no use for {shown(', '.join(unknown))}; is it a preset file?")
    texts.update({key: given[key] for key in texts if key in given})
    kernels = {}
    for kernel, keys in _KEYS.items():
        part = given.get(kernel)
        if not isinstance(part, dict) or set(part) != set(keys):
            raise ArgumentError(f"{path}: wants [{kernel}] with {', '.join(keys)}, and nothing else there")
        kernels[kernel] = tuple(part[key] for key in keys)
    return _checked(Preset(iterations=given.get("iterations", 10), **texts, **kernels), path)


def _head(file: BinaryIO, path: str) -> bytes:
    found = file.read(_MOST_BYTES + 1)
    if len(found) > _MOST_BYTES:
        raise ArgumentError(f"{path}: has more than {_MOST_BYTES} bytes, but a preset file has a few lines")
    return found


def _checked(preset: Preset, where: str) -> Preset:
    """The preset with plain numbers in it, all of which make sense."""
    kernels = {}
    for kernel, keys in _KEYS.items():
        name, given = f"{where}: {kernel}", getattr(preset, kernel)
        entries = several(given, len(keys))
        values = tuple(map(number, entries or (), [f"{name}.{key}" for key in keys]))
        if not values or not all(np.isfinite(values)) or min(values[:-1]) <= 0 or values[-1] < 0:
            wanted = f"({', '.join(keys)}), sigmas positive and weights 0 or more"
            raise ArgumentError(f"{name} is {shown(given)}, but must be {wanted}")
        kernels[kernel] = values
    iterations = whole(preset.iterations, f"{where}: iterations")
    normalization = text(preset.normalization, f"{where}: normalization")
    return preset._replace(iterations=iterations, normalization=normalization, **kernels)


def refine(
    image: Any,
    probabilities: Any,
    preset: Union[str, os.PathLike, Preset, None] = None,
    *,
    label_axis: int = 0,
    channel_axis: Optional[int] = -1,
    data_range: float = 255.0,
    method: Optional[str] = None,
    output: str = "labels",
    threads: Optional[int] = None,
) -> Any:
    """Refines the probabilities of a network (or any other source) along the edges of an image.

    Parameters
    ----------
    image : array
        Height x width x channels, or a volume; grey images may lack the channel axis.
    probabilities : array
        Labels x height x width.
    preset : str, path or Preset, optional
        Parameters: a name from `presets`, a preset file (TOML, as ``relaxcrf tune`` writes it), or a `Preset` of your
        own. By default the first one.
    label_axis, channel_axis : int
        Where labels and channels are.
    data_range : float
        The width of the image's scale: 255, or 1 for images in 0..1. Colour sigmas are scaled with it.
    method : str, optional
        By default the preset's number of mean-field updates, exactly as pydensecrf does them. A name from `methods`
        minimises the energy instead.
    output : {"labels", "probabilities", "result"}
        What to return.
    threads : int, optional
        Threads to use.

    Returns
    -------
    array or Result
        Labels in the image's shape (uint8, uint16 beyond 256 labels), or probabilities shaped as the given ones.

    Examples
    --------
    >>> import numpy as np, relaxcrf
    >>> image = np.zeros((20, 30, 3), np.uint8); image[:, 15:] = 200
    >>> p = np.full((2, 20, 30), 0.5); p[:, 5, 5] = 0.9, 0.1; p[:, 5, 25] = 0.2, 0.8
    >>> labels = relaxcrf.refine(image, p, preset="pydensecrf")
    >>> int(labels[10, 2]), int(labels[10, 28])
    (0, 1)
    """
    check_output(output)
    method = optional(text, method, "method")
    chosen = preset_of(preset)
    scale = color_scale(data_range)
    image = as_array(image, "image")
    probabilities = as_array(probabilities, "probabilities")
    _check_binary_map(image, probabilities, channel_axis)
    sigma_xy, sigma_rgb, weight = chosen.bilateral
    sigma_rgb *= scale
    options = {"normalization": chosen.normalization, "threads": threads}

    if method is not None or output == "result":
        kernels = [Gaussian(*chosen.gaussian), Bilateral(image, sigma_xy, sigma_rgb, weight, channel_axis)]
        filter = "lattice-classic" if method is None else "auto"
        model = Model.from_probabilities(probabilities, kernels, label_axis=label_axis, filter=filter, **options)
        limit = chosen.iterations if method is None else None
        result = solve(model, "mf5" if method is None else method, max_iter=limit, threads=threads)
        return {"labels": result.labels, "probabilities": result.probabilities, "result": result}[output]

    rows, shape, axis = probability_rows(probabilities, label_axis)
    colors = image_rows(image, shape, channel_axis)
    check_scale(image, [sigma_rgb])
    crf = _core.DenseCrf(rows.shape[0], rows.shape[1])
    crf.set_unary(_core.unary_from_probabilities(rows, 1e-5), threads)
    sigma, spatial_weight = chosen.gaussian
    # Twice the weight: here, as in pydensecrf, a pair counts once.
    options = (chosen.normalization, threads)
    crf.add_grid(shape, [sigma] * len(shape), None, [], [2 * spatial_weight], *options)
    deviations = [sigma_rgb] * colors.shape[1]
    crf.add_grid(shape, [sigma_xy] * len(shape), colors, deviations, [2 * weight], *options)
    beliefs = crf.inference(chosen.iterations, threads)
    if output == "probabilities":
        return from_rows(beliefs, shape, axis)
    return small_labels(_core.argmax(beliefs), rows.shape[1], shape)


def positions(shape: tuple, sigma: Any, origin: Optional[Sequence[int]] = None) -> np.ndarray:
    """Grid coordinates divided by sigma (x first), one row per pixel, x first; those of a window begin at `origin`."""
    sigmas = np.broadcast_to(np.asarray(sigma, np.float32), (len(shape),))
    starts = origin if origin is not None else [0] * len(shape)
    axes = [np.arange(o, o + n, dtype=np.float32) / s for o, n, s in zip(starts, shape, sigmas[::-1])]
    grid = np.meshgrid(*axes, indexing="ij")
    return np.stack(grid[::-1], axis=-1).reshape(-1, len(shape))


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
    known = presets()
    if preset is None:
        return next(iter(known.values()))
    if isinstance(preset, str) and preset in known:
        return known[preset]
    if isinstance(preset, os.PathLike) or (isinstance(preset, str) and any(c in preset for c in "./\\")):
        return read_preset(preset)
    raise ArgumentError(f"preset is {shown(preset)}, but must be one of {', '.join(known)}, a file, or a Preset")


def _check_binary_map(image: np.ndarray, probabilities: np.ndarray, channel_axis: Optional[int]) -> None:
    spatial = image.ndim - (channel_axis is not None and image.ndim > 2)
    if probabilities.ndim == spatial and probabilities.ndim >= 2 and probabilities.shape == image.shape[:spatial]:
        raise ShapeError(
            f"probabilities of shape {size(probabilities.shape)} have no axis of labels: for the probability p of a "
            "foreground pass np.stack([1 - p, p])"
        )
