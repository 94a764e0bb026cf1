"""Fractions of wrong pixels and CPU times of `relaxcrf stereo` and the anchors, on every pair."""

import argparse
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import cv2
import numpy as np

from anchors import ANCHORS
from pairs import generated_pairs, shared_pairs

PARTS = ["all", "nonocc", "disc", "textureless"]


def bad(found, pair, part, limit=1.0):
    mask = pair.masks.get(part)
    if mask is None or not mask.any():
        return None
    return float((np.abs(found - pair.truth)[mask] > limit).mean())


def run_relaxcrf(program, pair, options, folder):
    output = Path(folder) / "found.pfm"
    command = [program, "stereo", str(pair.left), str(pair.right), "-d", str(pair.disparities), "-q"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*command, *options, "-o", str(output)], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cv2.imread(str(output), cv2.IMREAD_UNCHANGED), seconds


def run_anchor(anchor, pair):
    left, right = cv2.imread(str(pair.left)), cv2.imread(str(pair.right))
    start = time.process_time()
    found = anchor(left, right, pair.disparities)
    return found, time.process_time() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", default="target/release/relaxcrf")
    parser.add_argument("--data", default=os.environ.get("RELAXCRF_SHARED", "../shared") + "/data/stereo")
    parser.add_argument("--quality", nargs="+", default=["fast", "normal", "best"])
    parser.add_argument("--options", nargs=argparse.REMAINDER, default=[], help="more options of `relaxcrf stereo`, last")
    parser.add_argument("--generated", action="store_true", help="also measure generated pairs")
    parser.add_argument("--limit", type=float, default=1.0, help="a pixel is wrong if off by more than this")
    parser.add_argument("--save", help="directory for the disparity maps, as .npy")
    args = parser.parse_args()
    cv2.setNumThreads(1)
    with tempfile.TemporaryDirectory() as folder:
        pairs = list(shared_pairs(args.data))
        if not pairs:
            print(f"{args.data}: no pair found; set RELAXCRF_SHARED", file=sys.stderr)
        if args.generated:
            pairs += generated_pairs(Path(folder) / "generated")
        logs = {}
        print(f"| pair | method | {' | '.join(PARTS)} | bad 0.5, all | mean error | CPU s |")
        print("|---|---|" + "---:|" * (len(PARTS) + 3))
        for pair in pairs:
            results = {name: run_anchor(anchor, pair) for name, anchor in ANCHORS.items()}
            anchor = min(bad(found, pair, "all") for found, _ in results.values())
            for quality in args.quality:
                options = ["--quality", quality, "--threads", "1", *args.options]
                results[quality] = run_relaxcrf(args.program, pair, options, folder)
            for name, (found, seconds) in results.items():
                cells = [bad(found, pair, part, args.limit) for part in PARTS] + [bad(found, pair, "all", 0.5)]
                cells = ["" if c is None else f"{100 * c:.2f} %" for c in cells]
                error = np.abs(found - pair.truth)[pair.masks["all"]].mean()
                print(f"| {pair.name} | {name} | {' | '.join(cells)} | {error:.3f} | {seconds:.2f} |", flush=True)
                if name not in ANCHORS:
                    logs.setdefault(name, []).append(math.log(max(bad(found, pair, "all"), 1e-5) / max(anchor, 1e-5)))
                if args.save:
                    Path(args.save).mkdir(parents=True, exist_ok=True)
                    np.save(f"{args.save}/{pair.name}-{name}.npy", found)
        for name, values in logs.items():
            ratio = math.exp(sum(values) / len(values))
            print(f"\n{name}: {ratio:.2f} of the better anchor's wrong pixels (geometric mean of {len(values)} pairs)")


if __name__ == "__main__":
    main()
