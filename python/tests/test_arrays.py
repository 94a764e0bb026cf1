"""Any sane array gives the same answer."""

import numpy as np
import pytest
from conftest import make_scene
from hypothesis import given, settings
from hypothesis import strategies as st

import relaxcrf
import relaxcrf.ray
from relaxcrf.compat.pydensecrf import densecrf as dcrf
from relaxcrf.errors import ArgumentError, DtypeError


def model_labels(unary, image, **options):
    channel_axis = options.pop("channel_axis", -1)
    kernels = [relaxcrf.Gaussian(2, 1), relaxcrf.Bilateral(image, 20, 13, 2, channel_axis)]
    model = relaxcrf.Model(unary, kernels, **options)
    return relaxcrf.solve(model, "mf", threads=1)


def layouts(array):
    """The same values in other layouts."""
    wide = np.zeros((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
    wide[..., ::2] = array
    frozen = array.copy()
    frozen.flags.writeable = False
    odd = np.empty(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    odd[...] = array
    return {
        "c": np.ascontiguousarray(array),
        "fortran": np.asfortranarray(array),
        "strided": wide[..., ::2],
        "reversed": array[::-1].copy()[::-1],
        "read-only": frozen,
        "unaligned": odd,
        "list": array.tolist(),
    }


def test_layouts(scene):
    image, p, _ = scene
    unary = -np.log(p)
    want = model_labels(unary, image)
    for name, array in layouts(unary).items():
        got = model_labels(array, image)
        np.testing.assert_array_equal(got.probabilities, want.probabilities, err_msg=name)
    for name, array in layouts(image).items():
        got = model_labels(unary, array)
        np.testing.assert_array_equal(got.probabilities, want.probabilities, err_msg=name)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int16", "int64", "uint8", "uint16", "bool"])
def test_dtypes(dtype):
    image, p, _ = make_scene(9, 12, 2)
    unary = (4 * p).astype(dtype)
    want = model_labels(unary.astype(np.float32), image)
    np.testing.assert_array_equal(model_labels(unary, image).probabilities, want.probabilities)
    if dtype not in ("int8", "bool"):
        got = model_labels(unary, image.astype(dtype))
        np.testing.assert_array_equal(got.probabilities, want.probabilities)


def test_byte_order_and_subclasses(scene):
    image, p, _ = scene
    want = model_labels(2 * p, image).probabilities
    np.testing.assert_array_equal(model_labels((2 * p).astype(">f4"), image).probabilities, want)
    np.testing.assert_array_equal(model_labels(np.ma.masked_array(2 * p), image).probabilities, want)


@pytest.mark.parametrize(
    "call",
    [
        lambda hidden, image, p: relaxcrf.refine(image, hidden(p)),
        lambda hidden, image, p: relaxcrf.refine(hidden(image), p),
        lambda hidden, image, p: relaxcrf.refine_tiled(hidden(image), p, tile=16),
        lambda hidden, image, p: relaxcrf.batch([image], [hidden(p)], errors="raise"),
        lambda hidden, image, p: relaxcrf.Model.from_labels(hidden(p.argmax(0)), 3),
        lambda hidden, image, p: relaxcrf.Model(2 * p).energy(hidden(p.argmax(0))),
        lambda hidden, image, p: relaxcrf.Model(Detached(hidden(2 * p))),
        lambda hidden, image, p: relaxcrf.filter(p[0, :, :2], hidden(p[0])),
        lambda hidden, image, p: relaxcrf.ray.Refiner(threads=1)({"image": [image], "probabilities": [hidden(p)]}),
        lambda hidden, image, p: dcrf.DenseCRF2D(31, 23, 3).setUnaryEnergy(hidden(p)),
        lambda hidden, image, p: dcrf.DenseCRF2D(31, 23, 3).stepInference(hidden(p.reshape(3, -1))),
    ],
)
def test_masks_that_hide_something(scene, call):
    image, p, _ = scene

    def hidden(array):
        mask = np.zeros(array.shape, bool)
        mask.flat[:2] = True
        return np.ma.masked_array(array, mask)

    with pytest.raises(ArgumentError, match=r"is a masked array that hides 2 of \d+ values.*\.filled\("):
        call(hidden, image, p)
    call(np.ma.masked_array, image, p)


class Tensor:
    """What matters of a torch tensor that records gradients: plain conversion is refused."""

    def __init__(self, array):
        self.array = array

    def detach(self):
        return Detached(self.array)

    def cpu(self):
        return self

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("Can't call numpy() on Tensor that requires grad.")


class Detached:
    dtype = "torch.float32"

    def __init__(self, array):
        self.array = array

    def cpu(self):
        return self

    def __array__(self, dtype=None, copy=None):
        return np.asanyarray(self.array, dtype=dtype)


class OnlyDlpack:
    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_protocols(scene):
    image, p, _ = scene
    want = model_labels(2 * p, image).probabilities
    for wrap in (Tensor, OnlyDlpack, memoryview):
        np.testing.assert_array_equal(model_labels(wrap(2 * p), wrap(image)).probabilities, want, err_msg=str(wrap))


def test_real_torch(scene):
    torch = pytest.importorskip("torch")
    image, p, _ = scene
    want = model_labels(2 * p, image).probabilities
    got = model_labels(torch.from_numpy(2 * p).requires_grad_(), torch.from_numpy(image.copy()))
    np.testing.assert_array_equal(got.probabilities, want)


@pytest.mark.parametrize("bad", [object(), [[1], [1, 2]], "text", np.array([None, 1]), np.ones((2, 3)) * 1j])
def test_not_an_array(bad):
    with pytest.raises(DtypeError):
        relaxcrf.Model(bad)


def test_no_copy_of_what_fits(scene):
    from relaxcrf._arrays import as_float32, rows_of

    _, p, _ = scene
    assert np.shares_memory(as_float32(p, "p"), p)
    assert np.shares_memory(rows_of(p, 0), p)


def test_axes(scene):
    image, p, _ = scene
    want = model_labels(2 * p, image)
    got = model_labels(2 * p.transpose(1, 2, 0), image.transpose(2, 0, 1), label_axis=-1, channel_axis=0)
    np.testing.assert_array_equal(got.labels, want.labels)
    np.testing.assert_array_equal(got.probabilities.transpose(2, 0, 1), want.probabilities)
    middle = model_labels(2 * p.transpose(1, 0, 2), image, label_axis=1)
    np.testing.assert_array_equal(middle.probabilities.transpose(1, 0, 2), want.probabilities)


@settings(max_examples=25, deadline=None)
@given(
    shape=st.lists(st.integers(1, 7), min_size=1, max_size=3),
    labels=st.integers(2, 5),
    channels=st.integers(1, 4),
    order=st.permutations(range(4)),
    seed=st.integers(0, 99),
)
def test_any_axes_in_any_order(shape, labels, channels, order, seed):
    """Grids of one to three dimensions with labels and channels anywhere are the flat problem on points."""
    rng = np.random.default_rng(seed)
    unary = rng.random((*shape, labels), np.float32)
    image = rng.integers(0, 255, (*shape, channels), np.uint8)
    axis = order[0] % (len(shape) + 1)
    model = relaxcrf.Model(
        np.moveaxis(unary, -1, axis),
        [relaxcrf.Bilateral(np.moveaxis(image, -1, order[1] % (len(shape) + 1)), 3, 30, 1, order[1] % (len(shape) + 1))],
        label_axis=axis,
        filter="exact",
    )
    position = np.indices(shape).reshape(len(shape), -1).T[:, ::-1] / 3
    features = np.concatenate([position, image.reshape(-1, channels) / 30], axis=1)
    flat = relaxcrf.Model(unary.reshape(-1, labels).T, [relaxcrf.Features(features, 1)], filter="exact")
    labelling = rng.integers(0, labels, shape)
    assert model.energy(labelling) == pytest.approx(flat.energy(labelling.ravel()), rel=1e-5)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 4), st.sampled_from(["f2", "f4", "f8"]), st.booleans())
def test_shim_takes_any_layout(width, height, labels, dtype, fortran):
    unary = np.random.default_rng(width).random((labels, width * height)).astype(dtype)
    runs = []
    for u in (unary, np.array(unary, order="F" if fortran else "C")[:, ::-1].copy()[:, ::-1]):
        crf = dcrf.DenseCRF2D(width, height, labels)
        crf.setUnaryEnergy(u)
        crf.addPairwiseGaussian(sxy=2, compat=3)
        runs.append(crf.inference(3))
    np.testing.assert_array_equal(*runs)
    np.testing.assert_allclose(runs[0].sum(0), 1, atol=1e-5)
