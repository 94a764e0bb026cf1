"""Grids that the parameters of the filters and of the preset `contours` were chosen with.

`run search filters` scores the filters on the validation halves of the data sets, `run search contours` scores
kernels near edges on the images with exact contours and on the validation halves. Prints CSV.
"""

from __future__ import annotations

import argparse
import itertools
import os
from concurrent.futures import ProcessPoolExecutor

import data
import filters
import measure
import numpy as np

import relaxcrf

FILTER_GRIDS = {
    "guided filter": {"radius": [4, 8, 16], "eps": [1e-4, 1e-3, 1e-2]},
    "domain transform": {"sigma_xy": [10.0, 20.0, 40.0, 80.0], "sigma_rgb": [15.0, 30.0, 60.0, 120.0]},
    "fast global smoother": {"strength": [30.0, 100.0, 300.0, 1000.0], "sigma_rgb": [3.0, 6.0, 12.0]},
    "bilateral solver": {"sigma_xy": [8.0, 16.0], "sigma_luma": [8.0, 16.0], "strength": [0.5, 2.0, 8.0, 32.0]},
    "PAMR, 10 iterations": {"strength": [0.3, 1.0, 3.0, 10.0]},
}
KERNEL_GRID = {
    "gaussian": [(1, 1.5), (3, 1.5), (3, 3)],
    "sigma_xy": [20, 40, 60, 80],
    "sigma_rgb": [3, 5, 8, 13],
    "weight": [2, 5, 10],
    "updates": [10],
}


def points(grid: dict) -> list[dict]:
    """All combinations of the values of a grid."""
    return [dict(zip(grid, values)) for values in itertools.product(*grid.values())]


def refined(image, probabilities, gaussian, sigma_xy, sigma_rgb, weight, updates):
    """Labels of relaxcrf with these kernels."""
    base = relaxcrf.presets()["voc"]
    kernels = {"gaussian": gaussian, "bilateral": (sigma_xy, sigma_rgb, weight)}
    length = {"method": f"mf{updates}"} if "method" in base._fields else {"iterations": updates}
    return relaxcrf.refine(image, probabilities, base._replace(**kernels, **length))


def candidates(what: str) -> dict:
    """Functions from image and probabilities to labels, by (method, parameters)."""
    if what == "contours":
        names = ["network", "pydensecrf"]
        found = {(name, ""): lambda i, p, name=name: relaxcrf.refine(i, p, name) for name in names}
        for point in points(KERNEL_GRID):
            found["kernels", str(point)] = lambda i, p, point=point: refined(i, p, **point)
        return found
    found = {("network", ""): lambda i, p: p.argmax(0)}
    for name, grid in FILTER_GRIDS.items():
        for point in points(grid):
            call = lambda i, p, f=filters.FILTERS[name], point=point: f(i, p, **point)
            found[name, str(point)] = lambda i, p, call=call: filters.filtered_labels(call, i, p)
    return found


def score_image(task: tuple) -> dict:
    """Counts, and counts near edges, of every candidate on one image."""
    what, name, image_id = task
    measure.one_thread()
    sample = data.load(name, image_id)
    band = data.edge_band(sample.truth)
    scores = {}
    for key, function in candidates(what).items():
        labels = function(sample.image, sample.probabilities)
        scores[key] = (data.count(labels, sample), data.count(labels, sample, band))
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["filters", "contours"])
    parser.add_argument("--set", action="append", choices=list(data.SETS), help="data set; repeatable [all]")
    parser.add_argument("--images", type=int, help="images per set at most [all]")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes [one per core]")
    args = parser.parse_args()
    print("set;method;parameters;mIoU;mIoU near edges")
    with ProcessPoolExecutor(args.jobs) as pool:
        for name in args.set or data.SETS:
            # The images with exact contours are few: all of them are needed for `contours`, and `filters` skips them.
            if name == "msrc-exact" and args.what == "filters":
                continue
            ids = data.names_of(name, "all" if name == "msrc-exact" else "val")[: args.images]
            parts = list(pool.map(score_image, [(args.what, name, i) for i in ids]))
            once = np.ones((1, len(ids)))
            for key in parts[0]:
                scores = [data.mean_iou(data.stack([p[key][k] for p in parts]), once)[0] for k in (0, 1)]
                print(name, *key, *(f"{s:.2f}" for s in scores), sep=";", flush=True)


if __name__ == "__main__":
    main()
