"""Data sets on a Ray cluster. Needs ``pip install relaxcrf[ray]``.

A `Refiner` is what ``Dataset.map_batches`` wants::

    import ray, relaxcrf.ray

    images = ray.data.read_parquet("scores/")           # columns image (H x W x 3), probabilities (L x H x W)
    labels = images.map_batches(
        relaxcrf.ray.Refiner,
        fn_constructor_kwargs={"preset": "voc", "drop": ["image", "probabilities"]},
        compute=ray.data.ActorPoolStrategy(size=8), num_cpus=2, batch_size=16,
    )
    labels.write_parquet("labels/")

Ray moves the batches, retries tasks of workers that died, and uses the machines there are.
"""

from __future__ import annotations

import os
from typing import Any, Optional, Sequence, Union

import numpy as np

from ._batch import each, pairs_of
from ._numbers import one_of, optional, shown, text, whole
from ._refine import Preset, preset_of, refine
from .errors import ArgumentError, DtypeError, RelaxcrfError

__all__ = ["Refiner"]


class Refiner:
    """Refines batches: dictionaries of columns, as Ray Data and others have them.

    Parameters
    ----------
    preset, label_axis, channel_axis, data_range, method, iterations
        As for `relaxcrf.refine`.
    image, probabilities : str
        The columns with images and probabilities. Read-only arrays and images of different sizes are fine.
    output : {"labels", "probabilities"}
        What to compute, and unless `column` says otherwise the name of its column.
    column : str, optional
        The column that the result goes to.
    drop : sequence of str
        Columns to leave out of the result: large inputs, usually.
    on_error : {"raise", "keep"}
        What bad input does: raise, or leave an empty result and a text in the column ``error`` (empty for good rows).
    threads : int, optional
        Threads to use. By default as many as CPUs were asked for (``num_cpus`` of ``map_batches``).

    Examples
    --------
    >>> import numpy as np
    >>> from relaxcrf.ray import Refiner
    >>> batch = {"image": np.zeros((2, 20, 30, 3), np.uint8), "probabilities": np.full((2, 4, 20, 30), 0.25)}
    >>> Refiner(threads=1, drop=["image", "probabilities"])(batch)["labels"].shape
    (2, 20, 30)
    """

    def __init__(
        self,
        preset: Union[str, os.PathLike, Preset, None] = None,
        *,
        image: str = "image",
        probabilities: str = "probabilities",
        output: str = "labels",
        column: Optional[str] = None,
        drop: Sequence[str] = (),
        on_error: str = "raise",
        label_axis: int = 0,
        channel_axis: Optional[int] = -1,
        data_range: float = 255.0,
        method: Optional[str] = None,
        iterations: Optional[int] = None,
        threads: Optional[int] = None,
    ) -> None:
        one_of(output, "output", "labels", "probabilities")
        self.image, self.probabilities = text(image, "image"), text(probabilities, "probabilities")
        self.column = optional(text, column, "column") or output
        self.drop = _names(drop, "drop")
        self.on_error = one_of(on_error, "on_error", "raise", "keep")
        self.threads = threads if threads is not None else assigned_cpus()
        # Read once, here: a preset file need not exist on other machines.
        self.options = {
            "preset": preset_of(preset),
            "output": output,
            "label_axis": label_axis,
            "channel_axis": channel_axis,
            "data_range": data_range,
            "method": optional(text, method, "method"),
            "iterations": optional(whole, iterations, "iterations", 1),
        }

    def __call__(self, batch: dict) -> dict:
        """The batch with a column of results."""
        # Of the type: a class has the methods of its objects, but no columns. Tables of pandas will do.
        if not hasattr(type(batch), "items"):
            raise DtypeError(f"the batch is {shown(batch)}, but must be a dict of columns")
        columns = []
        for name in (self.image, self.probabilities):
            if name not in batch:
                raise ArgumentError(f"the batch has no column {name!r}: it has {', '.join(map(str, batch))}")
            columns.append(each(batch[name], f"column {name!r}"))
        results, errors = [], []
        for place, (image, probabilities) in enumerate(pairs_of(*columns)):
            found, error = self._one(image, probabilities, place)
            results.append(found)
            errors.append(error)
        out = {name: values for name, values in batch.items() if name not in self.drop}
        out[self.column] = as_column(results)
        if self.on_error == "keep":
            out["error"] = np.array(errors, dtype=str)
        return out

    def _one(self, image: Any, probabilities: Any, place: int) -> tuple:
        try:
            return refine(image, probabilities, threads=self.threads, **self.options), ""
        except (RelaxcrfError, TypeError, ValueError) as error:
            if self.on_error == "raise":
                kind = type(error) if isinstance(error, RelaxcrfError) else ValueError
                raise kind(f"row {place} of the batch: {error}") from error
            labels = self.options["output"] == "labels"
            return np.empty((0, 0) if labels else (0, 0, 0), np.uint8 if labels else np.float32), str(error)


def _names(given: Any, name: str) -> set:
    """One name, or several."""
    try:
        return {text(one, name) for one in ([given] if isinstance(given, str) else given)}
    except (NotImplementedError, TypeError):
        raise DtypeError(f"{name} is {shown(given)}, but must be a str or a sequence of them") from None


def assigned_cpus() -> int:
    """The CPUs that Ray gave to this task or actor; 1 outside of one, or for a share of a CPU."""
    try:
        import ray

        if ray.is_initialized():
            return max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))
    except ImportError:
        pass
    return 1


def as_column(arrays: list) -> np.ndarray:
    """One array if all have the same shape, else an array of arrays."""
    if len({a.shape for a in arrays}) == 1:
        return np.stack(arrays)
    column = np.empty(len(arrays), dtype=object)
    for place, array in enumerate(arrays):
        column[place] = array
    return column
