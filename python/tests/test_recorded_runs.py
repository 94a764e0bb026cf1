"""Mean field of the shims, of `refine` and of tiles returns what it returned when it was recorded.

The other tests say that results are right; this one, that they are still the same. To record anew after a change that is
meant: ``RELAXCRF_RECORD=yes python/run-tests python/tests/test_recorded_runs.py``, then look at ``git diff``.
"""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import relaxcrf
from relaxcrf.compat import simplecrf
from relaxcrf.compat.pydensecrf import densecrf, utils

FILE = Path(__file__).parent / "recorded" / "mean_field.json"
# Other processors have other last digits.
TOLERANCE = 2e-5


def scene(height, width, labels, seed):
    """Stripes of colour with noise, probabilities that mostly follow them, and a few labels that hardly occur."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    region = (3 * (x + 0.4 * y) / (width + 0.4 * height)).astype(int)
    image = np.clip(70 * region[..., None] + rng.normal(40, 12, (height, width, 3)), 0, 255).astype(np.uint8)
    scores = rng.normal(0, 1, (labels, height, width)) - 3.0 * (np.arange(labels) > 2)[:, None, None]
    scores += 2.0 * (region % labels == np.arange(labels)[:, None, None])
    e = np.exp(scores - scores.max(0))
    return image, (e / e.sum(0)).astype(np.float32)


def compatibilities(labels):
    rng = np.random.default_rng(labels)
    matrix = rng.uniform(0, 4, (labels, labels)).astype(np.float32)
    return {
        "potts": (3, 10),
        "negative": (3, -2.0),
        "per-label": (-np.linspace(1, 3, labels, dtype=np.float32), 5),
        "matrix": (3 * (1 - np.eye(labels, dtype=np.float32)), (matrix + matrix.T) * (1 - np.eye(labels))),
        "matrices": (matrix, matrix.T),
    }


def shim_runs():
    for labels in (2, 5, 21):
        image, p = scene(60, 80, labels, labels)
        for name, (first, second) in compatibilities(labels).items():
            for normalization in ((3, 0) if name == "potts" else (3,)):
                crf = densecrf.DenseCRF2D(80, 60, labels)
                crf.setUnaryEnergy(utils.unary_from_softmax(p))
                crf.addPairwiseGaussian(3, first, normalization=normalization)
                crf.addPairwiseBilateral(30, 13, image, second, normalization=normalization)
                for updates in (0, 1, 5):
                    q = crf.inference(updates)
                    yield f"shim {labels} {name} {normalization} inference {updates}", q
                q = crf.startInference()[0]
                crf.stepInference(q)
                yield f"shim {labels} {name} {normalization} step", q
                yield f"shim {labels} {name} {normalization} divergence", np.array([crf.klDivergence(q)])


def other_runs():
    image, p = scene(70, 90, 6, 3)
    for preset in ("network", "pydensecrf", "text"):
        for output in ("labels", "probabilities"):
            yield f"refine {preset} {output}", relaxcrf.refine(image, p, preset, output=output)
            tiled = relaxcrf.refine_tiled(image, p, preset, output=output, tile=32, halo=12)
            yield f"tiles {preset} {output}", tiled
    probabilities = np.ascontiguousarray(p.transpose(1, 2, 0))
    yield "simplecrf 2-D", simplecrf.densecrf(image, probabilities, (10.0, 80, 13, 3.0, 3, 5.0))
    volume, planes = image.reshape(7, 10, 90, 3), probabilities.reshape(7, 10, 90, 6)
    axes = {f"{kind}{axis}Std": 3.0 for kind in ("Pos", "Bilateral") for axis in "RCZ"}
    options = {"MaxIterations": 3, "PosW": 2.0, "BilateralW": 4.0, "ModalityNum": 3, "BilateralModsStds": (9, 9, 9)}
    yield "simplecrf 3-D", simplecrf.densecrf3d(volume, planes, {**axes, **options})


def digest(array):
    """Two sums in which every value counts differently, and the largest value."""
    values = np.asarray(array, np.float64).ravel(order="K" if array.ndim < 2 else "C")
    place = np.arange(values.size)
    return [float(values @ np.sin(0.7 * place)), float(values @ np.sin(1.9 * place)), float(np.abs(values).max())]


@pytest.mark.filterwarnings("ignore::relaxcrf.errors.InputWarning")
@pytest.mark.parametrize("runs", [shim_runs, other_runs])
def test_runs_are_those_recorded(runs):
    now = {name: (digest(array), int(array.size)) for name, array in runs()}
    recorded = json.loads(FILE.read_text()) if FILE.exists() else {}
    if os.environ.get("RELAXCRF_RECORD"):
        recorded.update({name: values for name, (values, _) in now.items()})
        FILE.write_text("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(recorded.items())) + "\n}\n")
        return
    for name, (values, size) in now.items():
        assert name in recorded, f"{name} was never recorded"
        # The sums grow with the number of values and their size.
        scale = max(1.0, abs(recorded[name][2])) * size**0.5
        np.testing.assert_allclose(values, recorded[name], atol=TOLERANCE * scale, rtol=TOLERANCE, err_msg=name)
