"""Batches of Ray Data, on two local workers."""

import os
import signal

import numpy as np
import pytest

import relaxcrf
from relaxcrf.errors import ArgumentError, ShapeError
from relaxcrf.ray import Refiner

from conftest import SHARED, make_scene
from test_tiles import NARROW

INPUTS = ["image", "probabilities"]


def batch_of(sizes, labels=3):
    scenes = [make_scene(*size, labels, seed=k)[:2] for k, size in enumerate(sizes)]
    columns = {}
    for name, arrays in zip(INPUTS, zip(*scenes)):
        if len({a.shape for a in arrays}) == 1:
            columns[name] = np.stack(arrays)
        else:
            columns[name] = np.empty(len(arrays), object)
            for k, array in enumerate(arrays):
                columns[name][k] = array
        for array in columns[name]:
            array.setflags(write=False)
    return columns


def test_batches_without_ray():
    even, ragged = batch_of([(20, 30)] * 3), batch_of([(20, 30), (25, 18), (30, 30)])
    for batch in (even, ragged):
        batch["id"] = np.arange(3)
        out = Refiner(NARROW, drop=INPUTS)(batch)
        assert set(out) == {"id", "labels"} and len(out["labels"]) == 3
        for got, image, p in zip(out["labels"], batch["image"], batch["probabilities"]):
            assert (got == relaxcrf.refine(image, p, NARROW)).all()
    assert Refiner(NARROW)(even)["labels"].dtype == np.uint8
    assert set(Refiner(NARROW, column="mask", output="probabilities")(even)) == {*INPUTS, "id", "mask"}


def test_bad_rows():
    batch = batch_of([(20, 30), (25, 18)])
    batch["image"][1] = batch["image"][1][1:]
    with pytest.raises(ShapeError, match="row 1 of the batch"):
        Refiner(NARROW)(batch)
    out = Refiner(NARROW, on_error="keep")(batch)
    assert out["error"][0] == "" and "24 x 18" in out["error"][1]
    assert out["labels"][0].shape == (20, 30) and out["labels"][1].size == 0
    with pytest.raises(ArgumentError, match="no column 'picture'"):
        Refiner(image="picture")(batch)
    with pytest.raises(ArgumentError, match="on_error"):
        Refiner(on_error="ignore")
    with pytest.raises(ArgumentError, match="preset"):
        Refiner("nope")


@pytest.fixture(scope="module")
def ray():
    module = pytest.importorskip("ray", reason="Ray is not installed (pip install relaxcrf[ray])")
    pytest.importorskip("ray.data")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    module.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
                object_store_memory=200 << 20)
    module.data.DataContext.get_current().enable_progress_bars = False
    yield module
    module.shutdown()


def voc():
    """Parts of the shared photographs with their probabilities, or generated scenes, of different sizes."""
    folder = SHARED / "data" / "segmentation" / "voc"
    if not folder.is_dir():
        batch = batch_of([(60 + k, 80 - k) for k in range(12)])
        return [{"name": str(k), "image": i, "probabilities": p} for k, (i, p) in enumerate(zip(*batch.values()))]
    from PIL import Image

    rows = []
    for k, path in enumerate(sorted((folder / "probs").glob("*.npz"))[:10]):
        image = np.asarray(Image.open(folder / "images" / f"{path.stem}.jpg").convert("RGB"))
        stored = np.load(path)
        p = stored[stored.files[0]]
        p = p.astype(np.float32) / (255 if p.dtype == np.uint8 else 1)
        part = np.s_[100 : 220 + k, 150:300]
        rows.append({"name": path.stem, "image": image[part], "probabilities": (p / p.sum(axis=0))[(slice(None), *part)]})
    return rows


def test_two_workers_and_one_that_dies(ray, tmp_path):
    # Defined here, so that it travels to the workers by value: they do not know this file.
    class Mortal(Refiner):
        """Dies at its first batch, once."""

        def __init__(self, marker, **options):
            super().__init__(**options)
            self.marker = marker

        def __call__(self, batch):
            if not os.path.exists(self.marker):
                open(self.marker, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            return super().__call__(batch)

    rows = voc()
    assert len(rows) >= 10 and len({r["image"].shape for r in rows}) > 1
    expected = {r["name"]: relaxcrf.refine(r["image"], r["probabilities"]) for r in rows}
    data = ray.data.from_items(rows, override_num_blocks=4)
    options = {"batch_size": 2, "num_cpus": 1, "compute": ray.data.ActorPoolStrategy(size=2)}
    arguments = {"marker": str(tmp_path / "died"), "drop": INPUTS}
    done = data.map_batches(Mortal, fn_constructor_kwargs=arguments, **options)
    found = {row["name"]: np.asarray(row["labels"]) for row in done.iter_rows()}
    assert set(found) == set(expected)
    for name, labels in found.items():
        assert labels.shape == expected[name].shape and (labels == expected[name]).all(), name
    assert (tmp_path / "died").exists()


def test_threads_are_the_cpus_asked_for(ray):
    @ray.remote(num_cpus=2)
    def two():
        return Refiner().threads

    assert ray.get(two.remote()) == 2
    assert Refiner(threads=3).threads == 3
