"""Exceptions and the warning of relaxcrf.

All exceptions derive from `RelaxcrfError` and from the built-in that fits, so ``except ValueError`` works as well.
Messages name what was given, what was expected and, where there is one, the likely fix.
"""

__all__ = [
    "ArgumentError",
    "DataError",
    "DtypeError",
    "FilterError",
    "InputWarning",
    "InternalError",
    "MethodError",
    "RelaxcrfError",
    "ShapeError",
]


class RelaxcrfError(Exception):
    """Base class of everything that relaxcrf raises."""


class ShapeError(RelaxcrfError, ValueError):
    """Arrays that must describe the same pixels, labels or channels do not."""


class ArgumentError(RelaxcrfError, ValueError):
    """A number or a name outside of what makes sense."""


class DataError(RelaxcrfError, ValueError):
    """An array holds a value without meaning there, such as NaN or a probability of -1."""


class MethodError(RelaxcrfError, ValueError):
    """The method's promise does not hold for this model."""


class FilterError(RelaxcrfError, ValueError):
    """The filter cannot represent these features, for example because a standard deviation is far too small."""


class DtypeError(RelaxcrfError, TypeError):
    """Something of a type that is of no use there, such as a text for an array of numbers."""


class InternalError(RelaxcrfError, RuntimeError):
    """A bug in relaxcrf. Please report it."""


class InputWarning(UserWarning):
    """The input is valid but probably not what was meant."""
