"""Input that was made to break things: a right answer or an exception of ours, never a panic, a crash or a hang."""

import warnings

import numpy as np
import pytest
from conftest import make_scene

import relaxcrf
from relaxcrf import errors
from relaxcrf.compat.pydensecrf import densecrf as dcrf
from relaxcrf.compat.simplecrf import densecrf
from relaxcrf.ray import Refiner

ODD = [np.nan, np.inf, -np.inf, 1e30, -1e30, 1e38, 3.4e38, 1e-40, 1e-300, 1e300, -0.0]
METHODS = list(relaxcrf.methods())


def survives(call):
    """The result, or None after an exception that says what was wrong. A panic is no Exception and fails the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return call()
        except (errors.RelaxcrfError, ValueError, TypeError) as error:
            assert not isinstance(error, errors.InternalError), error
            assert len(str(error)) > 10
            return None


def check(result):
    """A result is finite, and its energy that of its labels."""
    if result is not None:
        assert np.isfinite(result.energy)
        assert np.isfinite(result.probabilities).all()
        np.testing.assert_allclose(result.probabilities.sum(0), 1, atol=1e-3)
        assert result.lower_bound is None or np.isfinite(result.lower_bound)
    return result


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("everywhere", [False, True])
def test_odd_numbers(odd, everywhere):
    image, p, _ = make_scene(9, 11)
    floats, q = image.astype(np.float64), p.astype(np.float64)
    if everywhere:
        floats[:], q[:] = odd, odd
    else:
        floats[3, 4, 1], q[1, 2, 3] = odd, odd
    survives(lambda: relaxcrf.refine(floats, p))
    survives(lambda: relaxcrf.refine(image, q))
    survives(lambda: relaxcrf.refine_tiled(floats, p, tile=16, halo=2))
    survives(lambda: relaxcrf.filter(floats.reshape(99, 3), q.reshape(3, 99).T))
    survives(lambda: relaxcrf.stereo_unary(floats, image, 4))
    survives(lambda: list(relaxcrf.batch([floats, image], [p, q], strict=False)))
    survives(lambda: relaxcrf.Model.from_scores(q))
    model = survives(lambda: relaxcrf.Model(q, [relaxcrf.Bilateral(floats, 20, 13, 3)]))
    for method in METHODS if model else []:
        check(survives(lambda: relaxcrf.solve(model, method, max_iter=15)))
    if model:
        survives(lambda: relaxcrf.solve(model, "mf", init=q))
        survives(lambda: model.energy(q))


@pytest.mark.parametrize("sigma", [1e-9, 1e-3, 1.0, 1e9, 1e30])
@pytest.mark.parametrize("weight", [0, 1e-30, 1e9, 1e29, 1e38])
def test_odd_kernels(sigma, weight):
    image, p, _ = make_scene(5, 7, 2)
    answers = 0
    for kernel in [
        relaxcrf.Gaussian(sigma, weight),
        relaxcrf.Bilateral(image, sigma, 1 / sigma, weight),
        relaxcrf.Features(np.linspace(0, 1 / sigma, 35).reshape(35, 1), weight),
    ]:
        for filter in ["auto", "lattice", "lattice-classic", "exact"]:
            model = survives(lambda: relaxcrf.Model(-np.log(p), [kernel], filter=filter))
            for method in METHODS if model else []:
                answers += check(survives(lambda: relaxcrf.solve(model, method, max_iter=8))) is not None
    assert answers > 0 or weight == 1e38 or sigma < 1e-8 or sigma > 1e8


@pytest.mark.parametrize("labels", [1, 2, 255, 256, 1000])
@pytest.mark.parametrize("shape", [(1,), (1, 1), (1, 13), (13, 1), (7, 5), (2, 3, 2)])
def test_odd_sizes_with_equal_energies(labels, shape):
    unary = np.full((labels, *shape), 1.5)
    model = survives(lambda: relaxcrf.Model(unary, [relaxcrf.Gaussian(2, 3), relaxcrf.Bilateral(np.zeros((*shape, 1)), 5, 5, 2, channel_axis=-1)]))
    assert model is not None
    done = 0
    for method in METHODS if labels < 200 else ["mf5", "mf", "qp", "auto"]:
        result = check(survives(lambda: relaxcrf.solve(model, method, max_iter=10)))
        if result is not None:
            done += 1
            np.testing.assert_allclose(result.energy, 1.5 * np.prod(shape), rtol=1e-5)
            assert len(np.unique(result.labels)) == 1
    assert done >= 4


@pytest.mark.parametrize(
    "call",
    [
        lambda: relaxcrf.Model(np.broadcast_to(np.float32(0), (2, 2**20, 2**20)), []),
        lambda: relaxcrf.Model(np.zeros((2, 3, 3)), [relaxcrf.Features(np.zeros((9, 40)))]),
        lambda: relaxcrf.Model(np.zeros((65536, 1)), []),
        lambda: relaxcrf.Model(np.zeros((0, 3, 3)), []),
        lambda: relaxcrf.Model(np.array([["a", "b"]]), []),
        lambda: relaxcrf.Model(np.zeros((2, 3), complex), []),
        lambda: relaxcrf.Model(np.zeros((2, 3), object), []),
        lambda: relaxcrf.Model(None, []),
        lambda: relaxcrf.Model(np.zeros((2, 3, 3)), compatibility=np.full((2, 2), 1e38)),
        lambda: relaxcrf.Model(np.zeros((2, 3, 3)), compatibility=np.full((2, 2), np.nan)),
        lambda: relaxcrf.solve(relaxcrf.Model(np.zeros((2, 3, 3))), "mf", max_iter=-1),
        lambda: relaxcrf.solve(relaxcrf.Model(np.zeros((2, 3, 3))), "mf", max_iter=2**70),
        lambda: relaxcrf.solve(relaxcrf.Model(np.zeros((2, 3, 3))), "mf", time_limit=1e300),
        lambda: relaxcrf.solve(relaxcrf.Model(np.zeros((2, 3, 3))), "mf", time_limit=-1),
        lambda: relaxcrf.solve(relaxcrf.Model(np.zeros((2, 3, 3))), "mf", time_limit=np.nan),
        lambda: relaxcrf.solve(relaxcrf.Model(np.zeros((2, 3, 3))), "mf", tol=np.inf),
        lambda: relaxcrf.solve(relaxcrf.Model(np.zeros((2, 3, 3))), "mf", seed=-1),
        lambda: relaxcrf.solve(relaxcrf.Model(np.zeros((2, 3, 3))), "mf", threads=-3),
        lambda: relaxcrf.solve(relaxcrf.Model(np.zeros((2, 3, 3))), "mf", threads=10**9),
        lambda: relaxcrf.solve(relaxcrf.Model(np.zeros((2, 3, 3))), "mf\0"),
        lambda: relaxcrf.stereo_unary(np.zeros((3, 4)), np.zeros((3, 4)), 2**40),
        lambda: relaxcrf.refine_tiled(np.zeros((9, 9, 3)), np.full((2, 9, 9), 0.5), tile=2**62, halo=2**62),
        lambda: relaxcrf.refine_tiled(np.zeros((9, 9, 3)), np.full((2, 9, 9), 0.5), tile=-1),
        lambda: relaxcrf.read_preset("\0"),
        lambda: dcrf.DenseCRF2D(2**31 - 1, 2**31 - 1, 2**15),
        lambda: dcrf.DenseCRF2D(-1, 3, 2),
        lambda: dcrf.DenseCRF(0, 0),
    ],
)
def test_odd_arguments(call):
    survives(call)


class Unreadable:
    def __dlpack__(self, **_):
        return 5

    def __dlpack_device__(self):
        return (1, 0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: relaxcrf.Model(Unreadable()),
        lambda: relaxcrf.Model(np.zeros((0, 3, 3))),
        lambda: relaxcrf.Model(np.zeros((2, 0, 3))),
        lambda: relaxcrf.Model.from_scores(np.zeros((0, 0))),
        lambda: relaxcrf.refine(np.zeros((3, 3, 3)), np.zeros((0, 3, 3))),
        lambda: relaxcrf.refine(np.zeros((0, 3, 3)), np.zeros((2, 0, 3))),
        lambda: relaxcrf.refine(np.zeros((3, 3, 0)), np.full((2, 3, 3), 0.5)),
        lambda: relaxcrf.Model(np.zeros((2, 3, 3)), relaxcrf.Bilateral(np.zeros((3, 3, 0)), 3, 3)),
        lambda: densecrf(np.zeros((3, 3, 0)), np.full((3, 3, 2), 0.5), (10.0, 80, 13, 3.0, 3, 5.0)),
        lambda: densecrf(np.zeros((3, 3, 3)), np.zeros((3, 3, 0)), (10.0, 80, 13, 3.0, 3, 5.0)),
        lambda: relaxcrf.stereo_unary(np.zeros((3, 3, 0)), np.zeros((3, 3, 0)), 2),
        lambda: relaxcrf.solve(relaxcrf.Model(np.zeros((2, 3, 3))), "mf", callback=5),
        lambda: relaxcrf.refine_tiled(np.zeros((3, 3, 3)), np.full((2, 3, 3), 0.5), halo=[1, 2, 3]),
        lambda: relaxcrf.refine_tiled(np.zeros((3, 3, 3)), np.full((2, 3, 3), 0.5), halo=[[1], [2, 3]]),
        lambda: relaxcrf.batch(5, 5),
        lambda: relaxcrf.batch([np.zeros((3, 3, 3))], np.array(5)),
        lambda: relaxcrf.batch(relaxcrf.Model, [np.zeros((2, 3, 3))]),
        lambda: relaxcrf.batch(memoryview(np.zeros((2, 3, 3))), [np.full((2, 3, 3), 0.5)]),
        lambda: relaxcrf.batch(memoryview(b"ab").cast("c"), [np.full((2, 3, 3), 0.5)]),
        lambda: Refiner(drop=None),
        lambda: Refiner(drop=[5]),
        lambda: Refiner(drop=memoryview(np.zeros((2, 2)))),
        lambda: Refiner()(None),
        lambda: Refiner()(dict),
        lambda: Refiner()({"image": 5, "probabilities": 5}),
        lambda: Refiner()({"image": [np.zeros((3, 3, 3))] * 2, "probabilities": [np.full((2, 3, 3), 0.5)]}),
    ],
)
def test_an_exception_of_ours(call):
    with pytest.raises(relaxcrf.errors.RelaxcrfError) as caught:
        call()
    assert not isinstance(caught.value, relaxcrf.errors.InternalError)


def test_long_texts_are_not_repeated():
    with pytest.raises(relaxcrf.errors.ArgumentError) as caught:
        relaxcrf.solve(relaxcrf.Model(np.zeros((2, 3, 3))), "\x1b" + "m" * 100_000)
    assert len(str(caught.value)) < 1000 and "\x1b" not in str(caught.value)


def test_interrupted_in_the_middle():
    """Whatever a callback raises comes out, and the next run is as good as any."""
    _, p, _ = make_scene()
    model = relaxcrf.Model(-np.log(p), [relaxcrf.Gaussian(3, 2)])
    want = relaxcrf.solve(model, "mf").probabilities
    for kind in (KeyboardInterrupt, SystemExit, MemoryError, RecursionError):

        def stop(_, kind=kind):
            raise kind("now")

        with pytest.raises(kind):
            relaxcrf.solve(model, "mf", callback=stop)
        np.testing.assert_array_equal(relaxcrf.solve(model, "mf").probabilities, want)
