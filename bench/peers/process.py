#!/usr/bin/env python3
"""Whole processes on one photograph, file to file, one thread: `relaxcrf segment`, a script that calls `relaxcrf.refine`, and a
script with `pydensecrf2`.

Each round starts every contender once, one after the other. Printed are the least CPU seconds of each (user and system, with
everything that is loaded and read), the least ratio of CPU seconds in one round, and the peak memory of the process.

    bench/peers/process.py --rounds 5 --program target/release/relaxcrf --peer-python bench/peers/.venv/bin/python
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).resolve().parent
SHARED = Path(os.environ.get("RELAXCRF_SHARED", HERE.parents[2] / "shared"))

REFINE = """
import sys
import numpy as np
from PIL import Image
import relaxcrf
image, probabilities, out, updates = sys.argv[1:]
labels = relaxcrf.refine(
    np.asarray(Image.open(image).convert("RGB")), np.load(probabilities), "network", iterations=int(updates), threads=1
)
Image.fromarray(labels).save(out)
"""

# The kernels of the preset `network`: every pair counts once here, so weights are twice as large.
PEER = """
import sys
import numpy as np
from PIL import Image
import pydensecrf.densecrf as dcrf
from pydensecrf.utils import unary_from_softmax
image, probabilities, out, updates = sys.argv[1:]
image = np.array(Image.open(image).convert("RGB"))
probabilities = np.load(probabilities)
height, width = image.shape[:2]
crf = dcrf.DenseCRF2D(width, height, len(probabilities))
crf.setUnaryEnergy(np.ascontiguousarray(unary_from_softmax(probabilities)))
crf.addPairwiseGaussian(sxy=1, compat=1.5)
crf.addPairwiseBilateral(sxy=67, srgb=3, rgbim=image, compat=2)
labels = np.argmax(crf.inference(int(updates)), axis=0).reshape(height, width).astype(np.uint8)
Image.fromarray(labels).save(out)
"""


def photograph(folder: Path) -> tuple:
    """Paths of a VOC photograph and its probabilities as one .npy file, as networks leave them."""
    root = SHARED / "data" / "segmentation" / "voc"
    found = sorted((root / "probs").glob("*.npz"))
    if not found:
        sys.exit(f"no probabilities in {root}: set RELAXCRF_SHARED")
    with np.load(found[0]) as arrays:
        probabilities = next(iter(arrays.values())).astype(np.float32)
    if probabilities.max() > 1:
        probabilities /= 255
    probabilities /= probabilities.sum(0)
    image = next((root / "images").glob(found[0].stem + ".*"))
    with Image.open(image) as picture:
        picture.convert("RGB").save(folder / "photo.png")
        width, height = picture.size
    if probabilities.shape[1:] != (height, width):
        sys.exit(f"{found[0]}: {probabilities.shape[1:]} pixels, but the photograph has {(height, width)}")
    np.save(folder / "probs.npy", probabilities)
    return folder / "photo.png", folder / "probs.npy"


def run(command: list) -> tuple:
    """CPU seconds and peak megabytes of a process; fails with it."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "RELAXCRF_NUM_THREADS": "1"}
    process = os.posix_spawnp(command[0], [str(part) for part in command], environment)
    _, status, usage = os.wait4(process, 0)
    if status != 0:
        sys.exit(f"failed with {os.waitstatus_to_exitcode(status)}: {' '.join(map(str, command[:2]))}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--updates", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--program", default="target/release/relaxcrf", help="the program relaxcrf, built for release")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with the package relaxcrf")
    parser.add_argument("--peer-python", default=None, help="an interpreter with pydensecrf2; left out unless given")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        image, probabilities = photograph(folder)
        print("| updates | contender | CPU s (least) | time of pydensecrf / time | peak MB | labels equal |")
        print("|---|---|---|---|---|---|")
        for updates in args.updates:
            out = {who: folder / f"{who}.png" for who in ("segment", "refine", "peer")}
            segment = [args.program, "segment", image, "--probs", probabilities, "--preset", "network", "--threads", "1"]
            commands = {
                "segment": [*segment, "--method", f"mf{updates}", "--quiet", "-o", out["segment"]],
                "refine": [args.python, "-c", REFINE, image, probabilities, out["refine"], updates],
            }
            if args.peer_python:
                commands["peer"] = [args.peer_python, "-c", PEER, image, probabilities, out["peer"], updates]
            rounds = [{who: run(command) for who, command in commands.items()} for _ in range(args.rounds)]
            reference = np.asarray(Image.open(out["segment"]))
            for who in commands:
                seconds = min(one[who][0] for one in rounds)
                peak = min(one[who][1] for one in rounds)
                ratio = "-"
                if "peer" in commands:
                    ratio = f"{np.median([one['peer'][0] / one[who][0] for one in rounds]):.2f}"
                equal = (np.asarray(Image.open(out[who])) == reference).mean()
                print(f"| {updates} | {who} | {seconds:.2f} | {ratio} | {peak:.0f} | {100 * equal:.3f} % |", flush=True)


if __name__ == "__main__":
    main()
