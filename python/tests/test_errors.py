"""Wrong input: what was given, what was expected, what to do."""

import re

import numpy as np
import pytest

import relaxcrf
from relaxcrf import errors


def refine_error(kind, match, *args, **options):
    with pytest.raises(kind, match=match) as caught:
        relaxcrf.refine(*args, **options)
    assert isinstance(caught.value, (ValueError, TypeError))
    return str(caught.value)


def test_wrong_size(scene):
    image, p, _ = scene
    refine_error(errors.ShapeError, "image is 22 x 31 but .* are 23 x 31: resize", image[1:], p)


def test_transposed_image(scene):
    image, p, _ = scene
    refine_error(errors.ShapeError, "image is 31 x 23 but .* are 23 x 31: transposed", image.transpose(1, 0, 2), p)


def test_channels_first(scene):
    image, p, _ = scene
    refine_error(errors.ShapeError, "pass channel_axis=0", image.transpose(2, 0, 1), p)
    labels = relaxcrf.refine(image.transpose(2, 0, 1), p, channel_axis=0)
    np.testing.assert_array_equal(labels, relaxcrf.refine(image, p))


def test_labels_last(scene):
    image, p, _ = scene
    refine_error(errors.ShapeError, "pass label_axis=2", image, p.transpose(1, 2, 0))
    labels = relaxcrf.refine(image, p.transpose(1, 2, 0), label_axis=-1)
    np.testing.assert_array_equal(labels, relaxcrf.refine(image, p))


def test_probabilities_that_do_not_sum_to_one(scene):
    image, p, _ = scene
    with pytest.warns(errors.InputWarning, match="do not sum to one along axis 0 at 713 of 713 pixels: divide"):
        relaxcrf.refine(image, p * 0.5)
    with pytest.warns(errors.InputWarning, match="do not sum to one"):
        relaxcrf.Model.from_probabilities(p * 0.5)


def test_logits_instead_of_probabilities(scene):
    image, p, _ = scene
    refine_error(errors.DataError, "scores", image, np.log(p) * 3)


@pytest.mark.parametrize("method", [None, "mf"])
def test_nan(scene, method):
    image, p, _ = scene
    holed = p.copy()
    holed[1, 2, 3] = np.nan
    refine_error(errors.DataError, "probabilities hold NaN at x 3, y 2, label 1", image, holed, method=method)
    floats = image.astype(float)
    floats[4, 5, 1] = np.nan
    refine_error(errors.DataError, "NaN", floats, p, method=method)
    with pytest.raises(errors.DataError, match="NaN at x 0, y 0, label 0.*18 of 18"):
        relaxcrf.Model(np.full((2, 3, 3), np.nan))
    with pytest.raises(errors.DataError, match="every label"):
        relaxcrf.Model(np.full((2, 3, 3), np.inf))


def test_one_label(scene):
    image, p, _ = scene
    with pytest.warns(errors.InputWarning, match=r"one label on axis 0: taken as .* foreground.*concatenate"):
        labels = relaxcrf.refine(image, np.ones_like(p[:1]))
    assert (labels == 1).all()
    with pytest.warns(errors.InputWarning, match="one label on axis 0.*nothing to decide.*concatenate"):
        relaxcrf.refine_tiled(image, np.ones_like(p[:1]))
    with pytest.warns(errors.InputWarning, match="nothing to decide"):
        relaxcrf.Model(np.zeros((1, 3, 3)))


def test_foreground_map_without_labels(scene):
    image, p, _ = scene
    with pytest.warns(errors.InputWarning, match=re.escape("np.stack([1 - p, p], 0) says the same")):
        labels = relaxcrf.refine(image, p[0])
    np.testing.assert_array_equal(labels, relaxcrf.refine(image, np.stack([1 - p[0], p[0]])))


def test_image_on_the_wrong_scale(scene):
    image, p, _ = scene
    with pytest.warns(errors.InputWarning, match="pass data_range=1 to refine, or divide sigma_rgb of Bilateral by 255"):
        relaxcrf.refine(image / 255.0, p)
    labels = relaxcrf.refine(image / 255.0, p, data_range=1)
    assert (labels == relaxcrf.refine(image, p)).mean() > 0.999
    with pytest.warns(errors.InputWarning, match="divide the image by 255"):
        relaxcrf.Model(-np.log(p), [relaxcrf.Bilateral(image, 20, 0.05, 1)])


def test_warning_points_at_the_caller(scene):
    image, p, _ = scene
    with pytest.warns(errors.InputWarning) as caught:
        relaxcrf.refine(image / 255.0, p)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    "make, kind, match",
    [
        (lambda: relaxcrf.Gaussian(-1), errors.ArgumentError, "positive"),
        (lambda: relaxcrf.Gaussian(np.nan), errors.ArgumentError, "positive"),
        (lambda: relaxcrf.Gaussian("wide"), errors.ArgumentError, "a number"),
        (lambda: relaxcrf.Gaussian(1, -2), errors.ArgumentError, "positive smooths"),
        (lambda: relaxcrf.Model(np.zeros(3)), errors.ShapeError, "labels x height x width"),
        (lambda: relaxcrf.Model(np.zeros((2, 3, 3)), label_axis=5), errors.ShapeError, "label_axis is 5"),
        (lambda: relaxcrf.Model(np.zeros((2, 0, 3))), errors.RelaxcrfError, "at least one"),
        (lambda: relaxcrf.Model(np.zeros((2, 3, 3)), [3]), errors.DtypeError, "Gaussian, Bilateral"),
        (lambda: relaxcrf.Model(np.zeros((2, 3, 3)), compatibility="cheap"), errors.ArgumentError, "'potts'"),
        (lambda: relaxcrf.Model(np.zeros((2, 3, 3)), compatibility=np.ones(3)), errors.ShapeError, "2 labels"),
        (lambda: relaxcrf.Model(np.zeros((2, 3, 3)), compatibility=[[0, 1], [2, 0]]), errors.DataError, "symmetric"),
        (lambda: relaxcrf.Model(np.zeros((2, 3, 3)), filter="magic"), errors.ArgumentError, "lattice-classic"),
        (lambda: relaxcrf.Model(np.zeros((2, 3, 3)), normalization="l2"), errors.ArgumentError, "symmetric"),
        (lambda: relaxcrf.Model(np.zeros((2, 3, 3)), [relaxcrf.Gaussian((1, 2, 3))]), errors.ShapeError, "2 axes"),
        (
            lambda: relaxcrf.Model(np.zeros((2, 9)), [relaxcrf.Features(np.zeros((4, 9)))]),
            errors.ShapeError,
            "array.T",
        ),
        (
            lambda: relaxcrf.Model(np.zeros((2, 300, 300)), [relaxcrf.Gaussian(1e-30)], filter="lattice"),
            errors.RelaxcrfError,
            "standard deviation",
        ),
        (lambda: relaxcrf.refine(np.zeros((3, 3)), np.ones((2, 3, 3)) / 2, "nice"), errors.ArgumentError, "network, voc"),
        (
            lambda: relaxcrf.refine(np.zeros((3, 3)), np.ones((2, 3, 3)) / 2, output="x"),
            errors.ArgumentError,
            "'labels'",
        ),
        (
            lambda: relaxcrf.refine(np.zeros((3, 3)), np.ones((2, 3, 3)) / 2, data_range=0),
            errors.ArgumentError,
            "data_range",
        ),
        (lambda: relaxcrf.stereo_unary(np.zeros((3, 4)), np.zeros((3, 5)), 2), errors.ShapeError, "rectified"),
        (lambda: relaxcrf.stereo_unary(np.zeros((3, 4)), np.zeros((3, 4)), 0), errors.ArgumentError, "disparities"),
        (lambda: relaxcrf.stereo_unary(np.zeros((3, 4)), np.zeros((3, 4)), 2, "x"), errors.ArgumentError, "census"),
        (lambda: relaxcrf.filter(np.zeros((3, 2)), np.zeros(4)), errors.ShapeError, "4 points"),
        (lambda: relaxcrf.filter(np.zeros((3, 2)), np.zeros(3), "magic"), errors.ArgumentError, "exact"),
        (lambda: relaxcrf.filter(np.zeros((3, 2)), [0, np.nan, 0]), errors.DataError, "values holds NaN at point 1"),
        (lambda: relaxcrf.filter(np.zeros((2, 2)), [[0, 1], [0, -np.inf]]), errors.DataError, "-inf at point 1, channel 1"),
        (lambda: relaxcrf.filter(np.zeros((2, 2)), [0, 1e300], "exact"), errors.DataError, "inf at point 1"),
    ],
)
def test_each_mistake(make, kind, match):
    with pytest.raises(kind, match=match):
        make()


def test_labels_that_do_not_fit():
    model = relaxcrf.Model(np.zeros((2, 3, 4)))
    with pytest.raises(errors.ShapeError, match="transposed"):
        model.energy(np.zeros((4, 3), int))
    with pytest.raises(errors.ArgumentError, match="void"):
        model.energy(np.full((3, 4), 255))
    with pytest.raises(errors.ArgumentError, match="-1"):
        model.energy(np.full((3, 4), -1))
    with pytest.raises(errors.DtypeError, match="argmax"):
        model.energy(np.full((3, 4), 0.5))
    assert model.energy(np.ones((3, 4))) == 0


def test_a_bug_in_native_code_is_an_exception(capfd):
    with pytest.raises(errors.InternalError, match="raised on purpose.*report it"):
        relaxcrf._core.raise_internal_error()


def test_hierarchy():
    for name in errors.__all__:
        kind = getattr(errors, name)
        if name not in ("RelaxcrfError", "InputWarning"):
            assert issubclass(kind, errors.RelaxcrfError)
            assert issubclass(kind, (ValueError, TypeError, RuntimeError))
