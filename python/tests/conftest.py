"""Scenes that the tests share, and where to find data that is not part of the project."""

import os
import pathlib
import signal

import hypothesis
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("RELAXCRF_SHARED", ROOT.parent / "shared"))

# Shells start background jobs with Ctrl-C ignored, and the tests that press it would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples every time: a test should not fail by chance.
hypothesis.settings.register_profile("repeatable", derandomize=True)
hypothesis.settings.load_profile("repeatable")


def make_scene(height=23, width=31, labels=3, seed=1, channels=3):
    """An image of noisy patches and probabilities (labels x height x width) that mostly agree with them."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width]
    truth = (y * 3 // height + x * 4 // width) % labels
    colors = rng.integers(20, 235, (labels, channels))
    image = np.clip(colors[truth] + rng.normal(0, 8, (height, width, channels)), 0, 255).astype(np.uint8)
    logits = rng.normal(0, 1.2, (labels, height, width)) + 1.5 * (np.arange(labels)[:, None, None] == truth)
    probabilities = np.exp(logits) / np.exp(logits).sum(0)
    return image, probabilities.astype(np.float32), truth


@pytest.fixture
def scene():
    return make_scene()


@pytest.fixture
def shared():
    if not SHARED.is_dir():
        pytest.skip(f"no data at {SHARED} (set RELAXCRF_SHARED)")
    return SHARED
