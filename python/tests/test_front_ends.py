"""Every way to refine the same input gives the same labels, and `refine` crosses into the extension few times."""

import numpy as np
import pytest
from conftest import make_scene

import relaxcrf
from relaxcrf import _core


class Counted:
    """The extension module, or an object of it, with its calls counted."""

    def __init__(self, inner, calls):
        self._inner, self._calls = inner, calls

    def __getattr__(self, name):
        thing = getattr(self._inner, name)
        if not callable(thing):
            self._calls.append(name)
            return thing

        def call(*args, **kwargs):
            self._calls.append(name)
            plain = [a._inner if isinstance(a, Counted) else a for a in args]
            made = thing(*plain, **kwargs)
            return Counted(made, self._calls) if isinstance(made, _core.Model) else made

        return call


@pytest.mark.parametrize("output", ["labels", "probabilities", "result"])
@pytest.mark.parametrize("given", ["probabilities", "labels"])
def test_refine_crosses_into_the_extension_at_most_four_times(monkeypatch, scene, output, given):
    image, p, _ = scene
    inputs = {"probabilities": p} if given == "probabilities" else {"labels": p.argmax(0).astype(np.uint8)}
    expected = relaxcrf.refine(image, **inputs, output=output)
    calls = []
    for module in (relaxcrf._refine, relaxcrf._model, relaxcrf._solve, relaxcrf._kernels, relaxcrf._arrays):
        if hasattr(module, "_core"):
            monkeypatch.setattr(module, "_core", Counted(_core, calls))
    relaxcrf._refine._known_presets.cache_clear()
    found = relaxcrf.refine(image, **inputs, output=output)
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
    assert 1 <= len(calls) <= 4, calls
    assert output == "result" or calls.count("refine") == 1, calls


def test_labels_are_equal_for_every_output_batch_and_tiles():
    for seed, labels in ((1, 2), (2, 3), (3, 21)):
        image, p, _ = make_scene(60, 70, labels, seed)
        expected = relaxcrf.refine(image, p)
        assert not np.array_equal(expected, p.argmax(0)), "nothing was refined"
        np.testing.assert_array_equal(relaxcrf.refine(image, p, output="probabilities").argmax(0), expected)
        result = relaxcrf.refine(image, p, output="result")
        np.testing.assert_array_equal(result.labels, expected)
        np.testing.assert_array_equal(result.probabilities.argmax(0), expected)
        for found in relaxcrf.batch([image, image], [p, p], jobs=2):
            np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(relaxcrf.refine_tiled(image, p, tile=100), expected)
        # Tiles smaller than the image see all of it through their halo.
        np.testing.assert_array_equal(relaxcrf.refine_tiled(image, p, tile=30, halo=70), expected)


def test_labels_of_dask_and_ray_equal_those_of_refine():
    image, p, _ = make_scene(60, 70, 3, 4)
    expected = relaxcrf.refine(image, p)
    pytest.importorskip("ray")
    from relaxcrf.ray import Refiner

    column = Refiner(threads=1)({"image": image[None], "probabilities": p[None]})["labels"]
    np.testing.assert_array_equal(column[0], expected)
    da = pytest.importorskip("dask.array")
    from relaxcrf.dask import refine

    chunked = refine(da.from_array(image, (30, 40, 3)), da.from_array(p, (3, 30, 40)), halo=30)
    assert (np.asarray(chunked) == expected).mean() > 0.99
    whole = refine(da.from_array(image, image.shape), da.from_array(p, p.shape))
    np.testing.assert_array_equal(np.asarray(whole), expected)


def test_kernels_take_label_costs_of_their_own():
    image, p, _ = make_scene()
    unary = -np.log(np.clip(p, 1e-5, 1))

    def model(first, second, **options):
        kernels = [relaxcrf.Gaussian(3, 1, compatibility=first), relaxcrf.Bilateral(image, 9, 13, 1, compatibility=second)]
        return relaxcrf.Model(unary, kernels, **options)

    line = np.abs(np.subtract.outer(np.arange(3), np.arange(3))).astype(float)
    twice = model(2, 3 * (1 - np.eye(3)))
    plain = relaxcrf.Model(unary, [relaxcrf.Gaussian(3, 2), relaxcrf.Bilateral(image, 9, 13, 3)])
    labels = p.argmax(0)
    assert twice.energy(labels) == pytest.approx(plain.energy(labels), rel=1e-5)
    assert relaxcrf.solve(twice, "qp+dc-neg").energy == pytest.approx(relaxcrf.solve(plain, "qp+dc-neg").energy, rel=1e-5)
    mixed = model(None, line)
    only = [relaxcrf.Model(unary, k) for k in ([relaxcrf.Gaussian(3, 1)],)]
    only.append(relaxcrf.Model(unary, [relaxcrf.Bilateral(image, 9, 13, 1)], compatibility=line))
    parts = sum(m.energy_parts(labels)[1] for m in only)
    assert mixed.energy_parts(labels)[1] == pytest.approx(parts, rel=1e-4)
    assert relaxcrf.solve(mixed, "qp").lower_bound <= relaxcrf.solve(mixed, "auto").energy
    with pytest.raises(relaxcrf.errors.MethodError, match="the kernels have different label costs"):
        relaxcrf.solve(mixed, "dc-neg")
    with pytest.raises(relaxcrf.errors.ArgumentError, match="compatibility is .*a number"):
        model("pots", None)
    import pickle

    again = pickle.loads(pickle.dumps(mixed))
    assert again.energy(labels) == pytest.approx(mixed.energy(labels), rel=1e-6)
    assert repr(relaxcrf.Gaussian(3, 1, compatibility=-0.5)) == "Gaussian(sigma=3, weight=1, compatibility=-0.5)"
