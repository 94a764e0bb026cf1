"""Tiles that fit together, from and to arrays of every kind."""

import numpy as np
import pytest

import relaxcrf
from relaxcrf.errors import ArgumentError, DtypeError, MethodError, ShapeError

from conftest import make_scene

# Narrow kernels, so that a small image has many tiles beyond each other's sight. The halo is 20.
NARROW = relaxcrf.presets()["pydensecrf"]._replace(gaussian=(1.0, 0.5), bilateral=(4.0, 20.0, 3.0))


def mosaic(parts=4, size=40, labels=2):
    """Many small scenes, so that there is something to decide everywhere."""
    scenes = [[make_scene(size, size, labels, seed=parts * y + x)[:2] for x in range(parts)] for y in range(parts)]
    image = np.concatenate([np.concatenate([s[0] for s in row], axis=1) for row in scenes], axis=0)
    probabilities = np.concatenate([np.concatenate([s[1] for s in row], axis=2) for row in scenes], axis=1)
    # Pale and unsure, so that neighbours have a say.
    flat = probabilities**0.7
    return (90 + 0.3 * image).astype(np.uint8), flat / flat.sum(axis=0)


@pytest.mark.parametrize("method", [None, "mf5"])
def test_tiles_give_the_labels_of_the_whole_image(method):
    image, p = mosaic()
    whole = relaxcrf.refine(image, p, NARROW, method=method, output="probabilities").argmax(axis=0)
    tiled = relaxcrf.refine_tiled(image, p, NARROW, tile=50, method=method)
    assert tiled.dtype == np.uint8 and tiled.shape == whole.shape
    assert (tiled != whole).sum() == 0
    assert (tiled != p.argmax(axis=0)).sum() > 100
    # Without a halo the seams show: the comparison above can fail.
    cut = relaxcrf.refine_tiled(image, p, NARROW, tile=50, halo=0, method=method)
    assert (cut != whole).sum() > 50


def test_seams_are_no_worse_than_the_rest():
    image, p = mosaic(parts=6, size=50)
    whole = relaxcrf.refine(image, p, NARROW, output="probabilities")
    tiled = relaxcrf.refine_tiled(image, p, NARROW, tile=60, output="probabilities")
    off = np.abs(tiled - whole).max(axis=0)
    place = np.arange(300) % 60
    near = (np.minimum(place, 59 - place) < 10) & (np.abs(np.arange(300) - 150) < 140)
    border = near[:, None] | near[None, :]
    assert off[border].max() < 0.02 and off.mean() < 1e-4
    labels = (tiled.argmax(axis=0) != whole.argmax(axis=0))
    assert labels[border].mean() <= labels[~border].mean() + 1e-4


@pytest.mark.filterwarnings("ignore:label .* at every pixel has lower energy")
def test_axes_dtypes_and_destinations(tmp_path):
    image, p = mosaic(parts=3)
    expected = relaxcrf.refine_tiled(image, p, NARROW, tile=50)
    options = {"tile": 50, "label_axis": -1, "channel_axis": 0}
    turned = relaxcrf.refine_tiled(np.moveaxis(image, -1, 0), np.moveaxis(p, 0, -1), NARROW, **options)
    assert (turned == expected).all()
    out = np.lib.format.open_memmap(tmp_path / "out.npy", "w+", np.uint16, expected.shape)
    np.save(tmp_path / "p.npy", p)
    mapped = np.load(tmp_path / "p.npy", mmap_mode="r")
    assert relaxcrf.refine_tiled(image, mapped, NARROW, tile=50, out=out) is out
    assert (np.load(tmp_path / "out.npy") == expected).all()
    q = np.full(p.shape, -1, np.float32)
    relaxcrf.refine_tiled(image, p, NARROW, tile=50, out=q, output="probabilities")
    assert (q.argmax(axis=0) == expected).all() and np.allclose(q.sum(axis=0), 1, atol=1e-5)
    grey = relaxcrf.refine_tiled(image[..., 0], p, NARROW, tile=50)
    assert (grey == relaxcrf.refine(image[..., 0], p, NARROW, output="probabilities").argmax(axis=0)).all()


def test_any_thread_count_and_tile_in_one():
    image, p = mosaic(parts=3)
    one = relaxcrf.refine_tiled(image, p, NARROW, tile=50, threads=1)
    assert (one == relaxcrf.refine_tiled(image, p, NARROW, tile=50, threads=3)).all()
    assert (relaxcrf.refine_tiled(image, p, NARROW) == relaxcrf.refine(image, p, NARROW)).all()
    seen = []
    relaxcrf.refine_tiled(image, p, NARROW, tile=60, callback=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_volumes():
    rng = np.random.default_rng(0)
    truth = np.zeros((20, 24, 28), int)
    truth[5:15, 8:20, 3:20] = 1
    volume = (truth * 120 + rng.normal(60, 8, truth.shape)).astype(np.float32)
    p = np.clip(0.5 + 0.2 * (2 * truth - 1) + rng.normal(0, 0.25, truth.shape), 0.02, 0.98)
    p = np.stack([1 - p, p]).astype(np.float32)
    narrow = NARROW._replace(gaussian=(0.8, 0.5), bilateral=(1.2, 20.0, 2.0))
    whole = relaxcrf.refine(volume, p, narrow, channel_axis=None)
    assert (relaxcrf.refine_tiled(volume, p, narrow, tile=12, channel_axis=None) == whole).all()


def test_zarr_in_and_out(tmp_path):
    zarr = pytest.importorskip("zarr")
    image, p = mosaic(parts=3)
    for version in (2, 3):
        store = lambda name, like, chunks: zarr.create_array(  # noqa: E731
            str(tmp_path / f"{name}{version}"), shape=like.shape, chunks=chunks, dtype=like.dtype, zarr_format=version
        )
        expected = relaxcrf.refine_tiled(image, p, NARROW, tile=50)
        stored_image, stored = store("image", image, (32, 32, 3)), store("p", p, (2, 32, 32))
        stored_image[:], stored[:] = image, p
        out = store("labels", expected, (32, 32))
        relaxcrf.refine_tiled(stored_image, stored, NARROW, tile=50, out=out)
        assert (out[:] == expected).all()


def test_bad_arguments():
    image, p = mosaic(parts=2)
    run = relaxcrf.refine_tiled
    for bad, error, text in [
        ({"tile": 0}, ArgumentError, "tile is 0"),
        ({"tile": "big"}, ArgumentError, "'big'"),
        ({"halo": -1}, ArgumentError, "halo"),
        ({"halo": "wide"}, ArgumentError, "wide"),
        ({"memory": 1000}, ArgumentError, "memory"),
        ({"method": "auto"}, MethodError, "tile"),
        ({"output": "result"}, ArgumentError, "output"),
        ({"out": np.zeros((3, 3), np.uint8)}, ShapeError, "out has shape"),
        ({"out": []}, ArgumentError, "out of type list"),
        ({"out": np.zeros(p.shape, np.uint8), "output": "probabilities"}, ArgumentError, "float32"),
        ({"label_axis": 5}, ShapeError, "label_axis"),
    ]:
        with pytest.raises(error, match=text):
            run(image, p, NARROW, **bad)
    with pytest.raises(ShapeError, match="same"):
        run(image[1:], p, NARROW)
    with pytest.raises(ArgumentError, match="no shape"):
        run([[1]], p, NARROW)
    bad = p.copy()
    bad[0, 5, 5] = 7
    with pytest.raises(relaxcrf.errors.DataError, match="7"):
        run(image, bad, NARROW, tile=40)


@pytest.mark.parametrize("dtype", [bool, "S1", "U1", "M8[s]", "c8", object, "V2", [("a", "u2")], np.int8, np.uint8])
def test_labels_go_only_where_they_stay_what_they_are(dtype):
    image, p = np.zeros((6, 7), np.uint8), np.full((300, 6, 7), 1 / 300)
    out = np.zeros((6, 7), dtype)
    with pytest.raises(ArgumentError, match="^out .*dtype .*uint16$"):
        relaxcrf.refine_tiled(image, p, tile=16, out=out)
    assert (out == np.zeros((6, 7), dtype)).all()


def test_types_of_numbers_that_hold_all_labels():
    image, p = np.zeros((2, 3), np.uint8), np.full((3000, 2, 3), 0.5 / 2999)
    p[2999] = 0.5
    for dtype in (np.int16, np.uint64, np.float32, np.longdouble):
        assert (relaxcrf.refine_tiled(image, p, tile=16, out=np.zeros((2, 3), dtype)) == 2999).all()
    with pytest.raises(ArgumentError, match="float16 cannot hold 3000 labels"):
        relaxcrf.refine_tiled(image, p, tile=16, out=np.zeros((2, 3), np.float16))
    with pytest.raises(ArgumentError, match="out has dtype complex64, but probabilities need one such as float32"):
        relaxcrf.refine_tiled(image, p, tile=16, out=np.zeros(p.shape, np.complex64), output="probabilities")


def test_what_cannot_be_written_or_called_is_told_before_the_first_tile(monkeypatch):
    image, p = mosaic(parts=1)
    monkeypatch.setattr(relaxcrf._tiles.Windows, "refine", None)
    out = np.zeros(p.shape[1:], np.uint8)
    with pytest.raises(DtypeError, match="callback is 5, but must be a function of two arguments"):
        relaxcrf.refine_tiled(image, p, tile=16, callback=5)
    with pytest.raises(ArgumentError, match="memory is 'x'"):
        relaxcrf.refine_tiled(image, p, tile=16, memory="x")
    out.flags.writeable = False
    with pytest.raises(ArgumentError, match="out is read-only"):
        relaxcrf.refine_tiled(image, p, tile=16, out=out)

    class Foreign:
        """As a tensor of torch, whose dtype is one of its own."""

        shape, dtype, __setitem__ = p.shape[1:], "torch.uint8", None

    with pytest.raises(ArgumentError, match="out has a dtype that NumPy does not know"):
        relaxcrf.refine_tiled(image, p, tile=16, out=Foreign())


def test_zarr_that_is_read_only(tmp_path):
    zarr = pytest.importorskip("zarr")
    image, p = mosaic(parts=1)
    zarr.create_array(str(tmp_path / "out"), shape=p.shape[1:], chunks=(16, 16), dtype="u1")
    with pytest.raises(ArgumentError, match="out is read-only"):
        relaxcrf.refine_tiled(image, p, tile=16, out=zarr.open_array(str(tmp_path / "out"), mode="r"))


def test_a_side_for_any_memory():
    image, p = np.zeros((50, 3), np.uint8), np.full((2, 50), 0.5, np.float32)
    assert relaxcrf.refine_tiled(image, p, memory=2**62).shape == (50,)
