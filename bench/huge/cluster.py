"""Refines the zarr arrays of make.py on a local Dask cluster and compares with a label map of the command line.

    python bench/huge/cluster.py DIR --workers 2 --chunk 1024 --compare DIR/labels.tif

Prints the largest resident memory of every process. Needs dask, distributed, zarr, tifffile and psutil.
"""

import argparse
import pathlib
import threading
import time

import dask.array as da
import distributed
import numpy as np
import psutil
import zarr

import relaxcrf
import relaxcrf.dask


def watch(done, seen):
    """The sum of what all processes of this one hold, and the largest of it."""
    me = psutil.Process()
    while not done.is_set():
        total = 0
        for process in [me, *me.children(recursive=True)]:
            try:
                total += process.memory_info().rss
            except psutil.Error:
                continue
        seen.append(total)
        done.wait(0.2)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--chunk", type=int, default=1024)
    parser.add_argument("--memory", default="900MiB", help="limit of a worker: beyond 60 %% of it chunks go to disk")
    parser.add_argument("--gaussian", type=float, nargs=2, default=(3, 1.5))
    parser.add_argument("--bilateral", type=float, nargs=3, default=(30, 13, 5))
    parser.add_argument("--method", default="mf5")
    parser.add_argument("--compare", type=pathlib.Path)
    args = parser.parse_args()
    preset = relaxcrf.presets()["pydensecrf"]._replace(gaussian=tuple(args.gaussian), bilateral=tuple(args.bilateral))

    done, seen = threading.Event(), []
    threading.Thread(target=watch, args=(done, seen), daemon=True).start()
    limits = dict(n_workers=args.workers, threads_per_worker=1, memory_limit=args.memory, dashboard_address=None)
    with distributed.LocalCluster(**limits) as cluster:
        with distributed.Client(cluster):
            image = da.from_zarr(str(args.folder / "image.zarr")).rechunk((args.chunk, args.chunk, 3))
            p = da.from_zarr(str(args.folder / "probabilities.zarr")).rechunk((2, args.chunk, args.chunk))
            labels = relaxcrf.dask.refine(image, p, preset, method=args.method)
            started = time.perf_counter()
            labels.to_zarr(str(args.folder / "labels.zarr"), overwrite=True)
            seconds = time.perf_counter() - started
    done.set()
    print(f"{labels.shape} in {seconds:.0f} s; all processes together at most {max(seen) / 2**20:.0f} MiB", flush=True)
    if args.compare:
        import tifffile

        stored = zarr.open(str(args.folder / "labels.zarr"), mode="r")
        with tifffile.TiffFile(args.compare) as file:
            other = zarr.open(file.aszarr(), mode="r")
            off = sum(
                int((stored[y : y + 1024] != other[y : y + 1024]).sum()) for y in range(0, labels.shape[0], 1024)
            )
        print(f"labels that differ from {args.compare}: {off} of {np.prod(labels.shape)}")


if __name__ == "__main__":
    main()
