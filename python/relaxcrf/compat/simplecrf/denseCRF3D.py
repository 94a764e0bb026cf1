"""SimpleCRF's ``denseCRF3D.densecrf3d``."""

from __future__ import annotations

from typing import Any, Mapping

import numpy as np

from ..._arrays import as_array, as_float32, size
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
    deviations = tuple(float(v) for v in np.atleast_1d(param["BilateralModsStds"]))
    if not int(param["ModalityNum"]) == len(deviations) == image.shape[3]:
        raise ArgumentError(
            f"ModalityNum is {param['ModalityNum']}, BilateralModsStds has {len(deviations)} values and the volume "
            f"{image.shape[3]} modalities: all three must agree"
        )
    axes = ("RStd", "CStd", "ZStd")
    bilateral = tuple(float(param["Bilateral" + a]) for a in axes)
    position = tuple(float(param["Pos" + a]) for a in axes)
    weights = float(param["BilateralW"]), float(param["PosW"])
    return run(
        image, probabilities, bilateral, deviations, weights[0], position, weights[1], param["MaxIterations"], clip=0.0
    )
