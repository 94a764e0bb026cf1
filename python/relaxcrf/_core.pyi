"""Types of the extension module. Private: the package's own modules are its only users."""

from typing import Any, Callable, Optional, Union

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
Values = Union[NDArray[np.uint8], Rows]

# Energies, probabilities or scores as rows (kind, rows, least probability that counts), or one mark per point (marks, number
# of labels, probability that a mark is right, mark of undecided points).
Source = Union[tuple[str, Rows, float], tuple[NDArray[np.uint16], int, float, Optional[int]]]

# Kind and numbers.
Cost = tuple[str, list[float]]

# Kind, standard deviations (x first), values per point, their standard deviations, weight, label cost.
Kernel = tuple[str, list[float], Optional[Values], list[float], float, Optional[Cost]]

Place = tuple[list[int], list[int]]

class DenseCrf:
    def __new__(cls, sizes: list[int], labels: int) -> DenseCrf: ...
    @property
    def points(self) -> int: ...
    @property
    def labels(self) -> int: ...
    def set_unary(self, unary: Source, threads: Optional[int] = None) -> None: ...
    def add_kernel(
        self,
        kind: str,
        sigma: list[float],
        values: Optional[Values],
        sigma_color: list[float],
        compatibility: list[float],
        normalization: str = "symmetric",
        threads: Optional[int] = None,
    ) -> None: ...
    def inference(self, iterations: int, threads: Optional[int] = None) -> Rows: ...
    def step(self, beliefs: Rows, threads: Optional[int] = None) -> None: ...
    def divergence(self, beliefs: Rows, threads: Optional[int] = None) -> float: ...

class Unrolled:
    def __new__(
        cls,
        unary: NDArray[Any],
        features: list[NDArray[Any]],
        weights: list[float],
        costs: tuple[str, list[float]],
        normalization: str,
        filter: str,
        updates: int,
        converged: bool,
        negligible_belief: float,
        memory: int,
        threads: Optional[int] = None,
    ) -> Unrolled: ...
    def beliefs(self) -> NDArray[Any]: ...
    def gradients(
        self, of_beliefs: NDArray[Any], features: list[str], threads: Optional[int] = None
    ) -> dict[str, Any]: ...

class Model:
    def __new__(
        cls,
        unary: Source,
        sizes: list[int],
        kernels: list[Kernel],
        compatibility: Cost,
        filter: str,
        normalization: str,
        threads: Optional[int] = None,
        place: Optional[Place] = None,
        learned: Optional[tuple[float, list[float], list[float]]] = None,
    ) -> Model: ...
    @property
    def sizes(self) -> list[int]: ...
    @property
    def points(self) -> int: ...
    @property
    def labels(self) -> int: ...
    @property
    def normalization(self) -> str: ...
    def describe(self) -> list[tuple[str, str, int]]: ...
    def unary(self) -> Rows: ...
    def kernels(self) -> list[dict[str, Any]]: ...
    def with_unary(self, unary: Rows, threads: Optional[int] = None) -> Model: ...
    def restrict(self, keep: list[int]) -> Model: ...
    def energy(
        self, labels: NDArray[np.uint16], exact: bool = False, threads: Optional[int] = None
    ) -> tuple[float, float]: ...
    def unary_argmin(self) -> NDArray[np.uint16]: ...
    def lower_constant(
        self, labels: NDArray[np.uint16], threads: Optional[int] = None
    ) -> Optional[tuple[int, float, float]]: ...

def solve(
    model: Model,
    method: str,
    init: Optional[Rows] = None,
    max_iter: Optional[int] = None,
    tol: Optional[float] = None,
    time_limit: Optional[float] = None,
    until_gap: Optional[float] = None,
    seed: int = 0,
    threads: Optional[int] = None,
    callback: Optional[Callable[..., Any]] = None,
    roundings: Optional[int] = None,
) -> tuple[dict[str, Any], Optional[BaseException]]: ...
def refine(
    unary: Source,
    sizes: list[int],
    kernels: list[Kernel],
    normalization: str,
    method: str,
    max_iter: Optional[int] = None,
    place: Optional[Place] = None,
    find_constant: bool = False,
    threads: Optional[int] = None,
    learned: Optional[tuple[float, list[float], list[float]]] = None,
) -> tuple[NDArray[Any], Rows, Optional[tuple[int, float, float]]]: ...
def filter(
    features: Rows, values: Rows, kind: str = "lattice", transposed: bool = False, threads: Optional[int] = None
) -> Rows: ...
def stereo_unary(
    left: Values,
    right: Values,
    height: int,
    width: int,
    disparities: int,
    measure: str,
    radius: int,
    truncation: Optional[float] = None,
    threads: Optional[int] = None,
) -> Rows: ...
def preferred_filter(method: str) -> str: ...
def methods() -> list[tuple[str, str, str]]: ...
def presets() -> list[dict[str, Any]]: ...
def read_preset(path: str) -> dict[str, Any]: ...
def version() -> str: ...
def get_num_threads() -> int: ...
def set_num_threads(threads: Optional[int]) -> None: ...
def after_fork() -> None: ...
def before_exit() -> None: ...
def raise_internal_error() -> None: ...

class Stop:
    def __new__(cls) -> Stop: ...
    def watch(self) -> None: ...
    def set(self) -> None: ...

def tile_halo(sigmas: list[float]) -> int: ...
def tile_windows(
    sizes: list[int], side: int, halo: list[int]
) -> list[tuple[list[tuple[int, int]], list[tuple[int, int]]]]: ...
def tile_samples(sizes: list[int]) -> list[list[tuple[int, int]]]: ...
def tile_bytes_per_pixel(sample: Model, channels: int) -> int: ...
def tile_side(bytes_per_pixel: int, halo: int, axes: int, memory: Optional[int] = None) -> int: ...
def tile_check_method(method: str) -> None: ...
