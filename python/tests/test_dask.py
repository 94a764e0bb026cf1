"""Chunks of Dask arrays as tiles, on a local cluster of two processes."""

import os
import subprocess
import sys

import numpy as np
import pytest

import relaxcrf
from relaxcrf.errors import ArgumentError, ShapeError

from test_tiles import NARROW, mosaic

da = pytest.importorskip("dask.array", reason="Dask is not installed (pip install relaxcrf[dask])")
distributed = pytest.importorskip("distributed", reason="dask.distributed is not installed")

import relaxcrf.dask  # noqa: E402


@pytest.fixture(scope="module")
def client():
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
    ) as cluster:
        with distributed.Client(cluster) as client:
            yield client


def chunked(image, p, chunk):
    rows = chunk if isinstance(chunk, tuple) else (chunk, chunk)
    return da.from_array(image, chunks=(*rows, 2)), da.from_array(p, chunks=(1, *rows))


def test_a_cluster_gives_the_tiled_labels(client):
    image, p = mosaic()
    expected = relaxcrf.refine_tiled(image, p, NARROW, tile=50)
    lazy = relaxcrf.dask.refine(*chunked(image, p, 50), NARROW)
    assert lazy.dtype == np.uint8 and lazy.shape == expected.shape and lazy.chunks == ((50, 50, 50, 10),) * 2
    got = lazy.compute()
    assert (got == expected).all()
    assert (relaxcrf.dask.refine(*chunked(image, p, 50), NARROW, method="mf5").compute()
            == relaxcrf.refine_tiled(image, p, NARROW, tile=50, method="mf5")).all()


@pytest.mark.parametrize("chunk", [(7, 160), (13, 64), ((30, 5, 90, 35), (100, 60))])
def test_uneven_and_narrow_chunks(chunk):
    image, p = mosaic()
    # Chunks of 7 rows are narrower than the halo of 20.
    lazy = relaxcrf.dask.refine(*chunked(image, p, chunk), NARROW)
    assert lazy.shape == (160, 160)
    assert lazy.chunks == chunked(image, p, chunk)[1].chunks[1:]
    whole = relaxcrf.refine(image, p, NARROW)
    # Seven seams on so small an image: a pixel or two may be undecided enough to see what a halo cuts off.
    assert (lazy.compute(scheduler="threads") != whole).sum() <= 2


def test_probabilities_meta_and_other_axes():
    image, p = mosaic(parts=3)
    expected = relaxcrf.refine_tiled(image, p, NARROW, tile=60, output="probabilities")
    lazy = relaxcrf.dask.refine(*chunked(image, p, 60), NARROW, output="probabilities")
    assert lazy.dtype == np.float32 and isinstance(lazy._meta, np.ndarray) and lazy.shape == p.shape
    assert (lazy.compute(scheduler="sync") == expected).all()
    turned = relaxcrf.dask.refine(
        da.from_array(np.moveaxis(image, -1, 0), chunks=(3, 60, 60)),
        da.from_array(np.moveaxis(p, 0, -1), chunks=(120, 50, 1)),
        NARROW, label_axis=-1, channel_axis=0, output="probabilities",
    )
    assert np.array_equal(turned.compute(scheduler="sync"), np.moveaxis(expected, 0, -1))
    grey = relaxcrf.dask.refine(da.from_array(image[..., 0], chunks=60), p, NARROW)
    assert (grey.compute(scheduler="sync") == relaxcrf.refine_tiled(image[..., 0], p, NARROW, tile=60)).all()


def test_xarray_keeps_its_coordinates():
    xarray = pytest.importorskip("xarray")
    image, p = mosaic(parts=3)
    lazy_image, lazy_p = chunked(image, p, 60)
    y, x = np.arange(120) * 10.0, 500 + np.arange(120) * 10.0
    pixels = xarray.DataArray(lazy_image, dims=("y", "x", "band"), coords={"y": y, "x": x, "spatial_ref": 32633})
    scores = xarray.DataArray(lazy_p, dims=("class", "y", "x"), coords={"class": ["a", "b"], "y": y, "x": x})
    result = relaxcrf.dask.refine(pixels, scores, NARROW, label_axis="class", channel_axis="band")
    assert result.dims == ("y", "x") and (result.x == x).all() and int(result.spatial_ref) == 32633
    assert result.chunks == ((60, 60), (60, 60))
    expected = relaxcrf.refine_tiled(image, p, NARROW, tile=60)
    assert (result.compute(scheduler="sync").values == expected).all()
    q = relaxcrf.dask.refine(pixels, scores, NARROW, output="probabilities")
    assert q.dims == scores.dims and list(q["class"].values) == ["a", "b"]
    assert (q.compute(scheduler="sync").values.argmax(axis=0) == expected).all()
    with pytest.raises(ArgumentError, match="dimensions"):
        relaxcrf.dask.refine(pixels, scores, NARROW, label_axis="nope")


def test_an_image_smaller_than_the_halo():
    image, p = mosaic(parts=2)
    lazy = relaxcrf.dask.refine(*chunked(image, p, 40))  # the default's halo is 335
    assert lazy.chunks == ((40, 40), (40, 40))
    assert (lazy.compute(scheduler="sync") == relaxcrf.refine(image, p)).all()


def test_bad_input():
    image, p = mosaic(parts=2)
    lazy_image, lazy_p = chunked(image, p, 40)
    with pytest.raises(ShapeError, match="same"):
        relaxcrf.dask.refine(lazy_image[1:], lazy_p, NARROW)
    with pytest.raises(ArgumentError, match="named"):
        relaxcrf.dask.refine(lazy_image, lazy_p, NARROW, label_axis="class")
    with pytest.raises(ShapeError, match="unknown"):
        relaxcrf.dask.refine(lazy_image[lazy_image[:, 0, 0] > 0], lazy_p, NARROW)


def test_the_package_does_not_import_it():
    code = "import sys, relaxcrf; assert not {'dask', 'ray', 'xarray', 'zarr'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))
