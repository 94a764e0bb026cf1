"""From whatever users have to numbers within limits. Every complaint names the argument and what was given."""

from __future__ import annotations

import operator
import reprlib
import sys
from itertools import islice
from typing import Any, Callable, Optional, Sized

from .errors import ArgumentError, DtypeError

MOST_LABELS = 65535
MOST_POINTS = 2**32 - 1
# What the exact filter takes; lattices take fewer and say so themselves.
MOST_DIMENSIONS = 64

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 80


def shown(value: Any) -> str:
    """What was given, for a message: short, and without fail for what is deep, huge or has no text of its own."""
    try:
        return _short.repr(value)
    except Exception:
        return f"of type {type(value).__name__}"


def whole(value: Any, name: str, least: int = 0, most: int = sys.maxsize, instead: str = "") -> int:
    """A whole number of any integer type; `instead` is what else could have been given."""
    if not isinstance(value, bool):
        try:
            number = operator.index(value)
        except TypeError:
            pass
        else:
            if least <= number <= most:
                return number
    raise ArgumentError(
        f"{name} is {shown(value)}, but must be {instead}a whole number, {least} to {_limit(most)}"
    )


def truncated(value: Any, name: str, least: int = 0, most: int = sys.maxsize) -> int:
    """As `whole` for the interfaces of others, where 3.0 is 3."""
    try:
        value = int(value)
    except (OverflowError, TypeError, ValueError):
        pass  # what it is instead is said below
    return whole(value, name, least, most)


def number(value: Any, name: str) -> float:
    """A float; NaN and infinities are for the caller to judge."""
    if not isinstance(value, (str, bytes, bytearray)):
        try:
            return float(value)
        except (OverflowError, TypeError, ValueError):
            pass
    raise ArgumentError(f"{name} is {shown(value)}, but must be a number that a float can hold")


def text(value: Any, name: str) -> str:
    """A str that native code can read, which half a surrogate pair is not."""
    if isinstance(value, str):
        try:
            value.encode()
            return value
        except UnicodeEncodeError:
            pass
    raise DtypeError(f"{name} is {shown(value)}, but must be a str")


def flag(value: Any, name: str) -> bool:
    """A bool, also NumPy's; nothing that merely counts as true."""
    if type(value).__name__ in ("bool", "bool_") and value in (False, True):
        return bool(value)
    raise DtypeError(f"{name} is {shown(value)}, but must be True or False")


def truth(value: Any, name: str) -> bool:
    """As `flag` for the interfaces of others, where 1 is True."""
    try:
        return bool(value)
    except (TypeError, ValueError):
        return flag(value, name)


def one_of(value: Any, name: str, *known: str) -> str:
    """One of the known texts. An array is compared with none of them: it would answer with an array."""
    if isinstance(value, str) and value in known:
        return value
    *others, last = map(repr, known)
    raise ArgumentError(f"{name} is {shown(value)}, but must be {', '.join(others)} or {last}")


def function(value: Any, name: str, of: str) -> Callable[..., Any]:
    """Something to call; `of` says with what."""
    if callable(value):
        return value
    raise DtypeError(f"{name} is {shown(value)}, but must be a function of {of}")


def several(value: Any, count: int) -> Optional[tuple]:
    """The entries of a collection, or None if it has not so many, or is none whatever its type says."""
    try:
        # One more tells that there are more, however many these are.
        found = tuple(islice(value, count + 1)) if isinstance(value, Sized) else ()
    except (NotImplementedError, TypeError):
        return None
    return found if len(found) == count else None


def optional(convert: Callable[..., Any], value: Any, *limits: Any) -> Any:
    """None stays None."""
    return None if value is None else convert(value, *limits)


def check_points(shape: tuple, what: str) -> None:
    """Fails if there are more points than can be counted, before anything looks at their values."""
    points = 1
    for length in shape:
        points *= int(length)
    if points > MOST_POINTS:
        raise ArgumentError(f"{what} have {points} pixels, but must have 2^32 - 1 at most: see refine_tiled")


def check_labels(count: int, what: str) -> None:
    """Fails if there are more labels than can be told apart."""
    if count > MOST_LABELS:
        raise ArgumentError(f"{what} have {count} labels, but must have {MOST_LABELS} at most: which axis are they on?")


def _limit(most: int) -> str:
    return str(most) if most <= MOST_LABELS or most & (most + 1) else f"2^{most.bit_length()} - 1"
