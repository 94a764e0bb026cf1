"""Times relaxcrf's pydensecrf shim against `pydensecrf2` itself (and SimpleCRF), interleaved in one run.

Every round runs each contender once on the same picture, one after the other, so that a busy machine slows all of
them alike; the figures are medians over rounds, and the spread is that of the middle half of the ratios.

One thread is timed in CPU seconds of the process (the peers have no other mode), more threads in wall seconds.
"""

from __future__ import annotations

import argparse
import glob
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).resolve().parent
SHARED = Path(os.environ.get("RELAXCRF_SHARED", HERE.parents[2] / "shared"))

# name, width, height, labels, spatial deviation, (bilateral deviations)
CASES = {
    "21 labels, 80/13": (500, 375, 21, 3, (80, 13)),
    "21 labels, 50/5": (500, 375, 21, 3, (50, 5)),
    "21 labels, 67/3": (500, 375, 21, 3, (67, 3)),
    "2 labels, 80/13": (500, 375, 2, 3, (80, 13)),
    "81 labels, 80/13": (500, 375, 81, 3, (80, 13)),
}
ITERATIONS = 10


def smooth_noise(rng, h, w, grid):
    coarse = rng.standard_normal((grid, grid)).astype(np.float32)
    return np.asarray(Image.fromarray(coarse).resize((w, h), Image.BICUBIC))


def generated(w, h, labels, seed):
    """A picture of patches with texture and noise, and unsure beliefs about it: for machines without photographs."""
    rng = np.random.default_rng(seed)
    fields = np.stack([smooth_noise(rng, h, w, 6) for _ in range(6)])
    patch = fields.argmax(0)
    colors = rng.uniform(30, 220, (6, 3))
    shade = 25 * smooth_noise(rng, h, w, 12) + 8 * rng.standard_normal((h, w))
    image = np.clip(colors[patch] + shade[..., None], 0, 255).astype(np.uint8)
    scores = np.stack([smooth_noise(rng, h, w, 10) for _ in range(labels)]) - 3
    for k in range(min(labels, 6)):
        scores[k] += 4.0 * (patch == k)
    return image, scores


def photographs(w, h, labels, count):
    """Photographs with a network's scores, brought to the size and the number of labels asked for."""
    folder = SHARED / "data" / "segmentation" / "voc"
    found = sorted(glob.glob(str(folder / "images" / "*.jpg")))
    found = [f for f in found if Image.open(f).size == (500, 375)] or found
    if not found:
        print(f"no photographs under {folder}: generated pictures instead", file=sys.stderr)
        return [generated(w, h, labels, seed) for seed in range(count)]
    out = []
    for name in found[:: max(1, len(found) // count)][:count]:
        image = np.asarray(Image.open(name).convert("RGB").resize((w, h), Image.BICUBIC))
        prob = np.load(folder / "probs" / (Path(name).stem + ".npz"))["prob"].astype(np.float32)
        planes = [np.asarray(Image.fromarray(p).resize((w, h), Image.BILINEAR)) for p in prob]
        scores = np.log(np.clip(np.stack(planes), 1e-5, 1))
        if labels == 2:
            scores = np.stack([scores[0], np.log(np.clip(1 - np.exp(scores[0]), 1e-5, 1))])
        elif labels > len(scores):
            rng = np.random.default_rng(1)
            extra = [2.0 * smooth_noise(rng, h, w, 10) - 7 for _ in range(labels - len(scores))]
            scores = np.concatenate([scores, np.stack(extra)])
        else:
            scores = scores[:labels]
        out.append((image, scores))
    return out


def energies(scores):
    scores = scores - scores.max(0)
    u = np.log(np.exp(scores).sum(0)) - scores
    return np.ascontiguousarray(u.reshape(len(u), -1), np.float32)


def run_dense(module, case, image, unary):
    w, h, labels, spatial, (sxy, srgb) = case
    clock = run_dense.clock
    t0 = clock()
    crf = module.DenseCRF2D(w, h, labels)
    crf.setUnaryEnergy(unary)
    crf.addPairwiseGaussian(sxy=spatial, compat=3)
    crf.addPairwiseBilateral(sxy=sxy, srgb=srgb, rgbim=image, compat=10)
    t1 = clock()
    q = crf.inference(ITERATIONS)
    t2 = clock()
    return t1 - t0, t2 - t1, np.asarray(q)


run_dense.clock = time.process_time


def quartiles(x):
    return np.percentile(x, [25, 50, 75])


def machine():
    cpu = platform.processor()
    try:
        names = [line for line in open("/proc/cpuinfo") if line.startswith("model name")]
        cpu = names[0].split(":")[1].strip()
    except (OSError, IndexError):
        pass
    return f"{cpu}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}"


def mean_field(names, rounds, thread_counts, images):
    import pydensecrf.densecrf as peer

    import relaxcrf
    import relaxcrf.compat.pydensecrf.densecrf as ours

    print("| case | threads | pydensecrf2 s (set-up) | relaxcrf s (set-up) | ratio (middle half) | of least times | inference only | MAP agreement | mean L1 |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name in names:
        case = CASES[name]
        pictures = photographs(*case[:3], images)
        for threads in thread_counts:
            relaxcrf.set_num_threads(threads)
            run_dense.clock = time.process_time if threads == 1 else time.perf_counter
            rows, agree, off = [], [], []
            for r in range(rounds * len(pictures)):
                image, scores = pictures[r % len(pictures)]
                unary = energies(scores)
                image = np.array(image)
                a = run_dense(peer, case, image, unary)
                b = run_dense(ours, case, image, unary)
                rows.append(a[:2] + b[:2])
                agree.append((a[2].argmax(0) == b[2].argmax(0)).mean())
                off.append(np.abs(a[2] - b[2]).sum(0).mean())
            t = np.array(rows)
            total = t[:, :2].sum(1) / t[:, 2:].sum(1)
            lo, mid, hi = quartiles(total)
            # The least time of each picture is what the machine's other work disturbs least.
            least = t.reshape(rounds, len(pictures), 2, 2).sum(3).min(0).sum(0)
            peer_s, our_s = np.median(t[:, :2].sum(1)), np.median(t[:, 2:].sum(1))
            print(
                f"| {name} | {threads} | {peer_s:.3f} ({np.median(t[:, 0]):.3f}) | {our_s:.3f} ({np.median(t[:, 2]):.3f}) "
                f"| {mid:.1f} ({lo:.1f}-{hi:.1f}) | {least[0] / least[1]:.1f} | {np.median(t[:, 1] / t[:, 3]):.1f} | {100 * min(agree):.3f} % | {max(off):.0e} |",
                flush=True,
            )


def simple_crf(rounds, images):
    """SimpleCRF's 2-D function, two labels, against the shim for it."""
    try:
        import denseCRF as peer
    except ImportError as missing:
        return print(f"\nSimpleCRF: not installed ({missing})")
    import relaxcrf
    import relaxcrf.compat.simplecrf.denseCRF as ours

    relaxcrf.set_num_threads(1)
    print("\n| SimpleCRF densecrf, 500 x 375, 10 iterations, one thread | its s | ours s | ratio | agreement |\n|---|---|---|---|---|")
    for labels in (2, 21):
        times, agree = [], []
        for image, scores in photographs(500, 375, labels, images) * rounds:
            prob = np.exp(-energies(scores)).T.reshape(375, 500, labels)
            prob = np.ascontiguousarray(prob, np.float32)
            image = np.array(image)
            param = (10.0, 80, 13, 3.0, 3, 10)
            row, outs = [], []
            for module in (peer, ours):
                t0 = time.process_time()
                outs.append(np.asarray(module.densecrf(image, prob, param)))
                row.append(time.process_time() - t0)
            times.append(row)
            agree.append((outs[0] == outs[1]).mean())
        t = np.array(times)
        print(f"| {labels} labels | {np.median(t[:, 0]):.3f} | {np.median(t[:, 1]):.3f} | {np.median(t[:, 0] / t[:, 1]):.1f} | {100 * min(agree):.3f} % |")


def lattice(rounds, images):
    """Building one lattice, and applying it once more with 21 labels, from differences of whole calls."""
    import pydensecrf.densecrf as peer

    import relaxcrf
    import relaxcrf.compat.pydensecrf.densecrf as ours

    relaxcrf.set_num_threads(1)
    clock = time.process_time
    print("\n| lattice, 500 x 375, one thread | pydensecrf2 set-up ms | ours | ratio | its iteration ms (21 labels) | ours | ratio |")
    print("|---|---|---|---|---|---|---|")
    for sxy, srgb in ((80, 13), (50, 5), (67, 3)):
        rows = []
        for image, scores in photographs(500, 375, 21, images) * rounds:
            unary = energies(scores)
            row = []
            for module in (peer, ours):
                crf = module.DenseCRF2D(500, 375, 21)
                crf.setUnaryEnergy(unary)
                t0 = clock()
                crf.addPairwiseBilateral(sxy=sxy, srgb=srgb, rgbim=np.array(image), compat=10)
                t1 = clock()
                crf.inference(1)
                t2 = clock()
                crf.inference(6)
                t3 = clock()
                row += [t1 - t0, (t3 - 2 * t2 + t1) / 5]
            rows.append(row)
        t = 1e3 * np.array(rows)
        m = np.median(t, 0)
        print(
            f"| bilateral {sxy}/{srgb} | {m[0]:.1f} | {m[2]:.1f} | {np.median(t[:, 0] / t[:, 2]):.1f} "
            f"| {m[1]:.1f} | {m[3]:.1f} | {np.median(t[:, 1] / t[:, 3]):.1f} |",
            flush=True,
        )


def workloads():
    """Points that share next to no vertices: uniform in a box, and a noisy photograph, with features in deviations."""
    rng = np.random.default_rng(3)
    box = np.array([16, 16, 12, 12, 12, 12], np.float32)
    yield "196 608 random points, 6-D, box 16/16/12/12/12/12", rng.random((196_608, 6), np.float32) * box
    image, _ = generated(512, 512, 2, 3)
    colors = np.clip(image / 255 + 0.1 * rng.standard_normal(image.shape), 0, 1) / 0.1
    y, x = np.mgrid[:512, :512] / 4
    yield "noisy 512 x 512, sigmas 4 and 0.1", np.concatenate([x[..., None], y[..., None], colors], 2).reshape(-1, 5)


def random_points(rounds, thread_counts):
    """Set-up (lattice and normalisation) and one product of 4 channels, where hashing is nearly all there is to do."""
    import pydensecrf.densecrf as peer

    import relaxcrf
    import relaxcrf.compat.pydensecrf.densecrf as ours

    print("\n| points that share next to nothing | threads | pydensecrf2 set-up ms | ours | ratio (middle half) | with one update ms | ours | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for name, features in workloads():
        features = np.ascontiguousarray(features.T, np.float32)
        unary = np.random.default_rng(4).random((4, features.shape[1]), np.float32)
        for threads in thread_counts:
            relaxcrf.set_num_threads(threads)
            clock = time.process_time if threads == 1 else time.perf_counter
            rows = []
            for _ in range(rounds):
                row = []
                for module in (peer, ours):
                    crf = module.DenseCRF(features.shape[1], 4)
                    crf.setUnaryEnergy(unary)
                    t0 = clock()
                    crf.addPairwiseEnergy(features, compat=3)
                    t1 = clock()
                    crf.inference(1)
                    row += [t1 - t0, clock() - t0]
                rows.append(row)
            t = 1e3 * np.array(rows)
            m = np.median(t, 0)
            lo, mid, hi = quartiles(t[:, 0] / t[:, 2])
            print(
                f"| {name} | {threads} | {m[0]:.0f} | {m[2]:.0f} | {mid:.1f} ({lo:.1f}-{hi:.1f}) "
                f"| {m[1]:.0f} | {m[3]:.0f} | {np.median(t[:, 1] / t[:, 3]):.1f} |",
                flush=True,
            )


PEAK = """
import sys, resource
import numpy as np
sys.path.insert(0, sys.argv[2])
import compare
if sys.argv[1] == "peer":
    import pydensecrf.densecrf as module
else:
    import relaxcrf.compat.pydensecrf.densecrf as module
case = (640, 480, 81, 3, (80, 13))
image, scores = compare.photographs(640, 480, 81, 1)[0]
unary = compare.energies(scores)
del scores
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
resource.setrlimit  # the peak before counts what the inputs needed
open("/proc/self/clear_refs", "w").write("5")
rss = lambda key: int([l for l in open("/proc/self/status") if l.startswith(key)][0].split()[1]) / 1024
before = rss("VmRSS")
compare.run_dense(module, case, np.array(image), unary)
print(before, rss("VmHWM"))
"""


SCALE = """
import sys, time
import numpy as np
sys.path.insert(0, sys.argv[1])
import compare, relaxcrf
import relaxcrf.compat.pydensecrf.densecrf as ours
w, h, labels = map(int, sys.argv[2:5])
relaxcrf.set_num_threads(1)
image, scores = compare.generated(w, h, labels, 1)
unary = compare.energies(scores)
del scores
rss = lambda key: int([l for l in open("/proc/self/status") if l.startswith(key)][0].split()[1]) / 1024
open("/proc/self/clear_refs", "w").write("5")
before = rss("VmRSS")
compare.run_dense.clock = time.process_time
setup, infer, _ = compare.run_dense(ours, (w, h, labels, 3, (80, 13)), image, unary)
print(setup, infer, before, rss("VmHWM"))
"""


def scale():
    """Seconds and memory from 0.05 to 16 megapixels, generated pictures, each size in a process of its own."""
    print("\n| size | labels | set-up s | 10 iterations s | µs a pixel | peak MB (with inputs) |\n|---|---|---|---|---|---|")
    sizes = [(250, 200), (500, 400), (1000, 1000), (2000, 2000), (4000, 4000)]
    for labels, largest in ((2, 16e6), (21, 4e6)):
        for w, h in sizes:
            if w * h > largest:
                continue
            command = [sys.executable, "-c", SCALE, str(HERE), str(w), str(h), str(labels)]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                print(f"| {w} x {h} | {labels} | failed: {done.stderr.strip().splitlines()[-1:]} | | | |")
                continue
            setup, infer, _, peak = map(float, done.stdout.split())
            each = 1e6 * (setup + infer) / (w * h)
            print(f"| {w} x {h} | {labels} | {setup:.2f} | {infer:.2f} | {each:.2f} | {peak:.0f} |", flush=True)


def interactive(rounds):
    """New energies on a model that is there already: two labels, one megapixel, five iterations."""
    import relaxcrf
    import relaxcrf.compat.pydensecrf.densecrf as ours

    print("\n| two labels, 1000 x 1000, 5 iterations, warm model | threads | least ms | median ms |\n|---|---|---|---|")
    image, scores = photographs(1000, 1000, 2, 1)[0]
    unary = energies(scores)
    for threads in (1, 2):
        relaxcrf.set_num_threads(threads)
        crf = ours.DenseCRF2D(1000, 1000, 2)
        crf.addPairwiseGaussian(sxy=3, compat=3)
        crf.addPairwiseBilateral(sxy=80, srgb=13, rgbim=np.array(image), compat=10)
        clock = time.process_time if threads == 1 else time.perf_counter
        times = []
        for k in range(3 * rounds):
            t0 = clock()
            crf.setUnaryEnergy(unary + np.float32(k))
            crf.inference(5)
            times.append(1e3 * (clock() - t0))
        what = "CPU" if threads == 1 else "wall"
        print(f"| new energies and inference ({what}) | {threads} | {min(times[1:]):.0f} | {np.median(times[1:]):.0f} |", flush=True)


def memory():
    """Peak resident memory at 640 x 480 x 81, each in a process of its own."""
    print("\n| peak memory, 640 x 480 x 81 | with inputs MB | without MB |\n|---|---|---|")
    without = {}
    for who in ("peer", "ours"):
        done = subprocess.run([sys.executable, "-c", PEAK, who, str(HERE)], capture_output=True, text=True)
        if done.returncode:
            return print(f"| {who} | failed: {done.stderr.strip().splitlines()[-1]} | |")
        before, peak = map(float, done.stdout.split())
        without[who] = peak - before
        print(f"| {'pydensecrf2' if who == 'peer' else 'relaxcrf'} | {peak:.0f} | {peak - before:.0f} |")
    print(f"| ratio | | {without['peer'] / without['ours']:.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["mf", "lattice", "random", "simplecrf", "memory", "scale", "interactive"], help="one table")
    parser.add_argument("--case", action="append", choices=list(CASES), help="one case of the first table; repeatable")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--images", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    print(f"{machine()}\n")
    if args.only in (None, "mf"):
        mean_field(args.case or list(CASES), args.rounds, args.threads, args.images)
    if args.only in (None, "lattice"):
        lattice(args.rounds, args.images)
    if args.only in (None, "random"):
        random_points(args.rounds, args.threads)
    if args.only in (None, "simplecrf"):
        simple_crf(args.rounds, args.images)
    if args.only in (None, "memory"):
        memory()
    if args.only in (None, "interactive"):
        interactive(args.rounds)
    if args.only == "scale":
        scale()


if __name__ == "__main__":
    main()
