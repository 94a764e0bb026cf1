"""Threads, processes, forks: never a hang, always the same numbers."""

import concurrent.futures
import multiprocessing
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from conftest import make_scene

import relaxcrf
from relaxcrf import _core
from relaxcrf.compat.pydensecrf import densecrf as dcrf
from relaxcrf.compat.pydensecrf import utils

PATIENCE = 120


def job(seed):
    image, p, _ = make_scene(30, 40, 3, seed)
    model = relaxcrf.Model(-np.log(p), [relaxcrf.Gaussian(3, 1.5), relaxcrf.Bilateral(image, 40, 13, 5)])
    result = relaxcrf.solve(model, "mf")
    return result.labels, result.probabilities, result.energy


def shim_job(seed):
    image, p, _ = make_scene(30, 40, 3, seed)
    crf = dcrf.DenseCRF2D(40, 30, 3)
    crf.setUnaryEnergy(utils.unary_from_softmax(p))
    crf.addPairwiseBilateral(sxy=40, srgb=13, rgbim=image, compat=10)
    return crf.inference(5)


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(a, b))


def test_eight_threads_equal_serial():
    serial = [job(k) for k in range(16)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        parallel = list(pool.map(job, range(16)))
    assert all(same(a, b) for a, b in zip(serial, parallel))


def test_one_model_shared_by_threads():
    image, p, _ = make_scene()
    model = relaxcrf.Model(-np.log(p), [relaxcrf.Bilateral(image, 40, 13, 5)])
    want = relaxcrf.solve(model, "mf").probabilities
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: relaxcrf.solve(model, "mf").probabilities, range(16)))
    assert all(np.array_equal(want, got) for got in results)


def test_one_shim_shared_by_threads():
    image, p, _ = make_scene()
    crf = dcrf.DenseCRF2D(31, 23, 3)
    crf.setUnaryEnergy(utils.unary_from_softmax(p))
    crf.addPairwiseBilateral(sxy=40, srgb=13, rgbim=image, compat=10)
    want = crf.inference(5)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: crf.inference(5), range(16)))
    assert all(np.array_equal(want, got) for got in results)


@pytest.mark.parametrize("work", ["solve", "shim"])
def test_the_interpreter_is_free_meanwhile(work):
    """Another thread keeps counting while one works."""
    image, p, _ = make_scene(150, 200, 8)
    unary = -np.log(p)
    model = relaxcrf.Model(unary, [relaxcrf.Bilateral(image, 40, 13, 5)])
    crf = dcrf.DenseCRF2D(200, 150, 8)
    crf.setUnaryEnergy(unary)
    crf.addPairwiseBilateral(sxy=40, srgb=13, rgbim=image, compat=10)
    ticks, done = [], threading.Event()

    def tick():
        while not done.is_set():
            ticks.append(time.perf_counter())
            time.sleep(0.001)

    thread = threading.Thread(target=tick)
    thread.start()
    start = time.perf_counter()
    if work == "solve":
        relaxcrf.solve(model, "mf5", max_iter=40, threads=1)
    else:
        crf.inference(40)
    end = time.perf_counter()
    done.set()
    thread.join()
    inside = [t for t in ticks if start < t < end]
    gaps = np.diff([start, *inside, end])
    assert len(inside) > 5 and gaps.max() < 0.5 * (end - start), (len(inside), gaps.max(), end - start)


def test_calls_with_one_thread_each_do_not_wait_for_each_other():
    """Two calls at once overlap: each sees the other's callback happen before its own end."""
    image, p, _ = make_scene()
    model = relaxcrf.Model(-np.log(p), [relaxcrf.Bilateral(image, 40, 13, 5)])
    meet = threading.Barrier(2)

    def run(_):
        return relaxcrf.solve(model, "mf5", threads=1, callback=lambda _: meet.wait(PATIENCE) and False).iterations

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, range(2))) == [5, 5]


def start_methods():
    expected = ["fork", "spawn", "forkserver"]
    return [m for m in expected if m in multiprocessing.get_all_start_methods()]


@pytest.mark.parametrize("method", start_methods())
@pytest.mark.parametrize("function", [job, shim_job])
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_processes_after_use_in_the_parent(method, function):
    want = [function(k) for k in range(4)]
    with multiprocessing.get_context(method).Pool(2) as pool:
        got = pool.map_async(function, range(4)).get(timeout=PATIENCE)
    assert all(same(a, b) for a, b in zip(want, got))


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def in_child(function, *args):
    """Runs a function in a forked child; whether it returned true in time."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=lambda: queue.put(bool(function(*args))))
    child.start()
    try:
        return queue.get(timeout=PATIENCE)
    finally:
        child.kill()


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_inherited_objects_and_grandchildren():
    image, p, _ = make_scene()
    model = relaxcrf.Model(-np.log(p), [relaxcrf.Bilateral(image, 40, 13, 5)])
    want = relaxcrf.solve(model, "mf").probabilities

    def check():
        return np.array_equal(want, relaxcrf.solve(model, "mf", threads=2).probabilities)

    assert in_child(check)
    assert in_child(lambda: in_child(check))
    assert in_child(lambda: check() and in_child(check))


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_fork_while_another_thread_works():
    image, p, _ = make_scene(100, 100, 4)
    model = relaxcrf.Model(-np.log(p), [relaxcrf.Bilateral(image, 40, 13, 5)])
    relaxcrf.solve(model, "mf")
    done = threading.Event()
    worker = threading.Thread(
        target=lambda: relaxcrf.solve(model, "mf5", max_iter=10**9, callback=lambda _: done.is_set())
    )
    worker.start()
    try:
        assert all(in_child(lambda: relaxcrf.solve(model, "mf5", threads=2).iterations == 5) for _ in range(3))
    finally:
        done.set()
        worker.join(PATIENCE)
    assert not worker.is_alive()


@needs_fork
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_a_child_that_was_forked_in_a_callback_and_returns_from_it():
    image, p, _ = make_scene()
    model = relaxcrf.Model(-np.log(p), [relaxcrf.Bilateral(image, 40, 13, 5)])
    want, parent, children = relaxcrf.solve(model, "mf5").labels, os.getpid(), []

    def fork(progress):
        if progress.iteration == 2 and os.getpid() == parent:
            children.append(os.fork())

    try:
        got = relaxcrf.solve(model, "mf5", callback=fork).labels
    except relaxcrf.errors.ArgumentError as e:
        # The child: it is told, and can go on with the library.
        fine = "forked" in str(e) and os.getpid() != parent and same([relaxcrf.solve(model, "mf5").labels], [want])
        os._exit(7 if fine else 1)
    assert os.getpid() == parent and np.array_equal(got, want)
    (child,) = children
    for _ in range(10 * PATIENCE):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.1)
    else:
        os.kill(child, 9)
        pytest.fail("the child hangs")
    assert os.waitstatus_to_exitcode(status) == 7


@pytest.mark.parametrize("callback", [True, False])
@pytest.mark.parametrize(("threads", "method"), [(1, "mf"), (8, "mf5"), (1, "smooth-lp"), (4, "qp")])
def test_an_interpreter_that_ends_while_daemon_threads_are_at_work(callback, threads, method):
    script = f"""
import threading, time, numpy, relaxcrf
model = relaxcrf.Model(numpy.random.default_rng(0).random((4, 60, 80)), [relaxcrf.Gaussian(3, 1.5)])
started = threading.Semaphore(0)
def watch(step):
    started.release()
    time.sleep(0.01)
def work():
    started.release()
    while True:
        relaxcrf.solve(model, {method!r}, max_iter=10**6, tol=0, callback=watch if {callback} else None)
for _ in range({threads}):
    threading.Thread(target=work, daemon=True).start()
for _ in range({threads} + 2 * {callback}):
    started.acquire()
time.sleep(0.05)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")


def test_one_thread_stops_another():
    image, p, _ = make_scene()
    model = relaxcrf.Model.from_probabilities(p, [relaxcrf.Bilateral(image, 20, 10, 2)])
    stop, caught = _core.Stop(), []

    def work():
        stop.watch()
        try:
            relaxcrf.solve(model, "mf5", max_iter=10**12)
        except KeyboardInterrupt as interrupt:
            caught.append(interrupt)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.2)
    stop.set()
    thread.join(30)
    assert not thread.is_alive() and caught[0].result.labels.shape == model.shape


def test_number_of_threads(monkeypatch):
    monkeypatch.setenv("RAYON_NUM_THREADS", "3")
    assert relaxcrf.get_num_threads() == 3
    monkeypatch.setenv("RELAXCRF_NUM_THREADS", "2")
    assert relaxcrf.get_num_threads() == 2
    monkeypatch.setenv("RELAXCRF_NUM_THREADS", "many")
    assert relaxcrf.get_num_threads() == 3
    relaxcrf.set_num_threads(4)
    assert relaxcrf.get_num_threads() == 4
    relaxcrf.set_num_threads(None)
    assert relaxcrf.get_num_threads() == 3
    with pytest.raises(relaxcrf.errors.ArgumentError):
        relaxcrf.set_num_threads(0)


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="needs /proc")
def test_the_environment_is_honoured():
    code = (
        "import os, numpy as np, relaxcrf; before = len(os.listdir('/proc/self/task'));"
        "relaxcrf.solve(relaxcrf.Model(np.zeros((2, 50, 50)), [relaxcrf.Gaussian(3)]), 'mf');"
        "print(len(os.listdir('/proc/self/task')) - before)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "RELAXCRF_NUM_THREADS": "3"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.strip() == "3"
