"""Compares `auto` under a time limit with fixed methods that are given the same time.

    bench/auto/run DATA [--sets stereo,msrc,voc,camvid,scribbles] [--every N] [--methods A,B]

DATA is a directory with `stereo/` (Middlebury pairs) and `segmentation/NAME/` (images, probs, truth, val.txt). For
each problem every fixed method M runs once; then `auto` runs with the limit max(time of M, twice the time of `mf`), and its
energy must not be above M's; where it is, both are run again, three times at most. One thread, one model for all runs of a
problem.
"""

import argparse
import collections
import csv
import pathlib
import sys

import numpy as np
from PIL import Image

import relaxcrf

# Energies closer than this are the same.
SAME = 1e-7
# Most times that a comparison is made if `auto` comes out worse.
TIMES = 3


def picture(path):
    return np.asarray(Image.open(path).convert("RGB"))


def model(unary, image, preset=None, kernels=None):
    if kernels is None:
        kernels = (preset.gaussian, preset.bilateral)
    (sigma, smooth), (sxy, srgb, weight) = kernels
    return relaxcrf.Model(
        unary, [relaxcrf.Gaussian(sigma, smooth), relaxcrf.Bilateral(image, sxy, srgb, weight)]
    )


def stereo(root):
    """The strongly coupled model that stands for the paper's."""
    pairs = {"venus": ("im2", "im6", 20), "teddy": ("im2", "im6", 60), "Cloth3": ("view1", "view5", 100)}
    for name, (left, right, disparities) in pairs.items():
        files = [next((root / "stereo" / name).glob(f"{view}.*"), None) for view in (left, right)]
        if None not in files:
            left, right = map(picture, files)
            unary = relaxcrf.stereo_unary(left, right, disparities=disparities)
            yield name, model(unary, left, kernels=((3, 40), (50, 10, 50)))


def segmentation(root, name, every):
    """Scores of a network with the preset that `refine` uses."""
    base = root / "segmentation" / name
    identifiers = sorted(path.stem for path in (base / "probs").glob("*.npz"))
    for identifier in identifiers[::every]:
        image = picture(next((base / "images").glob(f"{identifier}.*")))
        with np.load(base / "probs" / f"{identifier}.npz") as arrays:
            scores = arrays["prob"].astype(np.float32)
        unary = -np.log(np.maximum(scores, 1e-5))
        yield identifier, model(unary, image, relaxcrf.presets()["network"])


def scribbles(root):
    """Hand-drawn annotations with the preset that most code started from."""
    for path in sorted((root / "scribbles").glob("im*.png")):
        image, drawn = picture(path), picture(path.with_name(path.name.replace("im", "anno"))).astype(int)
        codes = drawn @ (1, 256, 65536)
        colours = np.unique(codes[codes > 0])
        unary = np.full((len(colours), *codes.shape), np.log(len(colours)), np.float32)
        for label, colour in enumerate(colours):
            # A mark is right with probability 0.7.
            unary[:, codes == colour] = -np.log(0.3 / (len(colours) - 1))
            unary[label, codes == colour] = -np.log(0.7)
        yield path.stem, model(unary, image, relaxcrf.presets()["pydensecrf"])


def problems(root, sets, every):
    for name in sets:
        if name == "stereo":
            found = stereo(root)
        elif name == "scribbles":
            found = scribbles(root)
        else:
            found = segmentation(root, name, every)
        for identifier, problem in found:
            yield name, identifier, problem


def compare(problem, methods):
    """One record per fixed method: its seconds and energy, the limit that `auto` got, what it reached, and how often
    the two were run again."""
    fixed = {method: relaxcrf.solve(problem, method, threads=1) for method in methods}
    least = 2 * fixed["mf"].seconds
    reached = {}
    for method, result in fixed.items():
        for again in range(TIMES):
            if again > 0:
                # A clock that was slow for a moment decides the last millionths: both sides once more.
                result = relaxcrf.solve(problem, method, threads=1)
            limit = max(result.seconds, least)
            if limit not in reached:
                reached[limit] = relaxcrf.solve(problem, "auto", time_limit=limit, threads=1)
            auto = reached[limit]
            if auto.energy <= result.energy * (1 + SAME):
                break
        yield method, result.seconds, result.energy, limit, auto.seconds, auto.energy, auto.lower_bound, again


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=pathlib.Path)
    parser.add_argument("--sets", default="stereo,msrc,voc,camvid,scribbles")
    parser.add_argument("--methods", default="mf5,mf,qp,dc-neg,qp+dc-neg,qp+dc-gen,graduated")
    parser.add_argument("--every", type=int, default=1, help="take every n-th image of the segmentation sets")
    parser.add_argument("--csv", type=pathlib.Path, help="write every comparison here")
    options = parser.parse_args()
    methods = options.methods.split(",")
    if "mf" not in methods:
        methods.insert(0, "mf")

    rows, table = [], collections.defaultdict(list)
    for name, identifier, problem in problems(options.data, options.sets.split(","), options.every):
        for record in compare(problem, methods):
            rows.append((name, identifier, *record))
            method, seconds, energy, limit, spent, reached, bound, again = record
            table[name, method].append((energy, reached, seconds, limit, again))
            note = "  WORSE" if reached > energy * (1 + SAME) else f"  after {again} more" if again else ""
            print(
                f"{name} {identifier:>14} {method:>10} {seconds:7.2f} s {energy:14.1f}  "
                f"auto {limit:7.2f} s {reached:14.1f} {100 * (reached / energy - 1):+8.3f} %{note}",
                flush=True,
            )
    if options.csv:
        with options.csv.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow("set problem method seconds energy limit auto_seconds auto_energy auto_bound again".split())
            writer.writerows(rows)

    print("\n| data | method | problems | its seconds (median) | limit of auto | auto lower | equal | higher | run again | energy, mean |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for (name, method), cases in table.items():
        energy, reached, seconds, limit, again = map(np.array, zip(*cases))
        change = reached / energy - 1
        higher, lower = (change > SAME).sum(), (change < -SAME).sum()
        print(
            f"| {name} | `{method}` | {len(cases)} | {np.median(seconds):.2f} | {np.median(limit):.2f} "
            f"| {lower} | {len(cases) - lower - higher} | {higher} | {(again > 0).sum()} | {100 * change.mean():+.3f} % |"
        )
    return any(reached > energy * (1 + SAME) for cases in table.values() for energy, reached, *_ in cases)


if __name__ == "__main__":
    sys.exit(main())
