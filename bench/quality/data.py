"""Images, probabilities and truth of the shared data sets, and how label maps are scored."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).resolve().parent
SHARED = Path(os.environ.get("RELAXCRF_SHARED", HERE.parents[2] / "shared"))
ROOT = SHARED / "data" / "segmentation"

# Name of the table: (folder, folder of the truth)
SETS = {
    "voc": ("voc", "truth"),
    "msrc": ("msrc", "truth"),
    "camvid": ("camvid", "truth"),
    "msrc-exact": ("msrc", "truth_accurate"),
}
TITLES = {
    "voc": "PASCAL VOC 2012",
    "msrc": "MSRC-21",
    "camvid": "CamVid",
    "msrc-exact": "MSRC-21, exact contours",
}
BAND_PIXELS = 5


@dataclass
class Sample:
    """One image with a network's probabilities and the true labels."""

    name: str
    image: np.ndarray  # height x width x 3, uint8
    probabilities: np.ndarray  # labels x height x width, float32, sums to one
    truth: np.ndarray  # height x width
    void: int


def names_of(name: str, split: str = "all") -> list[str]:
    """IDs of the images of a set that have a truth, in order."""
    folder, truth = SETS[name]
    root = ROOT / folder
    parts = ["val", "test"] if split == "all" else [split]
    listed = {line.strip() for part in parts for line in (root / f"{part}.txt").read_text().splitlines()}
    return sorted(n for n in listed if n and (root / truth / f"{n}.png").exists())


def load(name: str, image_id: str) -> Sample:
    """Reads one image of a set."""
    folder, truth = SETS[name]
    root = ROOT / folder
    path = next((root / "images").glob(f"{image_id}.*"))
    image = np.array(Image.open(path).convert("RGB"))  # writable, as pydensecrf2 requires
    probabilities = np.load(root / "probs" / f"{image_id}.npz")["prob"].astype(np.float32)
    probabilities /= probabilities.sum(0)
    labels = np.asarray(Image.open(root / truth / f"{image_id}.png")).astype(np.int64)
    void = json.loads((root / "labels.json").read_text())["void_index"]
    return Sample(image_id, image, probabilities, labels, void)


def edge_band(truth: np.ndarray, radius: int = BAND_PIXELS) -> np.ndarray:
    """Pixels at most `radius` from a change of the true label, along the axes or diagonally.

    The definition of `relaxcrf evaluate --band`: void counts as a label of its own.
    """
    edge = np.zeros(truth.shape, bool)
    for axis in (0, 1):
        near, far = np.moveaxis(edge, axis, 0)[:-1], np.moveaxis(edge, axis, 0)[1:]
        changes = np.diff(np.moveaxis(truth, axis, 0), axis=0) != 0
        near |= changes
        far |= changes
    # A pixel at the edge is at distance 1 from the boundary between it and its neighbour.
    for axis in (0, 1):
        source = np.moveaxis(edge, axis, 0)
        wide = source.copy()
        for step in range(1, radius):
            wide[step:] |= source[:-step]
            wide[:-step] |= source[step:]
        edge = np.moveaxis(wide, 0, axis)
    return edge


@dataclass
class Counts:
    """Pixels by label: correct, truly of the label, given the label. Adds up over images."""

    correct: np.ndarray
    true: np.ndarray
    given: np.ndarray


def count(labels: np.ndarray, sample: Sample, where: np.ndarray | None = None) -> Counts:
    """Counts the pixels of one image whose truth is not void, of all of it or of `where`."""
    keep = sample.truth != sample.void
    if where is not None:
        keep &= where
    size = len(sample.probabilities)
    truth, labels = sample.truth[keep], labels[keep]
    tally = lambda values: np.bincount(values.astype(np.int64), minlength=size)[:size]
    return Counts(tally(truth[truth == labels]), tally(truth), tally(labels))


def stack(parts: list[Counts]) -> Counts:
    """Counts of several images, one row each."""
    return Counts(*(np.stack([getattr(p, k) for p in parts]).astype(np.float64) for k in ("correct", "true", "given")))


def mean_iou(counts: Counts, weights: np.ndarray) -> np.ndarray:
    """Mean IoU over the labels that occur, in percent, for each row of `weights` (how often each image counts)."""
    correct, true, given = (weights @ c for c in (counts.correct, counts.true, counts.given))
    present = true > 0
    union = np.where(present, true + given - correct, 1)
    return 100 * (np.where(present, correct / union, 0)).sum(-1) / present.sum(-1)


def accuracy(counts: Counts) -> float:
    """Share of pixels with the true label, in percent."""
    return 100 * counts.correct.sum() / counts.true.sum()


def resamples(images: int, draws: int, seed: int = 0) -> np.ndarray:
    """How often each image is drawn in each bootstrap sample: draws x images."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(images, np.full(images, 1 / images), size=draws).astype(np.float64)


def interval(values: np.ndarray) -> tuple[float, float]:
    """The middle 95 % of bootstrap values."""
    low, high = np.percentile(values, [2.5, 97.5])
    return float(low), float(high)
