"""Energy minimisation for dense (fully connected) conditional random fields.

>>> import numpy as np, relaxcrf
>>> rng = np.random.default_rng(0)
>>> image = rng.integers(0, 255, (40, 60, 3), dtype=np.uint8)
>>> probabilities = rng.dirichlet([1, 1, 1], size=(40, 60)).transpose(2, 0, 1)
>>> relaxcrf.refine(image, probabilities).shape
(40, 60)

`refine` is one call for people with network output, `batch` one for many images. `Model` and `solve` give every method, energies and bounds.
`grad` runs mean-field updates and returns gradients; `relaxcrf.torch` is a layer for PyTorch.
`relaxcrf.compat.pydensecrf` and `relaxcrf.compat.simplecrf` are drop-in replacements.

Weights: every pair of pixels counts twice, once from each end. pydensecrf counts pairs once: its ``compat`` is twice
the weight here.
"""

import atexit as _atexit
import os as _os

from . import _core, errors
from ._batch import batch
from ._functions import filter, get_num_threads, set_num_threads, stereo_unary
from ._grad import Gradients, grad
from ._kernels import Bilateral, Features, Gaussian
from ._model import Model
from ._refine import Preset, presets, read_preset, refine
from ._solve import Progress, Result, methods, solve
from ._tiles import refine_tiled

__version__ = _core.version()

__all__ = [
    "Bilateral",
    "Features",
    "Gaussian",
    "Gradients",
    "Model",
    "Preset",
    "Progress",
    "Result",
    "batch",
    "errors",
    "filter",
    "get_num_threads",
    "grad",
    "methods",
    "presets",
    "read_preset",
    "refine",
    "refine_tiled",
    "set_num_threads",
    "solve",
    "stereo_unary",
]

# A child process has none of its parent's threads and must build its own pool.
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_core.after_fork)
# Native code must not be at work in other threads when the interpreter ends.
_atexit.register(_core.before_exit)
