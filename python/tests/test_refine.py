"""One call from probabilities to labels."""

import sys

import os

import numpy as np
import pytest
from conftest import make_scene

import relaxcrf
from relaxcrf.compat.pydensecrf import densecrf as dcrf
from relaxcrf.compat.pydensecrf import utils


UPDATES = [name for name, preset in relaxcrf.presets().items() if preset.method[2:].isdigit()]


# On noise this small most presets are very strong.
MAY_BE_STRONG = pytest.mark.filterwarnings("ignore:label . at every pixel has lower energy")


@MAY_BE_STRONG
@pytest.mark.parametrize("name", UPDATES)
def test_presets_are_what_pydensecrf_does_with_twice_the_weights(name, scene):
    image, p, _ = scene
    preset = relaxcrf.presets()[name]
    crf = dcrf.DenseCRF2D(31, 23, 3)
    crf.setUnaryEnergy(utils.unary_from_softmax(p))
    normalization = {"symmetric": dcrf.NORMALIZE_SYMMETRIC, "none": dcrf.NO_NORMALIZATION}[preset.normalization]
    sigma, weight = preset.gaussian
    crf.addPairwiseGaussian(sigma, 2 * weight, normalization=normalization)
    sigma_xy, sigma_rgb, weight = preset.bilateral
    crf.addPairwiseBilateral(sigma_xy, sigma_rgb, image, 2 * weight, normalization=normalization)
    want = crf.inference(int(preset.method[2:])).reshape(3, 23, 31)
    got = relaxcrf.refine(image, p, name, output="probabilities")
    np.testing.assert_allclose(got, want, atol=1e-3)
    np.testing.assert_array_equal(relaxcrf.refine(image, p, preset), got.argmax(0))
    result = relaxcrf.refine(image, p, name, output="result")
    np.testing.assert_array_equal(result.probabilities, got)
    np.testing.assert_array_equal(result.labels, got.argmax(0))


@MAY_BE_STRONG
@pytest.mark.parametrize("method", ["mf", "mf1", "mf10", "qp+mf5", "unary"])
def test_labels_of_mean_field_are_the_argmax_of_the_probabilities(method, scene):
    image, p, _ = scene
    result = relaxcrf.refine(image, p, "pydensecrf", method=method, output="result")
    np.testing.assert_array_equal(result.labels, result.probabilities.argmax(0))
    np.testing.assert_array_equal(relaxcrf.refine(image, p, "pydensecrf", method=method), result.labels)
    soft = relaxcrf.refine(image, p, "pydensecrf", method=method, output="probabilities")
    np.testing.assert_array_equal(soft, result.probabilities)
    assert result.best_energy <= result.energy == result.final_energy


def test_constant_labels_of_lower_energy_are_told():
    image, p, _ = make_scene()
    strong = relaxcrf.presets()["network"]._replace(gaussian=(3, 400), normalization="none", method="mf1")
    for output in ("labels", "probabilities", "result"):
        with pytest.warns(relaxcrf.errors.InputWarning, match="label . at every pixel has lower energy .* preset='network'"):
            found = relaxcrf.refine(image, p, strong, output=output)
    assert len(np.unique(found.labels)) > 1 and len(np.unique(found.best)) == 1
    assert found.lower_constant == (found.best.flat[0], found.best_energy)


def test_hard_labels_and_iterations(scene):
    image, p, truth = scene
    noisy = p.argmax(0)
    refined = relaxcrf.refine(image, labels=noisy)
    assert (refined == truth).mean() > (noisy == truth).mean()
    marked = noisy.copy()
    marked[:5] = 9
    assert relaxcrf.refine(image, labels=marked, unsure=9, confidence=0.9).max() < 3
    ten = relaxcrf.refine(image, p, output="probabilities")
    np.testing.assert_array_equal(relaxcrf.refine(image, p, iterations=10, output="probabilities"), ten)
    three = relaxcrf.refine(image, p, iterations=3, output="probabilities")
    np.testing.assert_array_equal(relaxcrf.refine(image, p, method="mf3", output="probabilities"), three)
    mask = np.where(noisy > 0, 255, 0)
    refined = relaxcrf.refine(image, labels=mask)
    assert refined.dtype == np.uint8 and set(np.unique(refined)) == {0, 255}
    result = relaxcrf.refine(image, labels=mask, output="result")
    np.testing.assert_array_equal(result.labels, refined)
    assert result.probabilities.shape[0] == 2
    sparse = relaxcrf.refine(image, labels=np.choose(noisy, [0, 12, 180]))
    assert set(np.unique(sparse)) <= {0, 12, 180} and relaxcrf.refine(image, labels=noisy).max() <= 2
    for wrong in ({}, {"probabilities": p, "labels": noisy}):
        with pytest.raises(relaxcrf.errors.ArgumentError, match="either probabilities or labels="):
            relaxcrf.refine(image, **wrong)
    with pytest.raises(relaxcrf.errors.ArgumentError, match="every label is marked unsure"):
        relaxcrf.refine(image, labels=np.full((23, 31), 7), unsure=7)


def test_outputs_and_methods(scene):
    image, p, truth = scene
    labels = relaxcrf.refine(image, p)
    assert labels.dtype == np.uint8 and labels.shape == truth.shape
    assert (labels == truth).mean() > (p.argmax(0) == truth).mean()
    better = relaxcrf.refine(image, p, method="mf", output="result")
    assert better.energy <= relaxcrf.refine(image, p, output="result").energy * 1.001
    last = relaxcrf.refine(image, p.transpose(1, 2, 0), label_axis=-1, output="probabilities")
    assert last.shape == (23, 31, 3)


@MAY_BE_STRONG
def test_grey_volumes_and_own_presets():
    image, p, _ = make_scene(channels=1)
    np.testing.assert_array_equal(relaxcrf.refine(image, p), relaxcrf.refine(image[..., 0], p))
    own = relaxcrf.presets()["voc"]._replace(method="unary")
    np.testing.assert_array_equal(relaxcrf.refine(image, p, own), p.argmax(0))
    volume = np.random.default_rng(0).integers(0, 255, (5, 6, 7), np.uint8)
    probabilities = np.random.default_rng(1).dirichlet([1, 1], size=volume.shape)
    assert relaxcrf.refine(volume, probabilities, "volume", label_axis=-1).shape == (5, 6, 7)


@pytest.mark.parametrize("path", [1, True, np.int8(1), None, b"a.toml", 1.5])
def test_a_preset_file_is_no_open_one(path, tmp_path):
    """A number would be a file that is open already: it was read, and closed."""
    with open(tmp_path / "open", "wb") as file:
        given = file.fileno() if path == 1 else path
        with pytest.raises(TypeError, match="path is .*str or an os.PathLike"):
            relaxcrf.read_preset(given)
        os.fstat(file.fileno())


@pytest.mark.skipif(sys.platform == "win32", reason="no such files")
def test_a_preset_file_has_an_end(tmp_path, scene):
    pipe, long = tmp_path / "pipe.toml", tmp_path / "long.toml"
    os.mkfifo(pipe)
    long.write_text("#" * (1 << 17))
    for path, says in ((pipe, "is no preset file"), ("/dev/zero", "is no preset file"), (long, "is no preset file")):
        for call in (relaxcrf.read_preset, lambda path: relaxcrf.refine(*scene[:2], path)):
            with pytest.raises(relaxcrf.errors.ArgumentError, match=says):
                call(path)
    long.write_text("".join(f"key{k} = 1\n" for k in range(2000)))
    with pytest.raises(relaxcrf.errors.ArgumentError, match="line 1: unknown field `key0`") as caught:
        relaxcrf.read_preset(long)
    assert len(str(caught.value)) < 500


def test_preset_files(tmp_path, scene):
    image, p, _ = scene
    path = tmp_path / "mine.toml"
    path.write_text(
        'source = "measured"\niterations = 10\n[gaussian]\nsigma = 1\nweight = 1.5\n'
        "[bilateral]\nsigma_xy = 67\nsigma_rgb = 3\nweight = 2\n"
    )
    mine = relaxcrf.read_preset(path)
    assert (mine.name, mine.source, mine.gaussian, mine.bilateral) == ("mine", "measured", (1, 1.5), (67, 3, 2))
    want = relaxcrf.refine(image, p, "voc", output="probabilities")
    for preset in (path, str(path), mine):
        np.testing.assert_array_equal(relaxcrf.refine(image, p, preset, output="probabilities"), want)
    whole = path.read_text()
    for damaged, says in [
        ("", "gaussian"),
        (whole.replace("weight = 1.5", "wieght = 1.5"), "weight"),
        (whole.replace("sigma_rgb = 3", "sigma_rgb = 0"), "positive"),
        (whole.replace("= 67", '= "wide"'), "line 7: invalid type: string .wide."),
        (whole.replace("= 10", "= -1"), "line 2: invalid value: integer `-1`"),
        (whole.replace("iterations = 10", 'method = "magic"'), "known methods"),
        (whole.replace("iterations = 10", 'iterations = 10\nmethod = "mf"'), "both `method` and `iterations`"),
        ("colour = 1\n" + whole, "colour"),
        ("[[", "line 1: .*in TOML"),
    ]:
        path.write_text(damaged)
        with pytest.raises(relaxcrf.errors.ArgumentError, match=says) as error:
            relaxcrf.refine(image, p, path)
        assert "mine.toml" in str(error.value)
    with pytest.raises(relaxcrf.errors.ArgumentError, match="gone.toml"):
        relaxcrf.refine(image, p, "gone.toml")
    with pytest.raises(relaxcrf.errors.ArgumentError, match="voc"):
        relaxcrf.refine(image, p, "vok")


def mean_iou(counts):
    hit = np.diag(counts)
    union = counts.sum(0) + counts.sum(1) - hit
    present = counts.sum(1) > 0
    return (hit[present] / union[present]).mean()


def test_network_scores_on_photographs(shared):
    """The default never makes VOC scores worse. A sample of the images; docs/python.md has the whole set."""
    pictures = pytest.importorskip("PIL.Image")
    root = shared / "data" / "segmentation" / "voc"
    files = sorted((root / "probs").glob("*.npz"))[::10]
    if not files:
        pytest.skip(f"no probabilities in {root}")
    before, after = np.zeros((21, 21)), np.zeros((21, 21))
    for file in files:
        p = np.load(file)["prob"]
        image = np.asarray(pictures.open(next((root / "images").glob(file.stem + ".*"))).convert("RGB"))
        truth = np.asarray(pictures.open(root / "truth" / (file.stem + ".png")))
        known = truth < 21
        for counts, labels in ((before, p.argmax(0)), (after, relaxcrf.refine(image, p, threads=1))):
            np.add.at(counts, (truth[known], labels[known]), 1)
    assert mean_iou(after) >= mean_iou(before), (mean_iou(before), mean_iou(after))


def test_person_is_kept_and_kernels_that_would_remove_it_are_told(shared):
    """One label everywhere has lower energy under strong kernels: it is told, and replaces nothing."""
    pictures = pytest.importorskip("PIL.Image")
    root = shared / "data" / "segmentation" / "voc"
    file = root / "probs" / "2010_002763.npz"
    if not file.exists():
        pytest.skip(f"no probabilities in {root}")
    p = np.load(file)["prob"]
    image = np.asarray(pictures.open(next((root / "images").glob(file.stem + ".*"))).convert("RGB"))
    before = (p.argmax(0) > 0).mean()
    # Without a warning, which would be an error here.
    assert (relaxcrf.refine(image, p) > 0).mean() > 0.9 * before
    with pytest.warns(relaxcrf.errors.InputWarning, match="label 0 at every pixel has lower energy .*preset='network'"):
        assert (relaxcrf.refine(image, p, "pydensecrf") > 0).mean() > 0.7 * before
