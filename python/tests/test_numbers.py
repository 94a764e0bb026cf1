"""Numbers that an argument cannot be: an error with its name and what was given, before memory is taken."""

import decimal
import fractions
import itertools
import re

import numpy as np
import pytest
from conftest import make_scene

import relaxcrf
from relaxcrf import _core, errors
from relaxcrf._numbers import shown
from relaxcrf.compat.pydensecrf import densecrf as dcrf
from relaxcrf.compat.pydensecrf import utils
from relaxcrf.compat.simplecrf import densecrf, densecrf3d
from relaxcrf.ray import Refiner

IMAGE, P, TRUTH = make_scene(5, 7)
UNARY = -np.log(P)
MODEL = relaxcrf.Model(UNARY)
VOC = relaxcrf.presets()["voc"]
VOLUME = {"PosW": 1.0, "PosRStd": 1, "PosCStd": 1, "PosZStd": 1, "BilateralW": 1.0, "BilateralRStd": 2}
VOLUME.update({"BilateralCStd": 2, "BilateralZStd": 2, "ModalityNum": 1, "BilateralModsStds": (5.0,)})


def simple(place, value):
    parameters = [10.0, 80, 13, 3.0, 3, 5.0]
    parameters[place] = value
    return densecrf(IMAGE, P.transpose(1, 2, 0), parameters)


def simple_volume(key, value):
    parameters = {"MaxIterations": 2, **VOLUME, key: value}
    return densecrf3d(np.zeros((2, 3, 4, 1)), np.full((2, 3, 4, 2), 0.5), parameters)


def crf():
    return dcrf.DenseCRF2D(7, 5, 3)


# Name in the message, and the call with a value for it.
WHOLE = [
    ("threads", lambda v: relaxcrf.refine(IMAGE, P, threads=v)),
    ("threads", lambda v: relaxcrf.refine_tiled(IMAGE, P, tile=9, threads=v)),
    ("threads", lambda v: relaxcrf.Model(UNARY, threads=v)),
    ("threads", lambda v: MODEL.energy(TRUTH, threads=v)),
    ("threads", lambda v: relaxcrf.solve(MODEL, "mf", threads=v)),
    ("threads", lambda v: relaxcrf.filter(np.zeros((3, 1)), np.zeros(3), threads=v)),
    ("threads", lambda v: relaxcrf.set_num_threads(v)),
    ("max_iter", lambda v: relaxcrf.solve(MODEL, "mf", max_iter=v)),
    ("seed", lambda v: relaxcrf.solve(MODEL, "mf", seed=v)),
    ("n_labels", lambda v: relaxcrf.Model.from_labels(TRUTH, v)),
    ("unsure", lambda v: relaxcrf.Model.from_labels(TRUTH, 3, unsure=v)),
    ("disparities", lambda v: relaxcrf.stereo_unary(IMAGE, IMAGE, v)),
    ("radius", lambda v: relaxcrf.stereo_unary(IMAGE, IMAGE, 2, "census", radius=v)),
    ("channel_axis", lambda v: relaxcrf.stereo_unary(IMAGE, IMAGE, 2, channel_axis=v)),
    ("iterations", lambda v: relaxcrf.refine(IMAGE, P, iterations=v)),
    ("iterations", lambda v: relaxcrf.refine_tiled(IMAGE, P, tile=9, iterations=v)),
    ("tile", lambda v: relaxcrf.refine_tiled(IMAGE, P, tile=v)),
    ("halo", lambda v: relaxcrf.refine_tiled(IMAGE, P, halo=v)),
    ("memory", lambda v: relaxcrf.refine_tiled(IMAGE, P, memory=v)),
    ("jobs", lambda v: relaxcrf.batch([IMAGE], [P], jobs=v)),
    ("lookahead", lambda v: relaxcrf.batch([IMAGE], [P], lookahead=v)),
    ("w", lambda v: dcrf.DenseCRF2D(v, 5, 3)),
    ("h", lambda v: dcrf.DenseCRF2D(7, v, 3)),
    ("nvar", lambda v: dcrf.DenseCRF(v, 3)),
    ("nlabels", lambda v: dcrf.DenseCRF2D(7, 5, v)),
    ("n_labels", lambda v: utils.unary_from_labels(TRUTH, v, 0.7)),
]
# These take negative numbers for 0, as the originals do.
COUNTS = [
    ("niter", lambda v: crf().inference(v)),
    ("it", lambda v: simple(5, v)),
    ("MaxIterations", lambda v: simple_volume("MaxIterations", v)),
]
FLOATS = [
    ("tol", lambda v: relaxcrf.solve(MODEL, "mf", tol=v)),
    ("time_limit", lambda v: relaxcrf.solve(MODEL, "mf", time_limit=v)),
    ("until_gap", lambda v: relaxcrf.solve(MODEL, "mf", until_gap=v)),
    ("clip", lambda v: relaxcrf.Model.from_probabilities(P, clip=v)),
    ("confidence", lambda v: relaxcrf.Model.from_labels(TRUTH, 3, confidence=v)),
    ("truncation", lambda v: relaxcrf.stereo_unary(IMAGE, IMAGE, 2, truncation=v)),
    ("data_range", lambda v: relaxcrf.refine(IMAGE, P, data_range=v)),
    ("data_range", lambda v: relaxcrf.refine_tiled(IMAGE, P, data_range=v)),
    ("preset: gaussian.sigma", lambda v: relaxcrf.refine(IMAGE, P, VOC._replace(gaussian=(v, 1)))),
    ("preset: bilateral.weight", lambda v: relaxcrf.refine(IMAGE, P, VOC._replace(bilateral=(1, 1, v)))),
    ("sigma", lambda v: relaxcrf.Gaussian(v)),
    ("sigma_rgb", lambda v: relaxcrf.Bilateral(IMAGE, 3, v)),
    ("weight", lambda v: relaxcrf.Gaussian(3, v)),
    ("sxy", lambda v: crf().addPairwiseGaussian(v, 3)),
    ("srgb", lambda v: crf().addPairwiseBilateral(3, v, IMAGE, 3)),
    ("compat", lambda v: crf().addPairwiseGaussian(3, v)),
    ("clip", lambda v: utils.unary_from_softmax(P, clip=v)),
    ("schan", lambda v: utils.create_pairwise_bilateral((3, 3), v, IMAGE, 2)),
    ("w1", lambda v: simple(0, v)),
    ("gamma", lambda v: simple(4, v)),
    ("PosW", lambda v: simple_volume("PosW", v)),
    ("BilateralModsStds", lambda v: simple_volume("BilateralModsStds", v)),
]


def refused(name, call, value):
    with pytest.raises((errors.ArgumentError, errors.ShapeError)) as caught:
        call(value)
    assert str(caught.value).startswith(f"{name} is {str(value)[:20]}"), caught.value


@pytest.mark.parametrize("name, call", WHOLE)
@pytest.mark.parametrize("value", [-1, -(10**30), 2**64, 10**30, 10**400])
def test_whole_numbers_out_of_range(name, call, value):
    # The last axis is -1.
    refused(name, call, -4 if (name, value) == ("channel_axis", -1) else value)


@pytest.mark.parametrize("name, call", [*WHOLE[-5:], *COUNTS])
@pytest.mark.parametrize("value", [np.inf, np.nan, "many"])
def test_what_is_no_whole_number_at_all(name, call, value):
    with pytest.raises(errors.ArgumentError, match=f"^{name} is .{{0,1}}{value}.{{0,1}}, but must be a whole number"):
        call(value)


@pytest.mark.parametrize("name, call", WHOLE[:7])
@pytest.mark.parametrize("value", ["many", 1.5, [2], np.nan])
def test_threads_that_are_no_number(name, call, value):
    with pytest.raises(errors.ArgumentError, match="^threads is .*, but must be 1 to 4096, or None"):
        call(value)


TEXTS = [
    ("method", lambda v: relaxcrf.solve(MODEL, v)),
    ("method", lambda v: relaxcrf.refine(IMAGE, P, method=v)),
    ("method", lambda v: relaxcrf.refine_tiled(IMAGE, P, method=v)),
    ("method", lambda v: relaxcrf.batch([IMAGE], [P], method=v)),
    ("kind", lambda v: relaxcrf.filter(np.zeros((3, 1)), np.zeros(3), v)),
    ("measure", lambda v: relaxcrf.stereo_unary(IMAGE, IMAGE, 2, v)),
    ("preset: normalization", lambda v: relaxcrf.refine(IMAGE, P, VOC._replace(normalization=v))),
    ("method", lambda v: Refiner(method=v)),
    ("image", lambda v: Refiner(image=v)),
    ("probabilities", lambda v: Refiner(probabilities=v)),
    ("column", lambda v: Refiner(column=v)),
]
CHOICES = [
    ("output", lambda v: relaxcrf.refine(IMAGE, P, output=v)),
    ("output", lambda v: relaxcrf.refine_tiled(IMAGE, P, output=v)),
    ("output", lambda v: relaxcrf.batch([IMAGE], [P], output=v)),
    ("errors", lambda v: relaxcrf.batch([IMAGE], [P], errors=v)),
    ("output", lambda v: Refiner(output=v)),
    ("on_error", lambda v: Refiner(on_error=v)),
]
FLAGS = [
    ("progress", lambda v: relaxcrf.solve(MODEL, "mf5", progress=v)),
    ("exact", lambda v: MODEL.energy(TRUTH, exact=v)),
    ("transposed", lambda v: relaxcrf.filter(np.zeros((3, 1)), np.zeros(3), transposed=v)),
]


# Compared with something, these answer with an array, an exception, or by asking for all the memory there is.
ARRAYS = [np.array([]), np.array(["labels", "raise"]), np.zeros(2, [("a", "f4")]), np.broadcast_to(0, (2**26, 2**26))]


@pytest.mark.parametrize("name, call", CHOICES)
@pytest.mark.parametrize("value", [None, 5, "", "Labels", *ARRAYS], ids=str)
def test_none_of_the_texts_to_choose_from(name, call, value):
    with pytest.raises(errors.ArgumentError, match=f"(?s)^{name} is .*, but must be '.*' or '.*'"):
        call(value)


@pytest.mark.parametrize("name, call", TEXTS)
@pytest.mark.parametrize("value", [5, b"mf", ["mf"], bytearray(b"1"), *ARRAYS, "\ud800"], ids=str)
def test_what_is_no_text(name, call, value):
    with pytest.raises(errors.DtypeError, match=f"(?s)^{name} is .*, but must be a str"):
        call(value)
    if isinstance(value, str):
        for given in ({"filter": value}, {"normalization": value}):
            with pytest.raises(errors.DtypeError, match="must be a str"):
                relaxcrf.Model(UNARY, **given)


@pytest.mark.parametrize("name, call", FLAGS)
@pytest.mark.parametrize("value", [1, 0.0, "yes", None, np.array([True, False]), *ARRAYS], ids=str)
def test_what_is_no_flag(name, call, value):
    with pytest.raises(errors.DtypeError, match=f"(?s)^{name} is .*, but must be True or False"):
        call(value)
    call(np.bool_(True))


class OnlyLength:
    def __len__(self):
        return 2


@pytest.mark.parametrize(
    "name, call",
    [
        ("gt_prob", lambda: utils.unary_from_labels(TRUTH, 4, "x")),
        ("gt_prob", lambda: utils.unary_from_labels(TRUTH, 4, np.array([0.5, 0.5]))),
        ("zero_unsure", lambda: utils.unary_from_labels(TRUTH, 4, 0.7, zero_unsure=np.array([True, False]))),
        ("scale", lambda: utils.unary_from_softmax(P, scale=[1])),
        ("chdim", lambda: utils.create_pairwise_bilateral((3, 3), 5, IMAGE, np.array([]))),
        ("sdims", lambda: utils.create_pairwise_gaussian(3, (5, 7))),
        ("sdims", lambda: utils.create_pairwise_gaussian((), (5, 7))),
        ("sdims", lambda: utils.create_pairwise_gaussian((3, 3), (3, 5, 7))),
        ("shape", lambda: utils.create_pairwise_gaussian((3, 3), 5)),
        ("shape", lambda: utils.create_pairwise_gaussian((3, 3), ("a", []))),
        ("shape", lambda: utils.create_pairwise_gaussian((3, 3), memoryview(IMAGE))),
        ("shape", lambda: utils.create_pairwise_gaussian((3, 3), (2,) * 200)),
        ("shape", lambda: utils.create_pairwise_gaussian((3, 3), (2**40, 2**40))),
        ("kernel", lambda: crf().addPairwiseGaussian(3, 3, kernel=None)),
        ("kernel", lambda: crf().addPairwiseBilateral(3, 3, IMAGE, 3, kernel=ARRAYS[0])),
        ("normalization", lambda: crf().addPairwiseGaussian(3, 3, normalization=4)),
        ("normalization", lambda: crf().addPairwiseEnergy(np.ones((2, 35)), 3, normalization=ARRAYS[2])),
        ("param", lambda: densecrf(IMAGE, P.transpose(1, 2, 0), 5)),
        ("param", lambda: densecrf(IMAGE, P.transpose(1, 2, 0), np.array(3))),
        ("param", lambda: densecrf(IMAGE, P.transpose(1, 2, 0), OnlyLength())),
        ("param", lambda: densecrf3d(np.zeros((2, 3, 4, 1)), np.full((2, 3, 4, 2), 0.5), 5)),
        ("Q", lambda: crf().stepInference(np.zeros((3, 5, 7), np.float32))),
        ("Q", lambda: crf().stepInference(np.broadcast_to(np.float32(0.3), (3, 35)))),
    ],
)
def test_what_the_shims_cannot_take(name, call):
    with pytest.raises(errors.RelaxcrfError, match=f"^{name} (is|has) "):
        call()


@pytest.mark.parametrize("name, call", COUNTS)
def test_too_many_updates(name, call):
    refused(name, call, 10**30)
    assert call(-3).size == call(0.9).size


@pytest.mark.parametrize("name, call", FLOATS)
def test_floats_out_of_range(name, call):
    with pytest.raises((ValueError, TypeError), match=re.escape(name)) as caught:
        call(10**400)
    # A list is also possible where arrays are; what it holds is then no number either.
    assert isinstance(caught.value, errors.RelaxcrfError)


def test_numbers_of_any_type_are_taken():
    result = relaxcrf.solve(MODEL, "mf", max_iter=np.int8(2), seed=2**64 - 1, tol=fractions.Fraction(1, 8))
    assert result.iterations <= 2
    assert relaxcrf.Gaussian(fractions.Fraction(3, 2), np.float32(2)).sigma == [1.5]
    assert relaxcrf.Model.from_labels(TRUTH, np.uint64(3), unsure=np.array(9)).labels == 3


@pytest.mark.parametrize("half", [decimal.Decimal("0.5"), fractions.Fraction(1, 2), np.array(0.5), np.array([0.5])])
def test_helpers_of_the_shim_take_numbers_of_any_type(half):
    def same(call):
        np.testing.assert_allclose(call(half), call(0.5), rtol=1e-6)

    same(lambda v: utils.unary_from_labels(TRUTH, 3, v))
    same(lambda v: utils.unary_from_softmax(P, scale=v))
    same(lambda v: utils.unary_from_softmax(P, clip=v))
    with pytest.warns(DeprecationWarning):
        same(lambda v: utils.softmax_to_unary(P, v))


def test_sizes_are_checked_before_memory_is_taken():
    for n_labels in (0, 65536, 10**9, 2**63):
        with pytest.raises(errors.ArgumentError, match=f"n_labels is {n_labels}, but must be .*, 1 to 65535"):
            relaxcrf.Model.from_labels(np.zeros((7, 9), int), n_labels)
    with pytest.raises(errors.ArgumentError, match="unary energies is 268435456 x 65535 values.*memory"):
        relaxcrf.Model.from_labels(np.broadcast_to(np.uint16(0), (2**14, 2**14)), 65535)
    with pytest.raises(errors.ArgumentError, match="3600000000 points with 20000 labels.*memory"):
        dcrf.DenseCRF2D(60000, 60000, 20000)
    with pytest.raises(errors.ArgumentError, match="at most 2\\^32 - 1 points"):
        dcrf.DenseCRF2D(2**31, 3, 1)


HUGE = np.broadcast_to(np.float32(0.3), (5, 7, 2**40))


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda: relaxcrf.refine(HUGE, P), "1099511627776 channels"),
        (lambda: relaxcrf.refine(HUGE, P, method="mf"), "1099511627776 channels"),
        (lambda: relaxcrf.refine_tiled(HUGE, P, tile=9), "1099511627776 channels"),
        (lambda: relaxcrf.Model(UNARY, [relaxcrf.Bilateral(HUGE, 3, 3)]), "1099511627776 channels"),
        (lambda: densecrf(HUGE, P.transpose(1, 2, 0), (10.0, 80, 13, 3.0, 3, 5.0)), "1099511627776 channels"),
        (lambda: relaxcrf.refine(IMAGE, HUGE, label_axis=-1), "1099511627776 labels"),
        (lambda: relaxcrf.refine_tiled(IMAGE, HUGE, label_axis=-1), "1099511627776 labels"),
        (lambda: relaxcrf.Model(HUGE), "have 7696581394432 pixels"),
        (lambda: relaxcrf.Model.from_labels(HUGE.view(np.int32), 3), "labels have 38482906972160 pixels"),
        (lambda: relaxcrf.stereo_unary(HUGE, HUGE, 2), "no larger than memory"),
        (lambda: _core.tile_side(0, 0, 0), "at least one of each"),
    ],
)
def test_shapes_are_checked_before_values(call, match):
    with pytest.raises(errors.ArgumentError, match=match):
        call()


# Larger than any address, and beyond what NumPy counts in bytes.
@pytest.mark.parametrize("shape", [(2, 2**16, 2**16, 2**20), (2, 2**16, 2**16, 2**28)])
def test_copies_that_memory_has_no_room_for(shape):
    many = np.broadcast_to(np.uint8(1), shape)
    for call in [
        lambda: relaxcrf.refine(IMAGE, many),
        lambda: relaxcrf.Model(many),
        lambda: relaxcrf.Model.from_scores(many),
        lambda: relaxcrf.Model(UNARY, compatibility=many),
        lambda: relaxcrf.filter(many, many),
        lambda: densecrf(IMAGE, many, (10.0, 80, 13, 3.0, 3, 5.0)),
        lambda: crf().setUnaryEnergy(many),
        lambda: crf().addPairwiseGaussian(3, many),
    ]:
        with pytest.raises(errors.ArgumentError, match="^array to be copied is .* than memory has room for"):
            call()


def test_what_the_helpers_of_the_shim_have_no_room_for():
    many = np.broadcast_to(np.uint8(1), (2, 2**26, 2**26))
    for call in [
        lambda: utils.unary_from_softmax(many),
        lambda: utils.create_pairwise_gaussian((3, 3), many.shape[1:]),
        lambda: utils.create_pairwise_bilateral((3, 3), 3, many, 0),
    ]:
        with pytest.raises(errors.ArgumentError, match="^array to be copied is .* than memory has room for"):
            call()
    image, p = np.broadcast_to(np.uint8(1), (2**26, 2**26)), np.broadcast_to(np.float32(0.5), many.shape)
    with pytest.raises(errors.ArgumentError, match="^array for the result is .* than memory has room for"):
        relaxcrf.refine_tiled(image, p, tile=16)


def deep(levels=5000):
    nested = [1.0]
    for _ in range(levels):
        nested = [nested]
    return nested


@pytest.mark.parametrize(
    "call",
    [
        lambda: relaxcrf.Model(UNARY, deep()),
        lambda: relaxcrf.Model(UNARY, memoryview(P)),
        lambda: relaxcrf.Model(UNARY, 5),
        lambda: relaxcrf.Model(UNARY, itertools.repeat(5)),
        lambda: relaxcrf.refine(IMAGE, P, deep()),
        lambda: relaxcrf.refine_tiled(memoryview(IMAGE), P, tile=9),
        lambda: relaxcrf.refine_tiled(IMAGE, memoryview(P), tile=9),
        lambda: relaxcrf.refine_tiled(IMAGE, P, tile=9, out=memoryview(np.zeros((5, 7), np.uint8))),
        lambda: relaxcrf.refine(IMAGE, P, VOC._replace(gaussian=3)),
        lambda: relaxcrf.refine(IMAGE, P, VOC._replace(gaussian=np.array(3))),
        lambda: relaxcrf.refine(IMAGE, P, VOC._replace(gaussian=OnlyLength())),
        lambda: relaxcrf.refine(IMAGE, P, VOC._replace(gaussian=memoryview(np.ones((2, 2))))),
        lambda: relaxcrf.refine(IMAGE, P, VOC._replace(gaussian=itertools.repeat(3))),
        lambda: relaxcrf.refine(IMAGE, P, method=""),
        lambda: relaxcrf.refine(IMAGE, P, VOC._replace(bilateral=(3, 0, 1))),
    ],
)
def test_other_things_than_were_asked_for(call):
    with pytest.raises(errors.RelaxcrfError):
        call()


def test_what_was_given_is_shown_whatever_it_is():
    class Silent:
        def __repr__(self):
            raise RuntimeError("no text")

    assert shown("voc") == "'voc'" and shown(-1) == "-1"
    with pytest.raises(errors.ArgumentError, match="threads is .*1 to 4096"):
        relaxcrf.set_num_threads(10**5000)
    for odd in (deep(), Silent(), 10**5000, "m" * 10**6, np.zeros(10**5)):
        assert 0 < len(shown(odd)) < 200


def test_init_of_many_labels_takes_no_square_of_them():
    model = relaxcrf.Model.from_labels(np.zeros((1, 2), int), 60000)
    assert relaxcrf.solve(model, "mf5", init=np.array([[3, 9]]), max_iter=0).labels.shape == (1, 2)


@pytest.mark.parametrize("kind", ["lattice", "lattice-classic", "exact"])
def test_filtered_sums_that_do_not_fit(kind):
    huge = np.full(200, 3e38, np.float32)
    with pytest.raises(relaxcrf.errors.DataError, match="filtered values.*single precision"):
        relaxcrf.filter(np.zeros((200, 1)), huge, kind)
    assert np.isfinite(relaxcrf.filter(np.zeros((200, 1)), huge / 30000, kind)).all()


@pytest.mark.parametrize("kernel", [relaxcrf.Gaussian, relaxcrf.Bilateral, relaxcrf.Features])
def test_a_kernel_without_its_parentheses(kernel):
    for given in (kernel, [relaxcrf.Gaussian(3), kernel]):
        for make in (
            lambda k: relaxcrf.Model(UNARY, k),
            lambda k: relaxcrf.Model.from_probabilities(P, k),
            lambda k: relaxcrf.Model.from_scores(P, k),
            lambda k: relaxcrf.Model.from_labels(TRUTH, 3, k),
        ):
            with pytest.raises(errors.DtypeError, match=f"{kernel.__name__}'> is a class: call it"):
                make(given)


@pytest.mark.parametrize("given", [("linear", 3), ("linear", [3.0]), ("potts", []), ("per-label", [1.0] * 3), None])
def test_compatibility_in_a_form_of_our_own(given):
    with pytest.raises(errors.ArgumentError, match="^compatibility is .*, but must be 'potts', 'linear', 'linear:T'"):
        relaxcrf.Model(UNARY, compatibility=given)
    with pytest.raises(errors.ArgumentError, match="^compatibility is "):
        relaxcrf.Model.from_probabilities(P, compatibility=given)
