"""Pairs with true disparities: those of the shared data, and generated ones."""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np

# Folder, left, right, truth, scale of the truth, disparities, true disparities of the right picture.
SHARED = [
    ("teddy", "im2.png", "im6.png", "disp2.png", 4, 60, None),
    ("venus", "im2.png", "im6.png", "disp2.pgm", 8, 20, None),
    ("Cloth3", "view1.png", "view5.png", "disp1.png", 2, 100, "disp5.png"),
]


@dataclass
class Pair:
    name: str
    left: Path
    right: Path
    disparities: int
    truth: np.ndarray
    masks: dict = field(default_factory=dict)


def _grey(path):
    image = cv2.imread(str(path), cv2.IMREAD_UNCHANGED)
    return image if image.ndim == 2 else cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)


def is_textureless(left):
    """Pixels whose mean squared horizontal gradient over 3 x 3 pixels is below 4, as OpenCV's stereo test has it."""
    grey = cv2.cvtColor(left, cv2.COLOR_BGR2GRAY) if left.ndim == 3 else left
    slope = cv2.Sobel(grey, cv2.CV_32F, 1, 0, ksize=3) / 8
    return cv2.boxFilter(slope * slope, cv2.CV_32F, (3, 3)) < 4


def _complete(pair):
    known = np.isfinite(pair.truth)
    left = cv2.imread(str(pair.left))
    pair.masks.setdefault("all", known)
    pair.masks["all"] = pair.masks["all"] & known
    pair.masks["textureless"] = pair.masks["all"] & is_textureless(left)
    return pair


def _visible(truth, right, scale):
    """Left pixels whose match in the right picture has the same disparity, give or take one."""
    height, width = truth.shape
    rows, columns = np.mgrid[:height, :width]
    match = columns - np.nan_to_num(truth, nan=1e6).round().astype(int)
    seen = (match >= 0) & np.isfinite(truth)
    other = right[rows, np.clip(match, 0, width - 1)].astype(np.float32) / scale
    return seen & (other > 0) & (np.abs(other - np.nan_to_num(truth)) <= 1)


def shared_pairs(folder):
    for name, left, right, truth, scale, disparities, truth_right in SHARED:
        place = Path(folder) / name
        if not place.is_dir():
            continue
        values = _grey(place / truth).astype(np.float32)
        pair = Pair(name, place / left, place / right, disparities, np.where(values > 0, values / scale, np.nan))
        for part in ("all", "nonocc", "disc"):
            mask = place / f"mask_{part}.png"
            if mask.exists():
                pair.masks[part] = (_grey(mask) == 255) & np.isfinite(pair.truth)
        if truth_right:
            pair.masks["nonocc"] = _visible(pair.truth, _grey(place / truth_right), scale)
        yield _complete(pair)


def generated_pairs(folder):
    """Scenes of the laboratory, written by its example `stereo_pairs`: rough, weakly textured, unevenly exposed."""
    folder = Path(folder)
    subprocess.run(["target/release/examples/stereo_pairs", str(folder)], check=True)
    for place in sorted(p for p in folder.iterdir() if p.is_dir()):
        truth = np.load(place / "truth.npy")
        visible = np.load(place / "visible.npy") > 0
        count = int((place / "disparities.txt").read_text())
        yield _complete(Pair(place.name, place / "left.png", place / "right.png", count, truth, {"nonocc": visible}))
