"""The shim against the formulas, in double precision, with the package's own lattice as the filter."""

import pickle
import runpy
import subprocess
import sys

import numpy as np
import pytest
from conftest import make_scene

import relaxcrf
from relaxcrf.compat.pydensecrf import densecrf as dcrf
from relaxcrf.compat.pydensecrf import eigen, utils


class Reference:
    """Mean field written out."""

    def __init__(self, unary):
        self.unary = np.asarray(unary, float)
        self.terms = []

    def add(self, features, compat, normalization=3):
        k = relaxcrf.filter(features.T, np.eye(features.shape[1]), "lattice-classic").astype(float)
        n = k.sum(1)
        if normalization == 3:
            k = k / np.sqrt(n[:, None] * n[None])
        elif normalization == 1:
            k = k / n[None]
        elif normalization == 2:
            k = k / n[:, None]
        if np.ndim(compat) == 0:
            matrix = -compat * np.eye(len(self.unary))
        elif np.ndim(compat) == 1:
            matrix = np.diag(compat)
        else:
            matrix = (compat + compat.T) / 2
        self.terms.append((k, matrix))

    def messages(self, q):
        return sum((matrix @ q @ k.T for k, matrix in self.terms), np.zeros_like(q))

    def start(self):
        return self.softmax(-self.unary)

    def step(self, q):
        return self.softmax(-self.unary - self.messages(q))

    def kl(self, q):
        unary = self.unary[q > 0] * q[q > 0]
        return (q * np.log(np.maximum(q, 1e-20))).sum() + unary.sum() + (q * self.messages(q)).sum()

    @staticmethod
    def softmax(logits):
        e = np.exp(logits - logits.max(0))
        return e / e.sum(0)


MATRIX = np.array([[0, 4, 1], [2, 0, 3], [0, 1, 0]], np.float32)


@pytest.mark.parametrize("normalization", [0, 1, 2, 3])
@pytest.mark.parametrize("compat", [2, 2.5, np.float32(3), np.array([-3.0, -1, -2]), MATRIX])
def test_equals_the_formulas(normalization, compat):
    image, p, _ = make_scene(8, 11, 3)
    u = utils.unary_from_softmax(p)
    u[1, 5] = np.inf
    crf, want = dcrf.DenseCRF2D(11, 8, 3), Reference(u)
    crf.setUnaryEnergy(u)
    crf.addPairwiseGaussian((3, 2), compat, normalization=normalization)
    crf.addPairwiseBilateral((9, 8), (10, 11, 12), image, 1.5, dcrf.FULL_KERNEL, normalization)
    x, y = np.meshgrid(np.arange(11), np.arange(8))
    position = np.stack([x.ravel(), y.ravel()])
    scale = np.array([[3], [2]])
    want.add(position / scale, compat, normalization)
    colors = image.reshape(-1, 3).T / np.array([[10], [11], [12]])
    want.add(np.concatenate([position / np.array([[9], [8]]), colors]), 1.5, normalization)
    q = want.start()
    got, t1, t2 = crf.startInference()
    np.testing.assert_allclose(got, q, atol=1e-6)
    for _ in range(4):
        assert crf.klDivergence(got) == pytest.approx(want.kl(q), rel=1e-4, abs=1e-3)
        q = want.step(q)
        crf.stepInference(got, t1, t2)
        np.testing.assert_allclose(got, q, atol=2e-4)
    # A whole run adds up its messages in another order than single steps: equal up to rounding.
    np.testing.assert_allclose(crf.inference(4), got, atol=1e-5)


@pytest.mark.parametrize("labels", [2, 5, 21])
def test_a_run_equals_its_steps_where_most_is_settled(labels):
    """A run leaves out pixels that are certain, and labels that do not matter; single steps leave out nothing."""
    h, w = 160, 260
    y, x = np.mgrid[:h, :w]
    region = np.where(x + 20 * np.sin(y / 15) > 120, 1, 0) + np.where(y > 130, labels - 1, 0)
    rng = np.random.default_rng(labels)
    image = np.clip(60 * (region % 4)[..., None] + rng.normal(40, 6, (h, w, 3)), 0, 255).astype(np.uint8)
    scores = rng.normal(0, 1, (labels, h, w))
    # Wrong in a place that is large enough to be right for an update or two.
    guess = np.where((abs(x - 60) < 9) & (abs(y - 70) < 9), 1, region % labels)
    scores += 3.5 * (guess == np.arange(labels)[:, None, None])
    crf = dcrf.DenseCRF2D(w, h, labels)
    crf.setUnaryEnergy(utils.unary_from_softmax(np.exp(scores) / np.exp(scores).sum(0)))
    crf.addPairwiseGaussian(sxy=3, compat=3)
    crf.addPairwiseBilateral(sxy=40, srgb=13, rgbim=image, compat=10)
    q, a, b = crf.startInference()
    for _ in range(10):
        crf.stepInference(q, a, b)
    got = np.asarray(crf.inference(10))
    assert (got.max(0) > 0.999).mean() > 0.8
    np.testing.assert_array_equal(got.argmax(0), q.argmax(0))
    np.testing.assert_allclose(got, q, atol=5e-3)
    assert np.abs(got - q).sum(0).mean() < 1e-5


def test_recorded_outputs_of_the_original(shared):
    """Every recorded call pattern, if the recordings are at hand."""
    script = shared / "compat" / "compat_snippets.py"
    if not script.exists():
        pytest.skip(f"no {script}")
    code = (
        "import sys, warnings; warnings.simplefilter('ignore'); import relaxcrf.compat.pydensecrf as p; p.install();"
        f"sys.argv = ['check', 'check', {str(script.with_name('compat_reference.npz'))!r}];"
        f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert "\nbad: 0\n" in run.stdout, run.stdout
    assert "fork ok, threads ok: (True, True)" in run.stdout
    assert run.stdout.count("\nok ") + run.stdout.startswith("ok ") == 45


def test_result_is_an_array_and_more(scene):
    image, p, _ = scene
    crf = dcrf.DenseCRF2D(31, 23, 3)
    crf.setUnaryEnergy(utils.unary_from_softmax(p))
    crf.addPairwiseGaussian(sxy=3, compat=3)
    q = crf.inference(5)
    assert q.shape == (3, 713) and q.dtype == np.float32 and q.flags.f_contiguous and q.flags.writeable
    assert np.argmax(q, axis=0).reshape(23, 31).shape == (23, 31)
    assert np.array(q).reshape(3, 23, 31).sum(0) == pytest.approx(np.ones((23, 31)), abs=1e-5)


@pytest.mark.parametrize("make", [np.asfortranarray, np.ascontiguousarray, np.float64, lambda q: q[:, ::-1]])
def test_steps_write_into_any_array(scene, make):
    image, p, _ = scene
    crf = dcrf.DenseCRF2D(31, 23, 3)
    crf.setUnaryEnergy(utils.unary_from_softmax(p))
    crf.addPairwiseGaussian(sxy=3, compat=3)
    q = make(crf.startInference()[0])
    want = np.array(q, np.float32)
    crf.stepInference(want, None, None)
    before = q.copy()
    crf.stepInference(q, None, None)
    assert not np.array_equal(q, before)
    np.testing.assert_allclose(q, want, atol=1e-6)


def test_steps_refuse_what_would_be_a_copy():
    crf = dcrf.DenseCRF(4, 2)
    beliefs = np.full((2, 4), 0.5, np.float32)

    class Copied:
        def __array__(self, dtype=None, copy=None):
            return beliefs.copy()

    for q, what in ((beliefs.tolist(), "list"), (Copied(), "Copied")):
        with pytest.raises(relaxcrf.errors.ArgumentError, match=f"Q is a {what}, but must be .* can be written"):
            crf.stepInference(q)
    with pytest.raises(relaxcrf.errors.ArgumentError, match="Q has dtype int64, but must be one of floats"):
        crf.stepInference(np.ones((2, 4), np.int64))
    crf.setUnaryEnergy(np.arange(8).reshape(2, 4))
    crf.stepInference(memoryview(beliefs))
    np.testing.assert_allclose(beliefs, crf.inference(1), atol=1e-6)


def test_weights_and_features_that_do_not_fit():
    with pytest.raises(relaxcrf.errors.ShapeError, match=r"L has shape \(2, 2\) and f \(5, 42\)"):
        dcrf.LogisticUnary(np.ones((2, 2)), np.ones((5, 42)))
    with pytest.raises(relaxcrf.errors.ShapeError, match=r"u has shape \(2, 3\) and f \(2, 3\)"):
        dcrf.DenseCRF(3, 2).setUnaryEnergy(np.ones((2, 3)), np.ones((2, 3)))


def test_kinds_of_unary(scene):
    _, p, _ = scene
    u = utils.unary_from_softmax(p)
    weights, features = np.eye(3, dtype=np.float32)[:, ::-1].copy(), u[::-1].copy()

    def run(set_it):
        crf = dcrf.DenseCRF2D(31, 23, 3)
        set_it(crf)
        crf.addPairwiseGaussian(sxy=3, compat=3)
        return crf.inference(2)

    want = run(lambda crf: crf.setUnaryEnergy(u))
    np.testing.assert_array_equal(run(lambda crf: crf.setUnary(dcrf.ConstUnary(u))), want)
    np.testing.assert_allclose(run(lambda crf: crf.setUnary(dcrf.LogisticUnary(weights, features))), want, atol=1e-6)
    np.testing.assert_array_equal(run(lambda crf: crf.setUnaryEnergy(p.shape and u.reshape(3, 23, 31))), want)
    np.testing.assert_allclose(run(lambda crf: None), 1 / 3, atol=0.02)


def test_constructors():
    assert dcrf.DenseCRF(nvar=4, nlabels=2).inference(1).shape == (2, 4)
    assert dcrf.DenseCRF(np.prod((2, 2)), 2, "ignored").inference(0).shape == (2, 4)
    assert dcrf.DenseCRF2D(3.0, np.int64(2), 2).inference(1).shape == (2, 6)
    for bad in [(0, 2), (3, 0), (-1, 2)]:
        with pytest.raises(ValueError):
            dcrf.DenseCRF(*bad)


def test_constants():
    assert [dcrf.NO_NORMALIZATION, dcrf.NORMALIZE_BEFORE, dcrf.NORMALIZE_AFTER, dcrf.NORMALIZE_SYMMETRIC] == [0, 1, 2, 3]
    assert [dcrf.CONST_KERNEL, dcrf.DIAG_KERNEL, dcrf.FULL_KERNEL] == [0, 1, 2]


def test_error_texts(scene):
    image, p, _ = scene
    u = utils.unary_from_softmax(p)
    crf = dcrf.DenseCRF2D(31, 23, 3)
    with pytest.raises(ValueError, match=r"Bad shape for unary energy \(Need \(3, 713\), got \(3, 712\)\)"):
        crf.setUnaryEnergy(u[:, 1:])
    with pytest.raises(ValueError, match=r"Bad shape for pairwise bilateral \(Need \(23, 31, 3\), got \(31, 23, 3\)\)"):
        crf.addPairwiseBilateral(3, 3, image.transpose(1, 0, 2), 3)
    with pytest.raises(ValueError, match="addPairwiseBilateral only works for RGB images"):
        crf.addPairwiseBilateral(3, 3, image[..., :2], 3)
    with pytest.raises(ValueError, match=r"Bad shape for pairwise energy \(Need \(\?, 713\), got \(2, 7\)\)"):
        crf.addPairwiseEnergy(np.zeros((2, 7), np.float32), 3)
    with pytest.raises(ValueError, match="dimension >2"):
        crf.addPairwiseGaussian(3, np.zeros((3, 3, 3)))
    with pytest.raises(ValueError, match="compatibility"):
        crf.addPairwiseGaussian(3, np.zeros(2))
    with pytest.raises(ValueError, match="NaN"):
        crf.setUnaryEnergy(np.full((3, 713), np.nan))
    for tiny in (1e-9, 1e-30, 0.0):
        with pytest.raises(ValueError):
            crf.addPairwiseBilateral(sxy=3, srgb=tiny, rgbim=image, compat=3)
    with pytest.raises(ValueError):
        crf.addPairwiseGaussian(3, 3, normalization=7)
    with pytest.raises(TypeError):
        crf.setUnary(u)


def test_forbidden_everywhere_is_undecided():
    crf = dcrf.DenseCRF(2, 2)
    crf.setUnaryEnergy(np.array([[np.inf, 0], [np.inf, np.inf]]))
    np.testing.assert_allclose(crf.inference(1), [[0.5, 1], [0.5, 0]])


def test_pickles(scene):
    image, p, _ = scene
    crf = dcrf.DenseCRF2D(31, 23, 3)
    crf.setUnaryEnergy(utils.unary_from_softmax(p))
    crf.addPairwiseBilateral(20, 13, image, MATRIX)
    again = pickle.loads(pickle.dumps(crf))
    np.testing.assert_array_equal(again.inference(3), crf.inference(3))
    again.addPairwiseGaussian(3, 3)
    assert not np.array_equal(again.inference(3), crf.inference(3))


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_interrupt_stops_between_updates():
    code = """
import os, signal, threading, numpy as np
from relaxcrf.compat.pydensecrf import densecrf as dcrf
crf = dcrf.DenseCRF2D(200, 200, 8)
crf.addPairwiseGaussian(3, 3)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    crf.inference(10**9)
except KeyboardInterrupt:
    print(crf.inference(1).shape)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert run.stdout == "(8, 40000)\n", run.stderr


def test_helpers():
    labels = np.array([[0, 1], [2, 2]])
    u = utils.unary_from_labels(labels, 2, 0.8)
    assert u.dtype == np.float32
    np.testing.assert_allclose(np.exp(-u), [[0.5, 0.8, 0.2, 0.2], [0.5, 0.2, 0.8, 0.8]], rtol=1e-5)
    u = utils.unary_from_labels(labels, 3, 0.8, zero_unsure=False)
    np.testing.assert_allclose(np.exp(-u[:, 0]), [0.8, 0.1, 0.1], rtol=1e-5)
    with pytest.raises(AssertionError):
        utils.unary_from_labels(labels, 3, 1.0)
    sm = np.array([[0.0, 0.25], [1.0, 0.75]])
    np.testing.assert_allclose(np.exp(-utils.unary_from_softmax(sm)), [[1e-5, 0.25], [1, 0.75]], rtol=1e-4)
    np.testing.assert_allclose(np.exp(-utils.unary_from_softmax(sm, scale=0.5)), sm / 2 + 0.25, rtol=1e-4)
    with pytest.warns(DeprecationWarning):
        assert utils.softmax_to_unary(sm[:, 1:])[0, 0] == pytest.approx(-np.log(0.25))
    with pytest.warns(DeprecationWarning):
        np.testing.assert_allclose(np.exp(-utils.compute_unary(labels, 2))[:, 1], 0.5, rtol=1e-5)
    features = utils.create_pairwise_gaussian((2, 4), (2, 3))
    np.testing.assert_allclose(features, [[0, 0, 0, 0.5, 0.5, 0.5], [0, 0.25, 0.5, 0, 0.25, 0.5]])
    grey = utils.create_pairwise_bilateral((1, 1), (2,), np.arange(6).reshape(2, 3))
    np.testing.assert_allclose(grey[2], np.arange(6) / 2)
    color = utils.create_pairwise_bilateral((1, 1), 2.0, np.arange(12).reshape(2, 3, 2), chdim=2)
    assert color.shape == (4, 6) and color[3, 0] == 0.5
    # As in the original, -1 means no channels at all, so that the first axis counts as a position.
    odd = utils.create_pairwise_bilateral((1, 1, 1), 1.0, np.zeros((2, 3, 4)), chdim=-1)
    assert odd.shape == (4, 24)


@pytest.mark.parametrize("sxy", [[3], (), "", "35", {}, [[3, 3]], [3, "a"], None, object()])
def test_deviations_that_are_none(sxy):
    with pytest.raises(ValueError, match="sxy"):
        dcrf.DenseCRF2D(3, 2, 2).addPairwiseGaussian(sxy=sxy, compat=3)
    with pytest.raises(ValueError, match="srgb"):
        dcrf.DenseCRF2D(3, 2, 2).addPairwiseBilateral(3, sxy, np.zeros((2, 3, 3)), 3)


def test_deviations_in_any_form():
    runs = []
    for sxy in (3, 3.0, np.array(3), (3, 3), [3, 3, 9], np.float32([3, 3])):
        crf = dcrf.DenseCRF2D(3, 2, 2)
        crf.setUnaryEnergy(np.arange(12).reshape(2, 6) % 5)
        crf.addPairwiseGaussian(sxy, 3)
        runs.append(crf.inference(2))
    for run in runs[1:]:
        np.testing.assert_array_equal(run, runs[0])


@pytest.mark.parametrize(
    "call, match",
    [
        (lambda: utils.unary_from_labels([0, 4], 3, 0.7), "labels lie in 0 to 4, but must be 0 to 3"),
        (lambda: utils.unary_from_labels([0, 3], 3, 0.7, zero_unsure=False), "0 to 3, but must be 0 to 2"),
        (lambda: utils.unary_from_labels([0, -1], 3, 0.7), "labels lie in -1"),
        (lambda: utils.unary_from_softmax(np.array([]), scale=0.5), "at least one label"),
        (lambda: utils.unary_from_softmax(np.zeros((0, 4))), "at least one label"),
        (lambda: utils.unary_from_softmax(np.array(0.5)), "at least one label"),
        (lambda: utils.create_pairwise_gaussian((3, 3, 3), (2, 2)), "sdims has 3 values"),
        (lambda: utils.create_pairwise_bilateral((3, 3), (1, 2), np.zeros((2, 2, 1)), 2), "schan has 2 values"),
        (lambda: utils.create_pairwise_bilateral((3, 3), 1, np.zeros((2, 2, 1)), 2**63), "chdim"),
    ],
)
def test_helpers_refuse(call, match):
    with pytest.raises(ValueError, match=match):
        call()


@pytest.mark.parametrize("bad", [0, 1, -1, 10**400, np.nan])
def test_assertions_of_the_original(bad):
    with pytest.raises(AssertionError):
        utils.unary_from_labels([0, 1], 3, bad)
    if bad != 1:
        with pytest.raises(AssertionError):
            utils.unary_from_softmax(np.ones((2, 3)) / 2, scale=bad)


def test_eigen():
    assert eigen.matrixXf(np.ones((2, 3))).flags.f_contiguous
    assert eigen.vectorXf([1, 2]).dtype == np.float32
    with pytest.raises(ValueError):
        eigen.matrixXf(np.ones(3))


def test_install_under_the_old_name(tmp_path):
    script = tmp_path / "old.py"
    script.write_text(
        "import pydensecrf.densecrf as dcrf\n"
        "from pydensecrf.utils import unary_from_labels\n"
        "import pydensecrf.eigen\n"
        "shape = dcrf.DenseCRF2D(3, 2, 2).inference(1).shape\n"
    )
    before = set(sys.modules)
    from relaxcrf.compat import pydensecrf

    pydensecrf.install()
    try:
        assert runpy.run_path(str(script))["shape"] == (2, 6)
    finally:
        for name in set(sys.modules) - before:
            if name.startswith("pydensecrf"):
                del sys.modules[name]
