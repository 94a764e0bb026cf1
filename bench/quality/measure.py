"""Measures label maps of relaxcrf, pydensecrf2 and edge-aware filters on photographs with a network's probabilities.

Prints a Markdown table per data set: mean IoU, accuracy, mean IoU within 5 pixels of true edges, differences of both
mean IoUs to the network alone with a bootstrap interval, and CPU seconds per image on one thread.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import cv2
import data
import filters
import numpy as np

import relaxcrf

try:
    import pydensecrf.densecrf as peer
except ImportError:
    peer = None

# Name of the row, sigma and compat of the Gaussian, sigmas and compat of the bilateral kernel, updates
PEER_SETS = {
    "pydensecrf2, DeepLab's values": (1, 3, 67, 3, 4, 10),
    "pydensecrf2, README values": (3, 3, 80, 13, 10, 5),
}
# `clip-as-rnn` and `ov-seg` have the numbers of `voc` and `pydensecrf`; `w-net` makes 150 updates. Ask for them by name.
PRESETS = ("network", "voc", "contours", "pydensecrf", "pseudo-labels")
NETWORK = "network alone"


def peer_labels(parameters, image, probabilities):
    """Labels of pydensecrf2, called as its README does."""
    sxy, compat, bilateral_sxy, srgb, bilateral_compat, updates = parameters
    labels, height, width = probabilities.shape
    crf = peer.DenseCRF2D(width, height, labels)
    crf.setUnaryEnergy(np.ascontiguousarray(-np.log(np.clip(probabilities, 1e-5, 1)).reshape(labels, -1)))
    crf.addPairwiseGaussian(sxy=sxy, compat=compat)
    crf.addPairwiseBilateral(sxy=bilateral_sxy, srgb=srgb, rgbim=image, compat=bilateral_compat)
    return np.asarray(crf.inference(updates)).argmax(0).reshape(height, width)


def contenders(presets: list[str]) -> dict:
    """Functions from image and probabilities to labels, by the name of their row."""
    found = {NETWORK: lambda image, p: p.argmax(0)}
    for preset in presets:
        found[f"relaxcrf `{preset}`"] = lambda image, p, preset=preset: relaxcrf.refine(image, p, preset=preset)
    if peer is not None:
        for name, values in PEER_SETS.items():
            found[name] = lambda image, p, values=values: peer_labels(values, image, p)
    for name, filter in filters.FILTERS.items():
        found[name] = lambda image, p, filter=filter: filters.filtered_labels(filter, image, p)
    return found


def one_thread() -> None:
    cv2.setNumThreads(1)
    relaxcrf.set_num_threads(1)


def measure_image(task: tuple) -> dict:
    """Counts, counts near edges and CPU seconds of every contender on one image."""
    name, image_id, presets = task
    one_thread()
    sample = data.load(name, image_id)
    band = data.edge_band(sample.truth)
    rows = {}
    for row, function in contenders(presets).items():
        start = time.process_time()
        labels = function(sample.image, sample.probabilities)
        seconds = time.process_time() - start
        rows[row] = (data.count(labels, sample), data.count(labels, sample, band), seconds)
    return rows


def difference(counts, network, weights) -> str:
    """Mean IoU minus the network's, with the interval over images drawn in pairs."""
    once = np.ones((1, weights.shape[1]))
    gain = lambda w: data.mean_iou(counts, w) - data.mean_iou(network, w)
    low, high = data.interval(gain(weights))
    return f"{gain(once)[0]:+.1f} ({low:+.1f} to {high:+.1f})"


def table(name: str, results: list[dict], draws: int) -> str:
    """The Markdown table of a set."""
    head = [
        f"### {data.TITLES[name]} ({len(results)} images)",
        "",
        "| method | mIoU | difference (95 %) | mIoU near edges | difference (95 %) | accuracy | CPU s |",
        "|---|---|---|---|---|---|---|",
    ]
    weights = data.resamples(len(results), draws)
    once = np.ones((1, len(results)))
    totals = {row: [data.stack([r[row][part] for r in results]) for part in (0, 1)] for row in results[0]}
    lines = []
    for row, (whole, near) in totals.items():
        gains = ["", ""]
        if row != NETWORK:
            gains = [difference(c, totals[NETWORK][k], weights) for k, c in enumerate((whole, near))]
        seconds = np.median([r[row][2] for r in results])
        cells = [
            row,
            f"{data.mean_iou(whole, once)[0]:.1f}",
            gains[0],
            f"{data.mean_iou(near, once)[0]:.1f}",
            gains[1],
            f"{data.accuracy(whole):.1f}",
            "" if row == NETWORK else f"{seconds:.2f}",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(head + lines)


def machine() -> str:
    """Processor, number of cores and versions."""
    processor = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        processor = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    versions = f"relaxcrf {relaxcrf.__version__}, OpenCV {cv2.__version__}, NumPy {np.__version__}"
    return f"{processor}, {os.cpu_count()} cores; {versions}; Python {platform.python_version()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", action="append", choices=list(data.SETS), help="data set; repeatable [all]")
    parser.add_argument("--split", choices=["all", "val", "test"], default="all", help="images of each set [all]")
    parser.add_argument("--preset", action="append", help="preset name or TOML file; repeatable")
    parser.add_argument("--images", type=int, help="images per set at most [all]")
    parser.add_argument("--draws", type=int, default=2000, help="bootstrap samples [2000]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes [one per core]")
    parser.add_argument("--out", type=Path, help="write the tables to this file [standard output]")
    args = parser.parse_args()
    if not data.ROOT.is_dir():
        sys.exit(f"{data.ROOT}: no data sets found; set RELAXCRF_SHARED to the folder that holds data/segmentation")

    if peer is None:
        print("pydensecrf2 is not installed: its rows are left out", file=sys.stderr)
    known = relaxcrf.presets()
    presets = args.preset or [p for p in PRESETS if p in known]
    tables = [f"{machine()}. CPU seconds: median over images, one thread. Images: {args.split}."]
    start = time.monotonic()
    with ProcessPoolExecutor(args.jobs) as pool:
        for name in args.set or data.SETS:
            ids = data.names_of(name, args.split)[: args.images]
            results = []
            for done in pool.map(measure_image, [(name, i, presets) for i in ids]):
                results.append(done)
                if len(results) % 10 == 0 or len(results) == len(ids):
                    elapsed = time.monotonic() - start
                    print(f"{name}: {len(results)} of {len(ids)} images, {elapsed:.0f} s", file=sys.stderr)
            tables.append(table(name, results, args.draws))
            if args.out:  # after every set, so that a run that is stopped leaves the finished tables
                args.out.parent.mkdir(parents=True, exist_ok=True)
                args.out.write_text("\n\n".join(tables) + "\n")
    if not args.out:
        print("\n\n".join(tables))


if __name__ == "__main__":
    main()
