"""Many images in one call: the same results as one by one, in order, whatever happens to some of them."""

import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from conftest import SHARED, make_scene

import relaxcrf
from relaxcrf.errors import ArgumentError, DataError, ShapeError

SIZES = [(23, 31), (40, 20), (11, 17), (30, 30), (23, 31), (9, 50)]


@pytest.fixture(scope="module")
def scenes():
    return [make_scene(h, w, labels=2 + k % 3, seed=k)[:2] for k, (h, w) in enumerate(SIZES)]


def split(scenes):
    return [image for image, _ in scenes], [p for _, p in scenes]


@pytest.mark.parametrize("jobs", [1, 2, 5])
@pytest.mark.parametrize("options", [{}, {"method": "mf"}, {"output": "probabilities"}])
def test_equal_to_one_by_one_for_any_number_of_jobs(scenes, jobs, options):
    images, probabilities = split(scenes)
    got = relaxcrf.batch(images, probabilities, jobs=jobs, **options)
    want = [relaxcrf.refine(i, p, **options) for i, p in scenes]
    assert isinstance(got, list) and len(got) == len(want)
    assert all(np.array_equal(g, w) and g.dtype == w.dtype for g, w in zip(got, want))


def test_arrays_with_labels_first_or_last():
    scenes = [make_scene(20, 24, 3, seed)[:2] for seed in range(4)]
    images, p = (np.stack(part) for part in split(scenes))
    want = [relaxcrf.refine(i, q) for i, q in scenes]
    assert np.array_equal(relaxcrf.batch(images, p), want)
    last = np.moveaxis(p, 1, -1)
    assert np.array_equal(relaxcrf.batch(images, last, label_axis=-1), want)
    frozen = images.copy()
    frozen.setflags(write=False)
    assert np.array_equal(relaxcrf.batch(frozen, p[::1]), want)
    grey = images[..., 0]
    assert np.array_equal(relaxcrf.batch(grey, p)[0], relaxcrf.refine(grey[0], p[0]))


def test_results_and_presets(scenes):
    images, probabilities = split(scenes)
    results = relaxcrf.batch(images, probabilities, "pydensecrf", method="qp", output="result")
    assert all(r.lower_bound is not None for r in results)


def test_an_iterator_is_read_no_further_than_needed(scenes):
    taken = []
    images, probabilities = split(scenes * 20)

    def source():
        for image in images:
            taken.append(image)
            yield image

    jobs, lookahead = 2, 3
    results = relaxcrf.batch(source(), probabilities, jobs=jobs, lookahead=lookahead)
    assert not isinstance(results, list) and taken == []
    for k in range(10):
        assert np.array_equal(next(results), relaxcrf.refine(images[k], probabilities[k]))
        # Those at work and waiting, the one just handed over, and none beyond.
        assert len(taken) <= k + 1 + jobs + lookahead
    results.close()
    assert len(taken) <= 10 + jobs + lookahead


def test_the_source_runs_on_the_callers_thread(scenes):
    threads = set()

    def source():
        for image, _ in scenes:
            threads.add(threading.current_thread())
            yield image

    list(relaxcrf.batch(source(), [p for _, p in scenes], jobs=3))
    assert threads == {threading.current_thread()}


def test_errors_are_values_in_their_places(scenes):
    images, probabilities = split(scenes)
    probabilities = list(probabilities)
    probabilities[1] = probabilities[1][:, :5]
    probabilities[3] = np.full_like(probabilities[3], np.nan)
    got = relaxcrf.batch(images, probabilities, jobs=2)
    assert isinstance(got[1], ShapeError) and isinstance(got[3], DataError)
    for k in (0, 2, 4, 5):
        assert np.array_equal(got[k], relaxcrf.refine(images[k], probabilities[k]))
    with pytest.raises(ShapeError):
        relaxcrf.batch(images, probabilities, errors="raise")
    seen = []
    with pytest.raises(ShapeError):
        for labels in relaxcrf.batch(iter(images), probabilities, errors="raise"):
            seen.append(labels)
    assert len(seen) == 1


def test_a_source_that_fails_is_told_after_what_came_before(scenes):
    def source():
        yield scenes[0][0]
        yield scenes[1][0]
        raise OSError("the disk is gone")

    results = relaxcrf.batch(source(), (p for _, p in scenes), jobs=4)
    assert np.array_equal(next(results), relaxcrf.refine(*scenes[0]))
    assert np.array_equal(next(results), relaxcrf.refine(*scenes[1]))
    with pytest.raises(OSError, match="disk is gone"):
        next(results)


def test_as_many_images_as_probabilities(scenes):
    images, probabilities = split(scenes)
    with pytest.raises(ShapeError, match="6 images but 5 probabilities"):
        relaxcrf.batch(images, probabilities[:5])
    results = relaxcrf.batch(iter(images), iter(probabilities[:5]))
    with pytest.raises(ShapeError, match="end after 5"):
        list(results)
    assert relaxcrf.batch([], []) == []
    assert list(relaxcrf.batch(iter([]), iter([]))) == []


@pytest.mark.parametrize(
    "options, text",
    [
        ({"errors": "ignore"}, "errors is 'ignore'"),
        ({"output": "labelz"}, "output is"),
        ({"jobs": 0}, "jobs is 0"),
        ({"jobs": True}, "jobs is True"),
        ({"lookahead": -1}, "lookahead is -1"),
        ({"preset": "nonsense"}, "preset is"),
        ({"method": "nonsense"}, "nonsense"),
    ],
)
def test_what_is_wrong_with_the_call_is_told_at_once(scenes, options, text):
    images, probabilities = split(scenes)
    with pytest.raises(ArgumentError, match=text):
        relaxcrf.batch(iter(images), iter(probabilities), **options)


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
@pytest.mark.parametrize("many", ["[image] * 5, [p] * 5", "iter([image] * 5), iter([p] * 5)"])
def test_an_interrupt_does_not_wait_for_the_images_at_work(many):
    program = f"""
import numpy as np, relaxcrf
image, p = np.zeros((20, 30, 3), np.uint8), np.full((2, 20, 30), 0.5)
print("ready", flush=True)
try:
    list(relaxcrf.batch({many}, iterations=10**12, jobs=2))
except KeyboardInterrupt:
    print("stopped")
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        try:
            # By then work has begun.
            with pytest.raises(subprocess.TimeoutExpired):
                child.wait(0.7)
            child.send_signal(signal.SIGINT)
            assert child.wait(30) == 0
            assert child.stdout.read() == "stopped\n"
        finally:
            child.kill()


def test_one_image_is_not_a_batch(scenes):
    with pytest.raises(ShapeError, match="use refine"):
        relaxcrf.batch(*scenes[0])


def test_buffers_of_several_axes():
    scenes = [make_scene(20, 24, 3, seed)[:2] for seed in range(2)]
    images, p = (np.stack(part) for part in split(scenes))
    assert np.array_equal(relaxcrf.batch(memoryview(images), memoryview(p)), relaxcrf.batch(images, p))


@pytest.mark.filterwarnings("ignore:label .* at every pixel has lower energy")
def test_real_images(shared):
    image_module = pytest.importorskip("PIL.Image")
    names = sorted(p.stem for p in (SHARED / "data/segmentation/msrc/images").glob("*.png"))[:4]
    folder = SHARED / "data/segmentation/msrc"
    images = [np.asarray(image_module.open(folder / f"images/{n}.png").convert("RGB")) for n in names]
    probabilities = []
    for n in names:
        with np.load(folder / f"probs/{n}.npz") as archive:
            probabilities.append(archive[archive.files[0]])
    got = relaxcrf.batch(images, probabilities, jobs=2)
    assert all(np.array_equal(g, relaxcrf.refine(i, p)) for g, i, p in zip(got, images, probabilities))
