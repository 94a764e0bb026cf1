"""SimpleCRF's ``denseCRF3D.densecrf3d``."""

from __future__ import annotations

import sys
from typing import Any, Mapping

import numpy as np

from ..._arrays import as_array, as_float32, size
from ..._kernels import numbers
from ..._numbers import number, shown, truncated
from ...errors import ArgumentError, ShapeError
from ._run import run

__all__ = ["densecrf3d"]

_KEYS = (
    "MaxIterations PosW PosRStd PosCStd PosZStd BilateralW BilateralRStd BilateralCStd BilateralZStd ModalityNum "
    "BilateralModsStds"
).split()


def densecrf3d(I: Any, P: Any, param: Mapping[str, Any]) -> np.ndarray:  # noqa: E741
    """Labels of a volume.

    Parameters
    ----------
    I : array
        Depth x height x width x modalities, values 0 to 255.
    P : array
        Probabilities, depth x height x width x labels. A probability of 0 forbids the label.
    param : dict
        ``MaxIterations``; ``PosW``, ``PosRStd``, ``PosCStd``, ``PosZStd`` and ``BilateralW``, ``BilateralRStd``,
        ``BilateralCStd``, ``BilateralZStd``: weights and standard deviations along the first, second and third axis;
        ``ModalityNum``, ``BilateralModsStds``: number of modalities and their standard deviations.

    Returns
    -------
    array
        Depth x height x width, uint8.
    """
    if not isinstance(param, Mapping):
        raise ArgumentError(f"param is {shown(param)}, but a dict is needed")
    missing = [key for key in _KEYS if key not in param]
    if missing:
        raise ArgumentError(f"param lacks {', '.join(missing)}")
    image, probabilities = as_array(I, "I"), as_float32(P, "P")
    if image.ndim == 3:
        image = image[..., np.newaxis]
    if image.ndim != 4 or probabilities.ndim != 4 or image.shape[:3] != probabilities.shape[:3]:
        raise ShapeError(
            f"I is {size(image.shape)} and P is {size(probabilities.shape)}, but depth x height x width x modalities "
            "and depth x height x width x labels are needed"
        )
    deviations = numbers(param["BilateralModsStds"], "BilateralModsStds")
    if not truncated(param["ModalityNum"], "ModalityNum") == len(deviations) == image.shape[3]:
        raise ArgumentError(
            f"ModalityNum is {param['ModalityNum']}, BilateralModsStds has {len(deviations)} values and the volume "
            f"{image.shape[3]} modalities: all three must agree"
        )
    axes = ("RStd", "CStd", "ZStd")
    value = {key: number(param[key], key) for key in _KEYS if key.endswith("W") or key.endswith("Std")}
    bilateral = [value["Bilateral" + a] for a in axes]
    position = [value["Pos" + a] for a in axes]
    iterations = truncated(param["MaxIterations"], "MaxIterations", -sys.maxsize)
    return run(
        image, probabilities, bilateral, deviations, value["BilateralW"], position, value["PosW"], iterations, clip=0.0
    )
