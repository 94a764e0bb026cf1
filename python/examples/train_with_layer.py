"""Trains a small network with and without a dense CRF layer, on generated images, and prints the accuracy of both.

Needs torch. `python train_with_layer.py` takes about a minute.
"""

import argparse

import numpy as np
import torch

import relaxcrf.torch

LABELS = 3
COLORS = np.array([[90, 120, 160], [150, 110, 90], [100, 150, 100]], np.float32)


def scene(rng, size):
    """Discs on a background: an image with noise, and its labels."""
    y, x = np.mgrid[:size, :size]
    labels = np.zeros((size, size), np.int64)
    for label in (1, 2, 1, 2):
        radius, cx, cy = rng.uniform(size / 8, size / 4), *rng.uniform(0, size, 2)
        labels[(x - cx) ** 2 + (y - cy) ** 2 < radius**2] = label
    tint = rng.normal(0, 12, (LABELS, 3))
    image = (COLORS + tint)[labels] + rng.normal(0, 60, (size, size, 3))
    return image.transpose(2, 0, 1).astype(np.float32), labels


def batch(rng, count, size):
    """Images and labels as tensors."""
    scenes = [scene(rng, size) for _ in range(count)]
    return torch.from_numpy(np.stack([i for i, _ in scenes])), torch.from_numpy(np.stack([t for _, t in scenes]))


class Network(torch.nn.Module):
    """Two convolutions, and the layer if asked for."""

    def __init__(self, crf):
        super().__init__()
        self.first = torch.nn.Conv2d(3, 12, 3, padding=1)
        self.last = torch.nn.Conv2d(12, LABELS, 3, padding=1)
        self.crf = crf

    def forward(self, images):
        logits = self.last(torch.relu(self.first((images - 120) / 40)))
        return self.crf(logits, images) if self.crf is not None else logits.softmax(1)


def train(crf, args):
    """The accuracy on images that were not trained on."""
    torch.manual_seed(args.seed)
    rng = np.random.default_rng(args.seed)
    network = Network(crf)
    optimizer = torch.optim.Adam(network.parameters(), lr=0.02)
    for _ in range(args.steps):
        images, labels = batch(rng, args.batch, args.size)
        loss = torch.nn.functional.nll_loss((network(images) + 1e-6).log(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    images, labels = batch(np.random.default_rng(args.seed + 1), 24, args.size)
    with torch.no_grad():
        return (network(images).argmax(1) == labels).float().mean().item()


def main(arguments=None):
    """Trains both, prints and returns their accuracies."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=60, help="training steps [60]")
    parser.add_argument("--batch", type=int, default=6, help="images per step [6]")
    parser.add_argument("--size", type=int, default=48, help="height and width of the images [48]")
    parser.add_argument("--seed", type=int, default=0, help="seed of everything random [0]")
    args = parser.parse_args(arguments)
    alone = train(None, args)
    crf = relaxcrf.torch.DenseCRF(gaussian=(3.0, 1.0), bilateral=(8.0, 90.0, 1.0))
    with_layer = train(crf, args)
    print(f"network alone {alone:.4f}, with the layer {with_layer:.4f}; {crf}")
    return alone, with_layer


if __name__ == "__main__":
    main()
