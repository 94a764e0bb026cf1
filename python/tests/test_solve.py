"""Running methods: callbacks, stopping, interrupts, starts."""

import os
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
from conftest import make_scene

import relaxcrf
from relaxcrf.errors import ArgumentError, DataError, MethodError, ShapeError


@pytest.fixture
def model(scene):
    image, p, _ = scene
    return relaxcrf.Model(-np.log(p), [relaxcrf.Gaussian(3, 1.5), relaxcrf.Bilateral(image, 40, 13, 5)])


def test_every_method_runs_and_never_loses_to_its_start(model):
    start = model.energy(model.unary.argmin(0))
    for name in relaxcrf.methods():
        if name == "exact":  # for two labels
            with pytest.raises(relaxcrf.errors.MethodError, match="two labels"):
                relaxcrf.solve(model, name)
            continue
        result = relaxcrf.solve(model, name, max_iter=5)
        assert result.energy <= start, name
        assert result.energy == pytest.approx(model.energy(result.labels), rel=1e-6), name
        assert result.probabilities.shape == (3, 23, 31)
        np.testing.assert_allclose(result.probabilities.sum(0), 1, atol=1e-3)
        if result.lower_bound is not None:
            assert result.lower_bound <= result.energy + 1e-6 * abs(result.energy)
            assert result.gap >= 0


def test_auto_is_the_default(model):
    result = relaxcrf.solve(model)
    assert result.energy <= relaxcrf.solve(model, "mf").energy
    repulsive = relaxcrf.Model(model.unary, [relaxcrf.Gaussian(2, 0.1)], -(1 - np.eye(3)))
    assert relaxcrf.solve(repulsive).status


def test_exact_proves_two_label_optima():
    rng = np.random.default_rng(3)
    image = rng.integers(0, 255, (18, 22, 3), dtype=np.uint8)
    two = relaxcrf.Model(rng.random((2, 18, 22)), [relaxcrf.Gaussian(2, 0.3), relaxcrf.Bilateral(image, 20, 40, 0.3)])
    best = relaxcrf.solve(two, "exact")
    assert best.gap == 0
    for name in relaxcrf.methods():
        assert relaxcrf.solve(two, name).energy >= best.energy - 1e-5 * abs(best.energy), name


def test_probabilities_are_a_view(model):
    result = relaxcrf.solve(model, "mf", max_iter=2)
    assert result.probabilities.base is not None
    assert result.labels.dtype == np.uint8


def test_trace_and_counts(model):
    result = relaxcrf.solve(model, "mf+mf5", max_iter=3)
    assert [t.stage for t in result.trace] == [0, 0, 0, 1, 1, 1]
    assert [t.method for t in result.trace][::3] == ["mf", "mf5"]
    assert result.iterations == len(result.trace)
    assert result.filter_calls >= 6
    assert result.trace[-1].energy == pytest.approx(result.energy)


def test_callback_sees_everything_and_stops(model):
    seen = []
    here = threading.get_ident()

    def callback(progress):
        assert threading.get_ident() == here
        seen.append(progress)
        return progress.iteration == 3

    result = relaxcrf.solve(model, "mf", callback=callback)
    assert result.status == "stopped" and len(seen) == 3
    assert [p[:3] for p in seen] == [t[:3] for t in result.trace]


@pytest.mark.parametrize("threads", [1, 2])
def test_callback_may_use_the_library(model, threads):
    energies = []

    def callback(progress):
        inner = relaxcrf.solve(model, "mf5", threads=threads, callback=lambda p: p.iteration == 2)
        energies.append(inner.energy)

    relaxcrf.solve(model, "mf", max_iter=3, threads=threads, callback=callback)
    assert len(set(energies)) == 1 and len(energies) == 3


def test_exception_in_callback_keeps_what_was_found(model):
    def callback(progress):
        if progress.iteration == 2:
            raise ZeroDivisionError("on purpose")

    with pytest.raises(ZeroDivisionError) as caught:
        relaxcrf.solve(model, "mf", callback=callback)
    result = caught.value.result
    assert len(result.trace) == 2
    assert model.energy(result.labels) == pytest.approx(result.energy)
    assert relaxcrf.solve(model, "mf").status == "converged"


def test_interrupt_stops_between_iterations():
    """A real signal in a real process, in the middle of a long run without any callback."""
    code = """
        import os, signal, threading, numpy as np, relaxcrf
        unary = np.random.default_rng(0).random((8, 200, 200))
        model = relaxcrf.Model(unary, [relaxcrf.Gaussian(3, 1)])
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        try:
            relaxcrf.solve(model, "mf5", max_iter=10**9)
        except KeyboardInterrupt as stop:
            assert stop.result.status == "stopped" and stop.result.iterations > 0
            assert abs(model.energy(stop.result.labels) - stop.result.energy) < 1e-3
            print("stopped")
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60
    )
    assert run.stdout == "stopped\n", run.stderr


def test_interrupt_in_this_process(model):
    def callback(progress):
        if progress.iteration == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as caught:
        relaxcrf.solve(model, "mf5", max_iter=10**6, callback=callback)
    assert caught.value.result.iterations >= 2


def test_limits(model):
    assert relaxcrf.solve(model, "mf", max_iter=1).status == "iteration limit"
    assert relaxcrf.solve(model, "mf5", max_iter=10**9, time_limit=0.05).status == "time limit"
    assert relaxcrf.solve(model, "mf", tol=1e9).iterations == 1


def test_starts(model):
    labels = np.random.default_rng(0).integers(0, 3, (23, 31))
    onehot = np.eye(3)[labels].transpose(2, 0, 1)
    one = relaxcrf.solve(model, "mf", init=labels)
    two = relaxcrf.solve(model, "mf", init=onehot)
    np.testing.assert_array_equal(one.probabilities, two.probabilities)
    again = relaxcrf.solve(model, "mf", init=one)
    assert again.iterations <= one.iterations
    with pytest.raises(ShapeError, match="init has shape"):
        relaxcrf.solve(model, init=np.zeros((2, 23, 31)))
    with pytest.raises(DataError, match="sum to 1"):
        relaxcrf.solve(model, init=np.ones((3, 23, 31)))


def test_bad_arguments(model):
    with pytest.raises(ArgumentError, match="known methods"):
        relaxcrf.solve(model, "magic")
    with pytest.raises(ArgumentError, match="time_limit"):
        relaxcrf.solve(model, "mf", time_limit=-1)
    with pytest.raises(ArgumentError, match="tolerance"):
        relaxcrf.solve(model, "mf", tol=-1.0)
    with pytest.raises(ArgumentError, match="threads"):
        relaxcrf.solve(model, "mf", threads=0)
    with pytest.raises(TypeError, match="relaxcrf.Model"):
        relaxcrf.solve(np.zeros(3))
    repulsive = relaxcrf.Model(np.zeros((2, 3, 3)), [relaxcrf.Gaussian(1, 1)], [[0, -1], [-1, 0]])
    with pytest.raises(MethodError, match="use"):
        relaxcrf.solve(repulsive, "dc-neg")


def test_progress_bar_is_optional(model, monkeypatch):
    shown = []

    class Bar:
        def __init__(self, **options):
            shown.append(options)

        def update(self, n):
            shown.append(n)

        def set_postfix_str(self, text):
            assert "energy" in text

        def close(self):
            shown.append("closed")

    module = type(sys)("tqdm.auto")
    module.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm", type(sys)("tqdm"))
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    relaxcrf.solve(model, "mf", max_iter=3, progress=True)
    assert shown[1:] == [1, 1, 1, "closed"]
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    assert relaxcrf.solve(model, "mf", max_iter=3, progress=True).iterations == 3


def test_same_bytes_for_any_number_of_threads():
    image, p, _ = make_scene(60, 70, 5)
    runs = []
    for threads in (1, 2, 5):
        model = relaxcrf.Model(-np.log(p), [relaxcrf.Bilateral(image, 40, 13, 5)], threads=threads)
        runs.append(relaxcrf.solve(model, "mf", threads=threads).probabilities)
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[2])
