"""The fast bilateral solver of Barron and Poole (ECCV 2016), written from its description.

A probability map is fitted, weighted with a confidence, under a smoothness term in a sparse grid over position and
colour. OpenCV has an implementation, but its Python wheels are built without it.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse


def grid_coordinates(image: np.ndarray, sigma_xy: float, sigma_luma: float, sigma_chroma: float) -> np.ndarray:
    """Cell of every pixel along x, y, luma and the two chroma channels."""
    rgb = image.reshape(-1, 3).astype(np.float64)
    luma = rgb @ (0.299, 0.587, 0.114)
    chroma = [0.564 * (rgb[:, 2] - luma) + 128, 0.713 * (rgb[:, 0] - luma) + 128]
    y, x = np.indices(image.shape[:2]).reshape(2, -1)
    scaled = [x / sigma_xy, y / sigma_xy, luma / sigma_luma, *(c / sigma_chroma for c in chroma)]
    return np.stack(scaled, 1).astype(np.int64)


def bilateral_grid(coordinates: np.ndarray) -> tuple[np.ndarray, sparse.csr_matrix]:
    """Cell number of every pixel, and the blur between neighbouring cells (2 at the centre, per dimension)."""
    sizes = coordinates.max(0) + 3  # one empty cell on both sides keeps neighbours apart
    strides = np.concatenate([[1], np.cumprod(sizes[:-1])])
    keys, cell = np.unique((coordinates + 1) @ strides, return_inverse=True)
    blur = sparse.diags(np.full(len(keys), 2.0 * len(sizes))).tocsr()
    for stride in strides:
        at = np.minimum(np.searchsorted(keys, keys + stride), len(keys) - 1)
        here = np.flatnonzero(keys[at] == keys + stride)
        step = sparse.csr_matrix((np.ones(len(here)), (here, at[here])), shape=blur.shape)
        blur = blur + step + step.T
    return cell.ravel(), blur.tocsr()


def bistochastic(blur: sparse.csr_matrix, mass: np.ndarray, rounds: int = 10) -> np.ndarray:
    """Scales n so that the rows of diag(n) blur diag(n) sum to the mass of their cells."""
    scale = np.ones_like(mass)
    for _ in range(rounds):
        scale = np.sqrt(scale * mass / (blur @ scale))
    return scale


def conjugate_gradient(matrix, diagonal, right, start, iterations: int, tolerance: float) -> np.ndarray:
    """Solves for several right-hand sides at once, with a diagonal preconditioner."""
    solution = start
    residual = right - matrix @ solution
    z = residual / diagonal
    direction, old = z.copy(), (residual * z).sum(0)
    goal = tolerance**2 * (right * right).sum(0)
    for _ in range(iterations):
        if np.all((residual * residual).sum(0) <= goal):
            break
        product = matrix @ direction
        step = old / np.maximum((direction * product).sum(0), 1e-30)
        solution = solution + step * direction
        residual = residual - step * product
        z = residual / diagonal
        new = (residual * z).sum(0)
        direction = z + new / np.maximum(old, 1e-30) * direction
        old = new
    return solution


def solve(image, maps, confidence, sigma_xy, sigma_luma, sigma_chroma, strength, iterations=25, tolerance=1e-5):
    """Smoothed maps (maps x height x width)."""
    cell, blur = bilateral_grid(grid_coordinates(image, sigma_xy, sigma_luma, sigma_chroma))
    cells = blur.shape[0]
    splat = lambda values: np.bincount(cell, values, minlength=cells)
    mass = splat(np.ones(cell.size))
    scale = bistochastic(blur, mass)
    # After the last round row sums differ slightly from the mass; with them the smoothness term is a Laplacian.
    smooth = sparse.diags(scale) @ blur @ sparse.diags(scale)
    laplacian = sparse.diags(np.asarray(smooth.sum(1)).ravel()) - smooth
    weight = confidence.ravel().astype(np.float64)
    data_weight = splat(weight)
    matrix = (strength * laplacian + sparse.diags(data_weight)).tocsr()
    right = np.stack([splat(weight * m.ravel()) for m in maps], 1)
    start = right / np.maximum(data_weight, 1e-12)[:, None]
    found = conjugate_gradient(matrix, matrix.diagonal()[:, None], right, start, iterations, tolerance)
    return found[cell].T.reshape(maps.shape)
