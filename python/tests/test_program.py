"""The program and the package give the same labels: one default, one code path."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from conftest import SHARED, make_scene

import relaxcrf

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = [ROOT / "target" / profile / "relaxcrf" for profile in ("debug", "release")]


@pytest.fixture
def run(tmp_path):
    built = [path for path in PROGRAMS if path.is_file()]
    if not built:
        pytest.skip("the program is not built: cargo build")
    program = max(built, key=lambda path: path.stat().st_mtime)

    def run(*words):
        command = [program, *map(str, words), "--quiet"]
        done = subprocess.run(
            command, cwd=tmp_path, check=False, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr

    return run


def write(folder, image, probabilities):
    pictures = pytest.importorskip("PIL.Image")
    (folder / "images").mkdir()
    (folder / "probs").mkdir()
    pictures.fromarray(image).save(folder / "images" / "a.png")
    # Windows of tiles are read from C order alone.
    np.save(folder / "probs" / "a.npy", np.ascontiguousarray(probabilities, np.float32))
    return folder / "images" / "a.png", folder / "probs" / "a.npy"


def same_everywhere(run, folder, image, p, options=(), **arguments):
    picture, probs = write(folder, image, p)
    expected = relaxcrf.refine(image, p, **arguments)
    run("segment", picture, "--probs", probs, "-o", "one.npy", *options)
    np.testing.assert_array_equal(np.load(folder / "one.npy"), expected)
    run("batch", "images", "-o", "out", "--format", "npy", *options)
    np.testing.assert_array_equal(np.load(folder / "out" / "labels" / "a.npy"), expected)
    run("segment", picture, "--probs", probs, "-o", "tiles.npy", "--tile", 1024, *options)
    np.testing.assert_array_equal(np.load(folder / "tiles.npy"), expected)
    np.testing.assert_array_equal(relaxcrf.refine_tiled(image, p, tile=1024, **arguments), expected)
    np.testing.assert_array_equal(relaxcrf.batch([image], [p], **arguments)[0], expected)
    np.testing.assert_array_equal(relaxcrf.refine(image, p, output="result", **arguments).labels, expected)
    np.testing.assert_array_equal(
        relaxcrf.refine(image, p, output="probabilities", **arguments).argmax(0), expected
    )


@pytest.mark.filterwarnings("ignore:label .* at every pixel has lower energy")
@pytest.mark.parametrize(
    "options, arguments",
    [
        ((), {}),
        (("--preset", "pydensecrf"), {"preset": "pydensecrf"}),
        (("--preset", "contours", "--max-iter", "3"), {"preset": "contours", "iterations": 3}),
        (("--method", "mf"), {"method": "mf"}),
    ],
)
@pytest.mark.parametrize("labels", [2, 3, 12])
def test_program_and_package_give_equal_labels(run, tmp_path, labels, options, arguments):
    image, p, _ = make_scene(40, 60, labels)
    same_everywhere(run, tmp_path, image, p, options, **arguments)


@pytest.mark.filterwarnings("ignore:label .* at every pixel has lower energy")
@pytest.mark.parametrize("name", ["voc", "msrc", "camvid"])
def test_program_and_package_give_equal_labels_on_photographs(run, tmp_path, shared, name):
    pictures = pytest.importorskip("PIL.Image")
    folder = SHARED / "data" / "segmentation" / name
    file = sorted((folder / "probs").glob("*.npz"))[0]
    with np.load(file) as archive:
        p = archive[archive.files[0]]
    image = np.asarray(pictures.open(next((folder / "images").glob(file.stem + ".*"))).convert("RGB"))
    same_everywhere(run, tmp_path, image, p)
