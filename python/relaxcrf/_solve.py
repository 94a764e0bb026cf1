"""Running a method on a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, Optional

import numpy as np

from . import _core
from ._arrays import as_array, as_float32, axis_of, from_rows, room_for, rows_of, size, small_labels, warn
from ._model import Model
from ._numbers import flag, function, number, optional, text, whole
from .errors import DtypeError, ShapeError


class Progress(NamedTuple):
    """The state after one iteration: what a callback sees, and one entry of a trace."""

    stage: int
    method: str
    iteration: int
    seconds: float
    filter_calls: int
    objective: float
    energy: float
    lower_bound: Optional[float]


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """What `solve` found.

    Attributes
    ----------
    labels : array
        What the method arrived at, in the model's shape, uint8 (uint16 beyond 256 labels). For mean field exactly the
        argmax of `probabilities`; for other methods the lowest energy among their own iterates and roundings; for
        ``auto`` and ``exact`` the same as `best`.
    probabilities : array
        The last beliefs, float32, labels on the model's `label_axis`; a view without a copy.
    energy, unary_energy, pairwise_energy : float
        The energy of `labels` and its parts.
    best : array
        The labelling of lowest energy seen, the argmin of the unary energies and all constant labellings included.
    best_energy : float
        The energy of `best`.
    lower_constant : (int, float) or None
        Label and energy of the constant labelling that has lower energy than `labels`, if there is one: a sign that the
        kernels are very strong for these unaries.
    final_energy : float
        The energy of the argmax of `probabilities`.
    lower_bound : float or None
        No labelling's energy is below this, if a method could certify that.
    gap : float or None
        ``(energy - lower_bound) / |energy|``.
    status : str
        ``converged``, ``iteration limit``, ``time limit``, ``stopped`` or ``gap reached``.
    trace : list of Progress
        One entry per iteration.
    filter_calls, ordered_calls, evaluations, iterations : int
        What it took.
    seconds : float
        Wall-clock time.
    method : str
        What was run.
    """

    labels: np.ndarray
    probabilities: np.ndarray
    energy: float
    unary_energy: float
    pairwise_energy: float
    best: np.ndarray
    best_energy: float
    lower_constant: Optional[tuple]
    final_energy: float
    lower_bound: Optional[float]
    bound_source: Optional[str]
    gap: Optional[float]
    status: str
    iterations: int
    filter_calls: int
    ordered_calls: int
    evaluations: int
    seconds: float
    trace: list
    method: str

    def __array__(self, dtype: Any = None, copy: Optional[bool] = None) -> np.ndarray:
        """The labels."""
        if copy:
            return np.array(self.labels, dtype=dtype)
        return np.asarray(self.labels, dtype=dtype)

    def _facts(self) -> list:
        facts = [("method", self.method), ("status", self.status), ("energy", f"{self.energy:.6g}")]
        if self.lower_bound is not None:
            facts.append(("lower bound", f"{self.lower_bound:.6g} ({self.bound_source})"))
            facts.append(("gap", f"{self.gap:.3%}"))
        used = len(np.unique(self.labels))
        facts += [("iterations", self.iterations), ("filter calls", self.filter_calls + self.ordered_calls)]
        return [*facts, ("time", f"{self.seconds:.3f} s"), ("labels", f"{size(self.labels.shape)}, {used} used")]

    def __repr__(self) -> str:
        return "Result(" + ", ".join(f"{k}: {v}" for k, v in self._facts()) + ")"

    def _repr_html_(self) -> str:
        from ._html import label_image, table

        return table("relaxcrf.Result", self._facts()) + label_image(self.labels)


def solve(
    model: Model,
    method: Optional[str] = None,
    init: Any = None,
    max_iter: Optional[int] = None,
    tol: Optional[float] = None,
    time_limit: Optional[float] = None,
    seed: int = 0,
    threads: Optional[int] = None,
    callback: Optional[Callable[[Progress], Any]] = None,
    until_gap: Optional[float] = None,
    progress: bool = False,
    roundings: Optional[int] = None,
) -> Result:
    """Minimises the energy of a model.

    Parameters
    ----------
    model : Model
        The problem.
    method : str, optional
        A name from `methods`, or a chain of them such as ``"qp+dc-neg"``. By default that of `refine`: ten mean-field
        updates, ``"mf10"``.
    init : array or Result, optional
        Where to start: probabilities shaped as the model's energies, labels (whole numbers in the model's shape), or
        an earlier result. By default ``softmax(-unary)``.
    max_iter, tol, time_limit, until_gap : optional
        When to stop: iterations per stage, relative change, seconds, relative gap.
    seed : int
        Of everything random.
    threads : int, optional
        Threads to use; by default `get_num_threads`. Results do not depend on it.
    callback : callable, optional
        Called on the calling thread with a `Progress` after every iteration; a true return value stops the run.
    progress : bool
        Show a tqdm bar, if tqdm is installed.
    roundings : int, optional
        Random roundings tried at the end of each LP stage; 4 by default.

    Returns
    -------
    Result
        Whatever ended the run.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C stops between iterations. The exception has the attribute `result` with everything found so far, and
        so has an exception that `callback` raised; the model stays usable.

    Examples
    --------
    >>> import numpy as np, relaxcrf
    >>> unary = np.random.default_rng(0).random((3, 20, 30))
    >>> model = relaxcrf.Model(unary, [relaxcrf.Gaussian(3, 1.5)])
    >>> result = relaxcrf.solve(model, method="mf")
    >>> result.labels.shape, result.probabilities.shape
    ((20, 30), (3, 20, 30))
    >>> bool((result.labels == result.probabilities.argmax(0)).all())
    True
    """
    if not isinstance(model, Model):
        raise DtypeError(f"model is a {type(model).__name__}, but a relaxcrf.Model is needed")
    max_iter = optional(whole, max_iter, "max_iter")
    tol, time_limit = optional(number, tol, "tol"), optional(number, time_limit, "time_limit")
    until_gap, seed = optional(number, until_gap, "until_gap"), whole(seed, "seed", 0, 2**64 - 1)
    method = default_method() if method is None else text(method, "method")
    callback = optional(function, callback, "callback", "one argument, the Progress")
    roundings = optional(whole, roundings, "roundings", 0, 1000)
    bar = _bar(method) if flag(progress, "progress") else None

    def tell(*parts: Any) -> Any:
        now = Progress(*parts)
        if bar is not None:
            bar.update(1)
            bar.set_postfix_str(f"{now.method}: energy {now.energy:.6g}")
        return callback(now) if callback is not None else False

    is_followed = callback is not None or bar is not None
    try:
        found, error = _core.solve(
            model._core, method, _start(model, init), max_iter, tol, time_limit, until_gap, seed, threads,
            tell if is_followed else None, roundings,
        )
    finally:
        if bar is not None:
            bar.close()
    result = _result(model, found)
    if error is not None:
        error.result = result
        raise error
    return result


def _result(model: Model, found: dict) -> Result:
    for name in ("labels", "best"):
        found[name] = small_labels(found[name], model.labels, model.shape)
    found["probabilities"] = from_rows(found["probabilities"], model.shape, model.label_axis)
    found["trace"] = [Progress(*entry) for entry in found["trace"]]
    return Result(energy=found["unary_energy"] + found["pairwise_energy"], **found)


def warn_about_constant(instead: str, label: int, energy: float, labels_energy: float) -> None:
    """Says that one label at every pixel has lower energy than the labels found, and what to try instead."""
    warn(
        f"label {label} at every pixel has lower energy ({energy:.6g}) than these labels ({labels_energy:.6g}): the "
        f"kernels are very strong for these unaries. Try {instead}"
    )


def default_method() -> str:
    """The method of the default preset."""
    return _core.presets()[0]["method"]


@room_for("array to be copied")
def _start(model: Model, init: Any) -> Optional[np.ndarray]:
    if init is None:
        return None
    if isinstance(init, Result):
        init = init.probabilities
    array = as_array(init, "init")
    if array.shape == model.shape:
        labels = model._label_values(array)
        certain = np.zeros((labels.size, model.labels), np.float32)
        certain[np.arange(labels.size), labels] = 1
        return certain
    expected = list(model.shape)
    expected.insert(model.label_axis, model.labels)
    if array.shape != tuple(expected):
        raise ShapeError(
            f"init has shape {array.shape}, but {tuple(expected)} (probabilities) or {model.shape} (labels) is needed"
        )
    axis = axis_of(model.label_axis, array.ndim, "label_axis", "init")
    return rows_of(as_float32(array, "init"), axis)


def _bar(method: str) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(desc=method, unit="it")


def methods() -> dict:
    """The methods: for each name what it does and what it promises.

    Examples
    --------
    >>> import relaxcrf
    >>> "mf" in relaxcrf.methods()
    True
    """
    return {name: (summary, promise) for name, summary, promise in _core.methods()}
