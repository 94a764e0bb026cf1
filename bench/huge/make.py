"""Generates a raster of two labels of any size, block by block: for measurements of `--tile` and of Dask.

Writes into DIR: image.tif (tiled BigTIFF with a place on the map), probabilities.npy (half precision), and the same as
image.zarr and probabilities.zarr. Needs numpy, tifffile and zarr.

    python bench/huge/make.py DIR 20000
"""

import pathlib
import sys

import numpy as np
import tifffile
import zarr

BLOCK = 1024


def truth(y, x):
    """Blobs and stripes of all sizes, the same wherever a block begins."""
    rng = np.random.default_rng(7)
    total = np.zeros((y.size, x.size), np.float32)
    for wavelength in (25, 60, 140, 400, 1500):
        for _ in range(3):
            angle, phase = rng.uniform(0, 2 * np.pi, 2)
            along_y = (2 * np.pi / wavelength * np.sin(angle) * y + phase).astype(np.float64)
            along_x = (2 * np.pi / wavelength * np.cos(angle) * x).astype(np.float64)
            total += np.sin(along_y[:, None] + along_x[None, :]).astype(np.float32) * wavelength**0.3
    return total > 0


def block(y0, x0, height, width):
    rng = np.random.default_rng([y0, x0])
    y, x = np.arange(y0, y0 + height), np.arange(x0, x0 + width)
    label = truth(y, x)
    slow = 20 * np.sin(y[:, None] / 900) + 20 * np.cos(x[None, :] / 700)
    colors = np.array([[70, 110, 60], [140, 120, 95]], np.float32)[label.astype(int)] + slow[..., None]
    image = np.clip(colors + rng.normal(0, 6, (height, width, 3)), 0, 255).astype(np.uint8)
    # A classifier that is unsure on its own, and wrong in patches.
    logit = 1.2 * (2 * label - 1) + rng.normal(0, 1.3, (height, width))
    logit += 1.5 * np.kron(rng.normal(0, 1, (-(-height // 16), -(-width // 16))), np.ones((16, 16)))[:height, :width]
    p = 1 / (1 + np.exp(-logit))
    return image, np.stack([1 - p, p]).astype(np.float16)


def main():
    folder, size = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    image_store = zarr.create_array(
        str(folder / "image.zarr"), shape=(size, size, 3), chunks=(BLOCK, BLOCK, 3), dtype="uint8", overwrite=True
    )
    store = zarr.create_array(
        str(folder / "probabilities.zarr"), shape=(2, size, size), chunks=(2, BLOCK, BLOCK), dtype="float16", overwrite=True
    )
    array = np.lib.format.open_memmap(folder / "probabilities.npy", "w+", np.float16, (2, size, size))

    def tiles():
        for y in range(0, size, BLOCK):
            for x in range(0, size, BLOCK):
                height, width = min(BLOCK, size - y), min(BLOCK, size - x)
                image, p = block(y, x, height, width)
                window = np.s_[y : y + height, x : x + width]
                image_store[window] = image
                store[(slice(None), *window)] = p
                array[(slice(None), *window)] = p
                full = np.zeros((BLOCK, BLOCK, 3), np.uint8)
                full[:height, :width] = image
                yield full
            array.flush()

    place = [(33550, 12, 3, (0.5, 0.5, 0.0), True), (33922, 12, 6, (0, 0, 0, 5e5, 4.2e6, 0), True)]
    keys = (1, 1, 0, 3, 1024, 0, 1, 1, 1025, 0, 1, 1, 3072, 0, 1, 32633)
    tifffile.imwrite(
        folder / "image.tif", tiles(), shape=(size, size, 3), dtype=np.uint8, photometric="rgb", tile=(BLOCK, BLOCK),
        bigtiff=True, metadata=None, extratags=[*place, (34735, 3, len(keys), keys, True)],
    )


if __name__ == "__main__":
    main()
