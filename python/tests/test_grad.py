"""Gradients without torch, and learned presets."""

import numpy as np
import pytest

import relaxcrf


def problem(seed=0, shape=(5, 6), labels=3):
    rng = np.random.default_rng(seed)
    unary = rng.normal(size=(labels, *shape))
    image = rng.uniform(0, 100, (*shape, 3))
    features = rng.normal(size=(*shape, 2))
    return unary, image, features, rng.normal(size=(labels, *shape))


def kernels(image, features, sigma=2.0, sigma_rgb=40.0, weight=0.6):
    return [
        relaxcrf.Gaussian(sigma, weight),
        relaxcrf.Bilateral(image, 4.0, sigma_rgb, 0.8),
        relaxcrf.Features(features, 0.5),
    ]


def difference(function, step):
    return (8 * (function(step) - function(-step)) - function(2 * step) + function(-2 * step)) / (12 * step)


@pytest.mark.parametrize("normalization", ["symmetric", "none", "before", "after"])
def test_gradients_equal_finite_differences_in_double_precision(normalization):
    unary, image, features, direction = problem()
    costs = np.array([[0, 1, 0.5], [1, 0, 0.8], [0.5, 0.8, 0]])
    options = {"compatibility": costs, "dtype": np.float64, "normalization": normalization}

    def value(unary=unary, image=image, features=features, options=options, **parts):
        beliefs, _ = relaxcrf.grad(unary, kernels(image, features, **parts), **options)
        return float((beliefs * direction).sum())

    beliefs, backward = relaxcrf.grad(unary, kernels(image, features), **options)
    assert beliefs.dtype == np.float64
    np.testing.assert_allclose(beliefs.sum(0), 1)
    found = backward(direction, features=True)

    def moved(array, at, step):
        array = array.copy()
        array[at] += step
        return array

    near = lambda got, expected: np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9)
    near(found.unary[1, 2, 3], difference(lambda h: value(unary=moved(unary, (1, 2, 3), h)), 1e-3))
    near(found.features[1][2, 3, 1], difference(lambda h: value(image=moved(image, (2, 3, 1), h)), 1e-2))
    near(found.features[2][2, 3, 1], difference(lambda h: value(features=moved(features, (2, 3, 1), h)), 1e-3))
    near(found.weights[0], difference(lambda h: value(weight=0.6 + h), 1e-3))
    near(found.sigmas[0][0], difference(lambda h: value(sigma=2 + h), 1e-3))
    near(found.sigmas[1][1], difference(lambda h: value(sigma_rgb=40 + h), 1e-2))

    def with_cost(h):
        changed = moved(moved(costs, (0, 2), h), (2, 0), h)
        return value(options={**options, "compatibility": changed})

    near(2 * found.compatibility[0, 2], difference(with_cost, 1e-3))
    widths_only = backward(direction)
    np.testing.assert_allclose(widths_only.sigmas[1][1], found.sigmas[1][1], rtol=1e-9)


def test_single_precision_on_the_lattice_is_close_and_has_any_label_axis():
    unary, image, features, direction = problem(shape=(24, 30))
    single, backward = relaxcrf.grad(np.moveaxis(unary, 0, -1), kernels(image, features), label_axis=-1)
    model = relaxcrf.Model(unary, kernels(image, features), filter="lattice-classic")
    expected = relaxcrf.solve(model, "mf5").probabilities
    np.testing.assert_allclose(np.moveaxis(single, -1, 0), expected, atol=2e-3)
    gradients = backward(np.moveaxis(direction, 0, -1))
    assert gradients.unary.shape == single.shape and gradients.compatibility is None


def test_bad_input_is_an_error():
    unary, image, features, direction = problem()
    with pytest.raises(relaxcrf.errors.ArgumentError, match="float32 or float64"):
        relaxcrf.grad(unary, [relaxcrf.Gaussian(2)], dtype=np.int32)
    with pytest.raises(relaxcrf.errors.ArgumentError, match="linear"):
        relaxcrf.grad(unary, [relaxcrf.Gaussian(2)], compatibility="linear")
    with pytest.raises(relaxcrf.errors.ArgumentError, match="exact"):
        relaxcrf.grad(unary, [relaxcrf.Gaussian(2)], dtype=np.float64, filter="lattice")
    _, backward = relaxcrf.grad(unary, [relaxcrf.Gaussian(2)])
    with pytest.raises(relaxcrf.errors.ShapeError, match="beliefs"):
        backward(direction[:2])


LEARNED = """
method = "mf3"
gaussian = { sigma = 1, weight = 0.5 }
bilateral = { sigma_xy = 20, sigma_rgb = 8, weight = 0.7 }
[unary]
temperature = 1.5
bias = [0.1, -0.2, 0.0]
[labels]
costs = [1.0, 0.8, 1.2]
"""


def test_learned_preset_changes_energies_and_label_costs_everywhere(scene, tmp_path):
    image, probabilities, _ = scene
    path = tmp_path / "learned.toml"
    path.write_text(LEARNED)
    preset = relaxcrf.read_preset(path)
    assert (preset.temperature, preset.bias, preset.label_costs) == (1.5, (0.1, -0.2, 0.0), (1.0, 0.8, 1.2))
    bias = np.array(preset.bias)[:, None, None]
    unary = -np.log(np.maximum(probabilities, 1e-5)) / 1.5 + bias
    kernels = [relaxcrf.Gaussian(1, 0.5), relaxcrf.Bilateral(image, 20, 8, 0.7)]
    model = relaxcrf.Model(unary, kernels, compatibility=[1.0, 0.8, 1.2], filter="lattice-classic")
    expected = relaxcrf.solve(model, "mf3").probabilities
    found = relaxcrf.refine(image, probabilities, path, output="probabilities")
    np.testing.assert_allclose(found, expected, atol=1e-5)
    tiled = relaxcrf.refine_tiled(image, probabilities, preset, output="probabilities")
    np.testing.assert_allclose(tiled, expected, atol=1e-5)
    [batched] = relaxcrf.batch([image], [probabilities], preset)
    np.testing.assert_array_equal(batched, found.argmax(0))
    with pytest.raises(relaxcrf.errors.ShapeError, match="bias of the preset has 3 labels"):
        relaxcrf.refine(image, probabilities[:2] / probabilities[:2].sum(0), preset)


@pytest.mark.parametrize("part", ["[unary]\ntemperature = 0", "[unary]\nheat = 1", "[labels]\ncosts = [-1.0]"])
def test_damaged_learned_parts_are_refused(tmp_path, part):
    path = tmp_path / "bad.toml"
    path.write_text(LEARNED.split("[unary]")[0] + part)
    with pytest.raises(relaxcrf.errors.ArgumentError, match="bad.toml"):
        relaxcrf.read_preset(path)
