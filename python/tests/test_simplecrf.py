"""SimpleCRF's two functions against the other shim."""

import numpy as np
import pytest
from conftest import make_scene

from relaxcrf import errors
from relaxcrf.compat.pydensecrf import densecrf as dcrf
from relaxcrf.compat.pydensecrf import utils
from relaxcrf.compat.simplecrf import denseCRF, denseCRF3D, densecrf, densecrf3d

PARAMETERS = {
    "MaxIterations": 2.0,
    "PosW": 2.0,
    "PosRStd": 1,
    "PosCStd": 2,
    "PosZStd": 3,
    "BilateralW": 3.0,
    "BilateralRStd": 3.0,
    "BilateralCStd": 4.0,
    "BilateralZStd": 5.0,
    "ModalityNum": 2,
    "BilateralModsStds": (5.0, 9.0),
}


def test_image(scene):
    image, p, _ = scene
    labels = densecrf(image, p.transpose(1, 2, 0), (10.0, 80, 13, 3.0, 3, 5.0))
    crf = dcrf.DenseCRF2D(31, 23, 3)
    crf.setUnaryEnergy(utils.unary_from_softmax(p, clip=0.01))
    crf.addPairwiseBilateral(80, 13, image, 10)
    crf.addPairwiseGaussian(3, 3)
    np.testing.assert_array_equal(labels, crf.inference(5).argmax(0).reshape(23, 31))
    assert labels.dtype == np.uint8
    assert denseCRF.densecrf is densecrf and denseCRF3D.densecrf3d is densecrf3d


def test_hard_labels_of_any_type(scene):
    image, p, _ = scene
    onehot = np.eye(3, dtype=np.int64)[p.argmax(0)]
    assert densecrf(image, onehot, (10, 80, 13, 3, 3, 5)).shape == (23, 31)


def test_volume():
    rng = np.random.default_rng(0)
    volume = rng.integers(0, 255, (6, 7, 8, 2), np.uint8)
    p = rng.dirichlet(np.ones(3), size=(6, 7, 8))
    labels = densecrf3d(volume, p, PARAMETERS)
    crf = dcrf.DenseCRF(6 * 7 * 8, 3)
    crf.setUnaryEnergy(utils.unary_from_softmax(p.transpose(3, 0, 1, 2)))
    crf.addPairwiseEnergy(utils.create_pairwise_gaussian((1, 2, 3), (6, 7, 8))[::-1], 2)
    features = utils.create_pairwise_bilateral((3, 4, 5), (5, 9), volume, chdim=3)
    crf.addPairwiseEnergy(features[[2, 1, 0, 3, 4]], 3)
    np.testing.assert_array_equal(labels, crf.inference(2).argmax(0).reshape(6, 7, 8))


def test_mistakes(scene):
    image, p, _ = make_scene()
    with pytest.raises(errors.ArgumentError, match="w1, alpha"):
        densecrf(image, p.transpose(1, 2, 0), (1, 2))
    for param in (np.array(3), (10, 80, 13, 3, 3, 5, 7), iter([10, 80, 13, 3, 3, 5]), None):
        with pytest.raises(errors.ArgumentError, match="w1, alpha"):
            densecrf(image, p.transpose(1, 2, 0), param)
    with pytest.raises(errors.ShapeError, match="height x width x labels"):
        densecrf(image, p, (10, 80, 13, 3, 3, 5))
    with pytest.raises(errors.ArgumentError, match="lacks PosW"):
        densecrf3d(np.zeros((2, 2, 2, 2)), np.ones((2, 2, 2, 2)) / 2, {k: v for k, v in PARAMETERS.items() if k != "PosW"})
    with pytest.raises(errors.ArgumentError, match="must agree"):
        densecrf3d(np.zeros((2, 2, 2, 1)), np.ones((2, 2, 2, 2)) / 2, PARAMETERS)
