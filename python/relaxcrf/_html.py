"""What notebooks show."""

from __future__ import annotations

import base64
import html
import struct
import zlib
from typing import Iterable

import numpy as np


def table(title: str, rows: Iterable) -> str:
    """A small table with a heading."""
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(str(k))}</th><td>{html.escape(str(v))}</td></tr>" for k, v in rows
    )
    return f"<table><caption>{html.escape(title)}</caption>{cells}</table>"


def label_image(labels: np.ndarray, widest: int = 480) -> str:
    """A coloured picture of two-dimensional labels; empty for others."""
    if labels.ndim != 2 or labels.size == 0:
        return ""
    step = max(1, -(-max(labels.shape) // widest))
    small = labels[::step, ::step]
    data = base64.b64encode(_png(_palette()[small.astype(np.intp) % 256])).decode()
    return f"<img alt='labels' style='image-rendering:pixelated' src='data:image/png;base64,{data}'/>"


def _palette() -> np.ndarray:
    """256 well separated colours, the ones of VOC: the bits of the label spread over the channels."""
    k = np.arange(256)
    colors = np.zeros((256, 3), np.uint8)
    for place in range(8):
        for channel in range(3):
            bit = (k >> (3 * place + channel)) & 1 if 3 * place + channel < 8 else 0 * k
            colors[:, channel] |= (bit << (7 - place)).astype(np.uint8)
    return colors


def _png(pixels: np.ndarray) -> bytes:
    height, width, _ = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")
