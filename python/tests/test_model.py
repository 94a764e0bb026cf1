"""Models: the energy they define, and what can be done with them."""

import pickle

import numpy as np
import pytest
from conftest import make_scene

import relaxcrf


def true_energy(unary, kernels, compatibility, labels, normalization="none"):
    """The formula, in double precision: kernels are (features, weight)."""
    count = unary.shape[0]
    flat, x = unary.reshape(count, -1).astype(float), labels.ravel()
    total = flat[x, np.arange(x.size)].sum()
    for features, weight in kernels:
        k = np.exp(-0.5 * ((features[:, None] - features[None]) ** 2).sum(-1))
        if normalization == "symmetric":
            n = k.sum(1)
            k /= np.sqrt(n[:, None] * n[None])
        np.fill_diagonal(k, 0)
        total += weight * (k * compatibility[x[:, None], x[None]]).sum()
    return total


@pytest.mark.parametrize("normalization", ["none", "symmetric"])
@pytest.mark.parametrize("compatibility", ["potts", "linear", "linear:1.5", "weights", "matrix"])
def test_energy_is_the_formula(normalization, compatibility):
    image, p, truth = make_scene(7, 9, 3)
    y, x = np.indices((7, 9)).reshape(2, -1)
    position = np.stack([x, y], 1).astype(float)
    color = np.concatenate([position / 8, image.reshape(-1, 3) / 20], 1)
    i, j = np.indices((3, 3))
    weights = np.array([1.0, 2.0, 0.5])
    matrix = np.array([[0, 1, 3], [1, 0, 2], [3, 2, 0.0]])
    given, costs = {
        "potts": ("potts", (i != j) * 1.0),
        "linear": ("linear", abs(i - j) * 1.0),
        "linear:1.5": ("linear:1.5", np.minimum(abs(i - j), 1.5)),
        "weights": (weights, (i != j) * (weights[i] + weights[j]) / 2),
        "matrix": (matrix, matrix),
    }[compatibility]
    kernels = [relaxcrf.Gaussian(2, 1.5), relaxcrf.Bilateral(image, 8, 20, 3)]
    model = relaxcrf.Model(-np.log(p), kernels, given, normalization=normalization, filter="lattice")
    want = true_energy(-np.log(p), [(position / 2, 1.5), (color, 3)], costs, truth, normalization)
    assert model.energy(truth, exact=True) == pytest.approx(want, rel=1e-4)
    assert model.energy(truth) == pytest.approx(want, rel=0.3)
    assert sum(model.energy_parts(truth)) == model.energy(truth)


def test_sigma_per_axis_is_x_first():
    unary = np.zeros((2, 5, 9), np.float32)
    labels = np.zeros((5, 9), int)
    labels[:, 4:] = 1
    wide_x = relaxcrf.Model(unary, [relaxcrf.Gaussian((4, 0.3), 1)], filter="exact", normalization="none")
    wide_y = relaxcrf.Model(unary, [relaxcrf.Gaussian((0.3, 4), 1)], filter="exact", normalization="none")
    assert wide_x.energy(labels) > 3 * wide_y.energy(labels)


def test_kernels_from_a_generator():
    model = relaxcrf.Model(np.zeros((2, 3, 4)), (relaxcrf.Gaussian(s) for s in (1, 2)))
    assert len(model.kernels) == 2


def test_forbidden_labels():
    unary = np.zeros((2, 3, 3))
    unary[1, 1, 1] = np.inf
    model = relaxcrf.Model(unary, [relaxcrf.Gaussian(1, 1)])
    labels = np.ones((3, 3), int)
    assert model.energy(labels) == np.inf
    assert relaxcrf.solve(model, "mf").labels[1, 1] == 0
    assert model.unary[1, 1, 1] == np.inf


def test_other_unary_shares_filters(scene):
    image, p, truth = scene
    model = relaxcrf.Model(-np.log(p), [relaxcrf.Bilateral(image, 20, 13, 5)])
    other = model.with_unary(np.zeros_like(p))
    assert other.energy(truth) == pytest.approx(model.energy_parts(truth)[1])
    assert model.energy(truth) != other.energy(truth)
    with pytest.raises(relaxcrf.errors.ShapeError):
        model.with_unary(np.zeros((3, 5, 5)))


def test_pickles(scene):
    image, p, truth = scene
    kernels = [
        relaxcrf.Gaussian((3, 2), 1.5),
        relaxcrf.Bilateral(image, 40, (13, 12, 11), 5),
        relaxcrf.Features(image / 25.0, 2),
    ]
    u = -np.log(p.transpose(1, 2, 0))
    model = relaxcrf.Model(u, kernels, "linear:2", label_axis=-1, normalization="none", filter="lattice-classic")
    again = pickle.loads(pickle.dumps(model))
    assert repr(again) == repr(model)
    assert again.energy(truth) == model.energy(truth)
    result = relaxcrf.solve(model, "mf", max_iter=3)
    back = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(back.labels, result.labels)
    np.testing.assert_array_equal(back.probabilities, result.probabilities)
    assert back.trace == result.trace and back.energy == result.energy
    assert relaxcrf.solve(again, "mf", max_iter=3).energy == result.energy
    for kernel in kernels:
        assert repr(pickle.loads(pickle.dumps(kernel))) == repr(kernel)
    assert pickle.loads(pickle.dumps(relaxcrf.presets())) == relaxcrf.presets()


def test_views_for_people(scene):
    image, p, _ = scene
    model = relaxcrf.Model(-np.log(p), [relaxcrf.Bilateral(image, 20, 13, 5)])
    assert "23 x 31" in repr(model) and "bilateral 20:13:5" in repr(model)
    assert "<table>" in model._repr_html_() and "bilateral" in model._repr_html_()
    result = relaxcrf.solve(model, "mf")
    assert "energy" in repr(result) and len(repr(result)) < 400
    assert "data:image/png;base64," in result._repr_html_()
    assert np.asarray(result) is result.labels


def test_picture_is_a_png(scene):
    import base64
    import io

    image_module = pytest.importorskip("PIL.Image")
    from relaxcrf._html import label_image

    labels = np.arange(6).reshape(2, 3)
    data = label_image(labels).split("base64,")[1].split("'")[0]
    picture = np.asarray(image_module.open(io.BytesIO(base64.b64decode(data))))
    assert picture.shape == (2, 3, 3)
    assert picture[0, 1].tolist() == [128, 0, 0] and picture[1, 0].tolist() == [128, 128, 0]


def test_from_scores_and_labels():
    scores = np.random.default_rng(0).normal(size=(3, 4, 5))
    model = relaxcrf.Model.from_scores(scores)
    softmax = np.exp(scores) / np.exp(scores).sum(0)
    np.testing.assert_allclose(model.unary, -np.log(softmax), rtol=1e-4, atol=1e-5)
    marks = np.array([[0, 1], [255, 1]])
    unary = relaxcrf.Model.from_labels(marks, 2, confidence=0.9, unsure=255).unary
    np.testing.assert_allclose(unary[:, 0, 0], [-np.log(0.9), -np.log(0.1)], rtol=1e-5)
    np.testing.assert_allclose(unary[:, 1, 0], np.log(2), rtol=1e-5)
    with pytest.raises(TypeError, match="unknown arguments: colour"):
        relaxcrf.Model.from_scores(scores, colour=1)


def test_more_than_256_labels():
    unary = np.random.default_rng(0).random((300, 4, 5))
    result = relaxcrf.solve(relaxcrf.Model(unary), "unary")
    assert result.labels.dtype == np.uint16
    np.testing.assert_array_equal(result.labels, unary.argmin(0))


def test_point_set():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(0, 1, (50, 6)), rng.normal(6, 1, (50, 6))])
    unary = rng.normal(0, 0.3, (2, 100))
    unary[0, :50] -= 0.2
    unary[1, 50:] -= 0.2
    result = relaxcrf.solve(relaxcrf.Model(unary, [relaxcrf.Features(points / 3, 3)]), "mf")
    np.testing.assert_array_equal(result.labels, np.repeat([0, 1], 50))


def test_filter_and_stereo():
    rng = np.random.default_rng(0)
    features = rng.random((40, 3)) * 3
    values = rng.random((40, 2))
    kernel = np.exp(-0.5 * ((features[:, None] - features[None]) ** 2).sum(-1))
    np.testing.assert_allclose(relaxcrf.filter(features, values, "exact"), kernel @ values, rtol=1e-4)
    forward = relaxcrf.filter(features, np.eye(40), "lattice-classic")
    backward = relaxcrf.filter(features, np.eye(40), "lattice-classic", transposed=True)
    np.testing.assert_allclose(forward.T, backward, atol=1e-5)
    symmetric = relaxcrf.filter(features, np.eye(40), "lattice")
    np.testing.assert_allclose(symmetric, (forward + backward) / 2, atol=1e-5)
    assert relaxcrf.filter(features, values[:, 0]).shape == (40,)

    right = rng.integers(0, 255, (9, 30, 3), np.uint8)
    left = np.roll(right, 4, axis=1)
    for measure in ("absolute", "birchfield-tomasi", "census"):
        costs = relaxcrf.stereo_unary(left, right, 8, measure)
        assert costs.shape == (8, 9, 30) and costs.dtype == np.float32
        assert (costs[4] <= costs.min(0))[:, 12:26].all(), measure
        assert (costs[4] < costs[0])[:, 12:26].mean() > 0.5, measure
    first = relaxcrf.stereo_unary(left.transpose(2, 0, 1), right.transpose(2, 0, 1), 8, channel_axis=0)
    np.testing.assert_array_equal(first, relaxcrf.stereo_unary(left, right, 8))
