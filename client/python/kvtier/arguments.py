"""Arguments of calls, checked before the extension takes them, with errors that name them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import SupportsIndex, TypeVar

Item = TypeVar("Item")

_MAX_SHOWN = 100  # Most characters of a value in an error.


def shown(value: object) -> str:
    """Returns the value for the text of an error, or its type if the value is long."""
    if value is None or isinstance(value, (bool, int, float, str, bytes)):
        try:
            text = repr(value)
        except ValueError:  # Python writes no int of more than 4,300 digits.
            text = ""
        if 0 < len(text) <= _MAX_SHOWN:
            return text
    return f"of type {type(value).__name__}"


def listed(name: str, values: Iterable[Item]) -> list[Item]:
    """Returns the values of the argument `name`. Raises TypeError, naming it, if it has none."""
    try:
        items = iter(values)
    except TypeError:
        raise TypeError(f"{name} is {shown(values)}; must be a sequence") from None
    return list(items)


def typed(name: str, value: Item, kind: type[Item]) -> Item:
    """Returns the value of the argument `name`. Raises TypeError, naming it, if it is of another type than `kind`."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} is {shown(value)}; must be a kvtier.{kind.__name__}")
    return value


def check_index(index: int, count: int, of: str) -> None:
    """Raises TypeError unless `index` is an int, and IndexError unless it is that of one of `count` blocks."""
    if not isinstance(index, SupportsIndex):
        raise TypeError(f"index is {shown(index)}; must be an int")
    if not 0 <= index < count:
        raise IndexError(f"index is {index}; must be 0 or more and below {count}, the blocks of the {of}")
