"""Tiles against the whole image: how many labels differ near the tiles' borders and elsewhere, by width of the halo.

    python bench/huge/seams.py --size 4000 --tile 1000 --bilateral 80 13 5 --method mf5

Needs numpy and relaxcrf. The image is that of make.py.
"""

import argparse
import time

import numpy as np

import relaxcrf


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=4000)
    parser.add_argument("--tile", type=int, default=1000)
    parser.add_argument("--gaussian", type=float, nargs=2, default=(3, 1.5))
    parser.add_argument("--bilateral", type=float, nargs=3, default=(80, 13, 5))
    parser.add_argument("--method")
    parser.add_argument("--halos", type=float, nargs="+", default=(0, 1, 2, 3, 4, 5), help="in standard deviations")
    parser.add_argument("--border", type=int, default=10, help="what counts as near")
    args = parser.parse_args()

    from make import block

    image, p = block(0, 0, args.size, args.size)
    p = p.astype(np.float32)
    preset = relaxcrf.presets()["pydensecrf"]._replace(gaussian=tuple(args.gaussian), bilateral=tuple(args.bilateral))
    options = {"preset": preset, "method": args.method}
    started = time.perf_counter()
    whole = relaxcrf.refine_tiled(image, p, tile=args.size, **options)
    print(f"whole: {time.perf_counter() - started:.1f} s, changed {(whole != p.argmax(axis=0)).mean():.3%} of the labels")

    place = np.arange(args.size)
    inner = (place // args.tile > 0, place // args.tile < (args.size - 1) // args.tile)
    to_border = np.minimum(
        np.where(inner[0], place % args.tile, args.size), np.where(inner[1], args.tile - 1 - place % args.tile, args.size)
    )
    close = to_border < args.border
    near = close[:, None] | close[None, :]
    for sigmas in args.halos:
        halo = int(np.ceil(sigmas * max(args.gaussian[0], args.bilateral[0])))
        started = time.perf_counter()
        off = relaxcrf.refine_tiled(image, p, tile=args.tile, halo=halo, **options) != whole
        seconds = time.perf_counter() - started
        print(
            f"halo {sigmas:g} sigma = {halo}: near borders {off[near].sum()} of {near.sum()} ({off[near].mean():.1e}), "
            f"elsewhere {off[~near].sum()} of {(~near).sum()} ({off[~near].mean():.1e}), {seconds:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
