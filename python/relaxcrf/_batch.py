"""Many images in one call."""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Iterator, Optional, Union

import numpy as np

from . import _core
from ._arrays import as_array
from ._functions import get_num_threads
from ._model import Model
from ._numbers import one_of, shown, whole
from ._refine import Preset, check_output, preset_of, refine
from ._solve import solve
from .errors import DtypeError, MethodError, ShapeError

_END = object()


def batch(
    images: Any,
    probabilities: Any,
    preset: Union[str, os.PathLike, Preset, None] = None,
    *,
    label_axis: int = 0,
    channel_axis: Optional[int] = -1,
    data_range: float = 255.0,
    method: Optional[str] = None,
    iterations: Optional[int] = None,
    output: str = "labels",
    jobs: Optional[int] = None,
    lookahead: Optional[int] = None,
    errors: str = "return",
) -> Any:
    """Refines many images, several at a time, each as `refine` does it.

    No processes are started and nothing is pickled: the work is done by threads that do not hold the interpreter's
    lock.

    Parameters
    ----------
    images, probabilities : sequence, array or iterator
        As many of one as of the other; every image with its probabilities is what `refine` takes. An array's first
        axis counts the images: N x height x width x 3 and N x labels x height x width (or N x height x width x labels
        with ``label_axis=-1``). Sizes and numbers of labels may differ from image to image in lists and iterators.
    preset, label_axis, channel_axis, data_range, method, iterations, output
        As for `refine`, for each image.
    jobs : int, optional
        Images at the same time; by default `get_num_threads`. Each has one thread, or all of them if `jobs` is 1.
    lookahead : int, optional
        Images that are taken from an iterator beyond those at work, and results that wait to be fetched; by default as
        many as `jobs`. This is what bounds the memory.
    errors : {"return", "raise"}
        What becomes of an image that cannot be refined: its exception stands in the place of its result, or is raised
        when its turn comes.

    Returns
    -------
    list or iterator
        What `refine` returns, in the order of the images, whichever is finished first: a list, or an iterator if
        `images` or `probabilities` is one (or a generator). The iterator takes its inputs as it goes.

    Raises
    ------
    ShapeError
        If there are more images than probabilities, or the other way round.

    Examples
    --------
    >>> import numpy as np, relaxcrf
    >>> rng = np.random.default_rng(0)
    >>> images = rng.integers(0, 255, (3, 20, 30, 3), dtype=np.uint8)
    >>> p = rng.dirichlet([1, 1], size=(3, 20, 30)).transpose(0, 3, 1, 2)
    >>> [labels.shape for labels in relaxcrf.batch(images, p)]
    [(20, 30), (20, 30), (20, 30)]

    A million images, a few at a time; the one that cannot be read does not stop the others:

    >>> def load():
    ...     for k in range(3):
    ...         yield images[k]
    >>> results = relaxcrf.batch(load(), iter([p[0], p[1][:, :5], p[2]]))
    >>> [type(r).__name__ for r in results]
    ['ndarray', 'ShapeError', 'ndarray']
    """
    one_of(errors, "errors", "return", "raise")
    check_output(output)
    jobs = get_num_threads() if jobs is None else whole(jobs, "jobs", 1)
    lookahead = jobs if lookahead is None else whole(lookahead, "lookahead")
    _check_method(method)
    pairs = pairs_of(each(images, "images"), each(probabilities, "probabilities"))
    _check_many(images, probabilities)
    options = {
        "preset": preset_of(preset),
        "label_axis": label_axis,
        "channel_axis": channel_axis,
        "data_range": data_range,
        "method": method,
        "iterations": iterations,
        "output": output,
        "threads": None if jobs == 1 else 1,
    }

    lengths = [len(x) if hasattr(x, "__len__") else None for x in (images, probabilities)]
    sized = None not in lengths
    if sized and lengths[0] != lengths[1]:
        raise ShapeError(f"there are {lengths[0]} images but {lengths[1]} probabilities; each image needs its own")
    results = _in_order(pairs, options, jobs, lookahead, errors == "raise")
    return list(results) if sized else results


def _in_order(pairs: Iterator, options: dict, jobs: int, lookahead: int, strict: bool) -> Iterator:
    """Results in the order of their inputs, with a bounded number of them under way."""
    waiting: deque = deque()
    failure: Optional[BaseException] = None
    # Signals reach the main thread only: it passes them on to those at work, or would wait for them.
    stop = _core.Stop()
    with ThreadPoolExecutor(jobs, thread_name_prefix="relaxcrf-batch", initializer=stop.watch) as pool:
        try:
            more = True
            while more or waiting:
                while more and len(waiting) < jobs + lookahead:
                    try:
                        pair = next(pairs, _END)
                    except Exception as error:  # the source's own failure: told after what came before it
                        failure, pair = error, _END
                    if pair is _END:
                        more = False
                        break
                    waiting.append(pool.submit(refine, *pair, **options))
                if waiting:
                    yield _value(waiting.popleft(), strict)
            if failure is not None:
                raise failure
        except BaseException:
            stop.set()
            raise
        finally:
            for future in waiting:
                future.cancel()


def _value(future: Future, strict: bool) -> Any:
    error = future.exception()
    if error is None:
        return future.result()
    # What is no fault of an image (Ctrl-C, an exit) is nobody's result.
    if strict or not isinstance(error, Exception):
        raise error
    # The frames of a traceback would keep the image's arrays alive.
    return error.with_traceback(None)


def each(many: Any, name: str) -> Iterator:
    """The entries, one per image."""
    if isinstance(many, memoryview):
        many = as_array(many, name)  # it cannot walk along the first of several axes by itself
    try:
        return iter(many)
    except TypeError:
        raise DtypeError(
            f"{name} is {shown(many)}, but must be a sequence, an array or an iterator with one entry per image"
        ) from None


def pairs_of(images: Iterator, probabilities: Iterator) -> Iterator:
    """Each image with its probabilities; fails at the end if there are more of one than of the other."""
    count = 0
    while True:
        image, p = next(images, _END), next(probabilities, _END)
        if image is _END and p is _END:
            return
        if image is _END or p is _END:
            lacking = "images" if image is _END else "probabilities"
            raise ShapeError(f"the {lacking} end after {count}, but there is more of the other; each image needs its own")
        yield image, p
        count += 1


def _check_method(method: Optional[str]) -> None:
    """A name that no method has is the caller's mistake, not that of every image."""
    if method is None:
        return
    try:
        solve(Model(np.zeros((2, 1, 2), np.float32), []), method, max_iter=1, threads=1)
    except MethodError:
        pass


def _check_many(images: Any, probabilities: Any) -> None:
    shapes = [getattr(x, "shape", None) for x in (images, probabilities)]
    if all(isinstance(s, tuple) and len(s) == 3 for s in shapes) and shapes[0][:2] == shapes[1][1:]:
        raise ShapeError(
            f"images of shape {tuple(shapes[0])} with probabilities of shape {tuple(shapes[1])} look like one image: "
            "use refine, or lists of one"
        )
