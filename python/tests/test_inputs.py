"""Inputs that are recognised for what they are, and likely mistakes with the way out."""

import re

import numpy as np
import pytest
from conftest import make_scene

import relaxcrf
from relaxcrf import errors
from relaxcrf._inputs import check_pair, compact_labels, looks_wrapped


def fails(kind, text, call):
    with pytest.raises(kind, match=re.escape(text)) as caught:
        call()
    return str(caught.value)


def kernels(image):
    return [relaxcrf.Gaussian(2, 1), relaxcrf.Bilateral(image, 20, 13, 2)]


def test_foreground_map_is_p_and_one_minus_p():
    image, p, _ = make_scene(labels=2)
    both = relaxcrf.Model.from_probabilities(np.stack([1 - p[1], p[1]]), kernels(image))
    text = r"no axis of labels: taken as the probability p of a foreground, label 1, .* np.stack\(\[1 - p, p\], 0\)"
    with pytest.warns(errors.InputWarning, match=text):
        model = relaxcrf.Model.from_probabilities(p[1], kernels(image))
    np.testing.assert_array_equal(model.unary, both.unary)
    with pytest.warns(errors.InputWarning, match="one label on axis 0: taken as the probability p of a foreground"):
        model = relaxcrf.Model.from_probabilities(p[1:], kernels(image))
    np.testing.assert_array_equal(model.unary, both.unary)
    for axis in (0, -1):
        with pytest.warns(errors.InputWarning, match="no axis of labels"):
            pair = check_pair(image, p[1], axis, -1)
        np.testing.assert_allclose(np.moveaxis(pair, axis, 0), np.stack([1 - p[1], p[1]]))
    assert check_pair(image, p, 0, -1) is p


def test_batch_axis_of_one_image_is_to_be_dropped(scene):
    image, p, _ = scene
    from_probabilities, from_scores = relaxcrf.Model.from_probabilities, relaxcrf.Model.from_scores
    fails(errors.ShapeError, "drop the batch axis: probabilities[0]", lambda: from_probabilities(p[None]))
    fails(errors.ShapeError, "drop the batch axis: scores[0]", lambda: from_scores(p[None]))
    fails(errors.ShapeError, "drop the batch axis: image[0]", lambda: from_probabilities(p, kernels(image[None])))
    fails(errors.ShapeError, "use relaxcrf.batch", lambda: from_probabilities(p, kernels(np.stack([image] * 4))))
    with pytest.warns(errors.InputWarning, match=r"drop the batch axis \(unary\[0\]\)"):
        relaxcrf.Model(-np.log(p)[None])
    for pair, text in [
        ((image, p[None]), "drop the batch axis: probabilities[0]"),
        ((image[None], p), "drop the batch axis: image[0]"),
        ((image[None], p[None]), "drop the batch axis: image[0], probabilities[0]"),
        ((image.transpose(2, 0, 1)[None], p[None]), "drop the batch axis: image[0], probabilities[0]"),
        ((np.stack([image] * 3), np.stack([p] * 3)), "use relaxcrf.batch(images, probabilities)"),
    ]:
        fails(errors.ShapeError, text, lambda: check_pair(*pair, 0, -1))


def test_volume_has_no_batch_axis():
    p = np.full((2, 4, 5, 6), 0.5, np.float32)
    for image, channel_axis in [(np.zeros((4, 5, 6)), None), (np.zeros((4, 5, 6, 1)), -1), (np.zeros((1, 5, 6)), None)]:
        assert check_pair(image, p, 0, channel_axis) is p


def test_probabilities_given_as_energies_are_recognised(scene):
    _, p, _ = scene
    text = "sum to 1 at every pixel, as probabilities do.*use Model.from_probabilities"
    with pytest.warns(errors.InputWarning, match=text):
        model = relaxcrf.Model(p)
    with pytest.warns(errors.InputWarning, match=text):
        model.with_unary(p)
    relaxcrf.Model(np.full((2, 3, 4), 0.5))  # no preference at all
    relaxcrf.Model([[[0, 1]], [[1, 0]]])  # costs of wrong labels
    relaxcrf.Model(-np.log(p))


def test_scores_and_other_scales_given_as_probabilities_are_recognised(scene):
    _, p, _ = scene
    call = relaxcrf.Model.from_probabilities
    text = fails(errors.DataError, "use Model.from_scores, or take the softmax first", lambda: call(np.log(p) + 1))
    assert re.match(r"probabilities hold -?[\d.]+ at x \d+, y \d+, label \d, but must be numbers from 0 to 1 \(values", text)
    for bytes_ in (255 * p, np.rint(255 * p).astype(np.uint8)):
        fails(errors.DataError, "Divide by 255: probabilities / 255", lambda: call(bytes_))
    fails(errors.DataError, "Divide by 100: probabilities / 100", lambda: call(100 * p))


def test_nan_is_named_with_its_place(scene):
    _, p, _ = scene
    for axis, moved in [(0, p.copy()), (-1, p.transpose(1, 2, 0).copy())]:
        moved[(1, 2, 3) if axis == 0 else (2, 3, 1)] = np.nan
        text = "probabilities hold NaN at x 3, y 2, label 1, but"
        fails(errors.DataError, text, lambda: relaxcrf.Model.from_probabilities(moved, label_axis=axis))
        text = "unary energies hold NaN at x 3, y 2, label 1, but must be finite"
        fails(errors.DataError, text, lambda: relaxcrf.Model(moved, label_axis=axis))
    text = "probabilities hold NaN at x 4, y 3, z 2, label 1"
    volume = np.full((2, 3, 4, 5), 0.5)
    volume[1, 2, 3, 4] = np.nan
    fails(errors.DataError, text, lambda: relaxcrf.Model.from_probabilities(volume))
    fails(errors.DataError, "NaN at pixel 1, label 0", lambda: relaxcrf.Model([[0, np.nan], [0, 0]]))


def test_file_name_in_place_of_an_array(scene, tmp_path):
    image, p, _ = scene
    text = "image is 'photo.jpg', but an array is expected: read it first, with numpy.asarray(PIL.Image.open('photo.jpg')"
    fails(errors.DtypeError, text, lambda: relaxcrf.refine("photo.jpg", p))
    fails(errors.DtypeError, text, lambda: relaxcrf.Bilateral("photo.jpg", 20, 13))
    text = "probabilities is 'p.npy', but an array is expected: read it first, with numpy.load('p.npy')"
    fails(errors.DtypeError, text, lambda: relaxcrf.refine(image, "p.npy"))
    fails(errors.DtypeError, "numpy.load(", lambda: relaxcrf.refine(image, tmp_path / "p.npy"))
    fails(errors.DtypeError, "but an array is expected", lambda: relaxcrf.refine(image, "probabilities"))


def test_image_from_0_to_1_is_told_both_ways_out(scene):
    image, p, _ = scene
    text = "pass data_range=1 to refine, or divide sigma_rgb of Bilateral by 255"
    with pytest.warns(errors.InputWarning, match=text):
        relaxcrf.refine(image / 255, p)
    with pytest.warns(errors.InputWarning, match=text):
        relaxcrf.Model.from_probabilities(p, kernels(image / 255))


def test_masks_and_sparse_values_are_compacted_and_restored():
    for values, unsure in [([0, 255, 0], None), ([0, 12, 180], None), ([0, 255, 1], 1), ([7, 60, 255], 255), ([9], None)]:
        given = np.array(values)
        labels, back, mark = compact_labels(given, unsure)
        sure = given != unsure
        np.testing.assert_array_equal(back[labels[sure]], given[sure])
        assert labels[sure].max() == back.size - 1 and (labels[~sure] == mark).all()
    for values, unsure in [([0, 1, 2], None), ([0, 1, 5], None), ([0, 1, 255], 255), ([255], 255), ([-1, 90], None)]:
        labels, back, mark = compact_labels(np.array(values), unsure)
        assert back is None and mark == unsure and labels.tolist() == values


def wrapped(image, mean):
    return (np.asarray(image, float) - mean).astype(int).astype(np.uint8)


def test_wrapped_image_is_warned_about():
    y, x = np.mgrid[:200, :200]
    ramp = (20 + x + (7 * x + 13 * y) % 9).astype(np.uint8)
    p = np.random.default_rng(0).dirichlet([1, 1], (200, 200))
    relaxcrf.Model.from_probabilities(p, [relaxcrf.Bilateral(ramp, 20, 13)], label_axis=-1)
    for image in (wrapped(ramp, 117), wrapped(ramp, 117).astype(np.float32), wrapped(ramp, 117)[..., None].repeat(3, 2)):
        with pytest.warns(errors.InputWarning, match="seem to have wrapped around.*casting to uint8"):
            relaxcrf.Model.from_probabilities(p, [relaxcrf.Bilateral(image, 20, 13)], label_axis=-1)


def test_drawings_noise_and_other_scales_do_not_look_wrapped():
    rng = np.random.default_rng(0)
    text = np.where(rng.random((100, 100)) < 0.3, 0, 255).astype(np.uint8).repeat(3, 0).repeat(2, 1)
    noise = rng.integers(0, 256, (300, 300, 3), dtype=np.uint8)
    labels = rng.choice(np.array([0, 224, 128], np.uint8), (100, 100))
    ramp = wrapped(np.mgrid[:200, :200][1] + 20, 117)
    for image in (text, noise, labels, ramp + 0.5, ramp.astype(np.int16) - 128, np.zeros((0, 3)), np.zeros(5)):
        assert not looks_wrapped(image)


def test_no_shared_picture_looks_wrapped_and_nearly_all_wrapped_ones_do(shared):
    image_module = pytest.importorskip("PIL.Image")
    files = [f for f in sorted((shared / "data").rglob("*")) if f.suffix in (".png", ".jpg", ".ppm", ".bmp")]
    photographs = hits = 0
    for file in files:
        picture = image_module.open(file)
        image = np.asarray(picture if picture.mode in ("L", "RGB") else picture.convert("RGB"))
        assert not looks_wrapped(image), file
        if file.parent.name == "images" and image.ndim == 3:
            photographs += 1
            hits += looks_wrapped(wrapped(image, [123.68, 116.78, 103.94]))
    assert photographs > 100 and hits >= 0.95 * photographs, (hits, photographs)
