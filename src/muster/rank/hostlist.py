"""Slurm node lists: read, written, counted, without scontrol (an image has none).

Read: the newest grammar. Names stand between commas or blanks; a name may hold any number of
brackets, each with numbers and ranges, and text between and after them:
`a[1-2,07]`, `rack[1-2]node[01-16]`, `n[1-4]-ib` (the last not before Slurm 24.11).
A range keeps the zero padding of its lower end: `[9-11]` is 9, 10, 11 and `[09-11]` is 09, 10, 11.

Written: what every Slurm reads, one bracket at the end of a name, at most 65,536 names in it.
"""

import itertools
import re
from typing import Iterable, Iterator, List, NamedTuple, Optional, Tuple, Union

from .errors import HostlistError

# Longer lists are refused before anything is allocated: a mistyped n[1-99999999] must not end a login node.
MOST_NAMES = 1_000_000

# scontrol refuses a longer bracket (MAX_RANGE, 22.05 to 26.05).
_MOST_NAMES_IN_BRACKET = 65_536

# More digits than a node number ever has; int() stays cheap on hostile text.
_MOST_DIGITS = 18

# DNS allows 253 characters; a bracket counts as one.
_LONGEST_NAME = 255

_NAME = re.compile(r"(?:[^\s,\[\]]|\[[^\[\]]*\])+", re.ASCII)
_PLAIN_NAME = re.compile(r"[^\s,]+", re.ASCII)
_SEPARATORS = re.compile(r"[\s,]*", re.ASCII)
_FACTOR = re.compile(r"\[([^\]]*)\]|[^\[]+")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?\Z")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,%d})\Z" % _MOST_DIGITS, re.DOTALL)
_UNWRITABLE = re.compile(r"[\x00-\x20\x7f,\[\]]")


class _Range(NamedTuple):
    """The numbers `low` to `high`, both included, written with at least `width` digits."""

    low: int
    high: int
    width: int

    def texts(self) -> List[str]:
        return [str(number).zfill(self.width) for number in range(self.low, self.high + 1)]


# A name is a product of factors, each the ranges of one bracket or a single text.
_Factor = Union[str, Tuple[_Range, ...]]
_Factors = Tuple[_Factor, ...]


def expand(text: str) -> List[str]:
    """Return all names of the list, in Slurm's order, duplicates kept. An empty list has none."""
    plain = _plain(text)
    if plain is not None:
        return plain
    elements = list(_elements(text))
    _count(elements, text)
    names: List[str] = []
    for _, factors in elements:
        names.extend(_product(factors))
    return names


def _plain(text: str) -> Optional[List[str]]:
    """Return the names of a list without brackets, twenty times as fast.

    None for any other, and where one is refused.
    """
    if "[" in text or "]" in text or _CONTROL.search(text):
        return None
    names = _PLAIN_NAME.findall(text)
    fits = len(names) <= MOST_NAMES and max(map(len, names), default=0) <= _LONGEST_NAME
    return names if fits else None


def count(text: str) -> int:
    """Return how many names `expand` would give; nothing is expanded."""
    return _count(list(_elements(text)), text)


def first(text: str) -> str:
    """Return the first name; what follows it is not read. An empty list is refused."""
    for _, factors in _elements(text):
        lowest = (
            factor if isinstance(factor, str) else str(factor[0].low).zfill(factor[0].width) for factor in factors
        )
        return "".join(lowest)
    raise HostlistError("the node list is empty, so it has no first host", text, 0)


def compress(names: Iterable[str]) -> str:
    """Return the list in Slurm's short form: `expand(compress(names)) == list(names)`."""
    groups: List[_Group] = []
    for name in names:
        _refuse_unwritable(name)
        numbered = _NUMBERED.match(name)
        stem, digits = numbered.groups() if numbered else (name, "")
        if not (groups and groups[-1].take(stem, digits)):
            groups.append(_Group(stem, digits))
    return ",".join(map(str, groups))


class _Group:
    """Names that follow each other in the list and differ in their last number only."""

    def __init__(self, stem: str, digits: str) -> None:
        self.stem = stem
        self.ranges = [[digits, digits]]
        self.size = 1

    def take(self, stem: str, digits: str) -> bool:
        """Return whether the next name belongs here; if so it is in."""
        last = self.ranges[-1]
        if stem != self.stem or not digits or not last[1] or self.size == _MOST_NAMES_IN_BRACKET:
            return False
        if digits == str(int(last[1]) + 1).zfill(len(last[1])):
            last[1] = digits
        else:
            self.ranges.append([digits, digits])
        self.size += 1
        return True

    def __str__(self) -> str:
        if self.size == 1:
            return self.stem + self.ranges[0][0]
        ranges_text = ",".join(low if low == high else f"{low}-{high}" for low, high in self.ranges)
        return f"{self.stem}[{ranges_text}]"


def _elements(text: str) -> Iterator[Tuple[int, _Factors]]:
    """Yield each name of the list as its position and factors."""
    control = _CONTROL.search(text)
    if control:
        raise HostlistError("a control character stands in the node list", text, control.start())
    position = _skip_separators(text, 0)
    while position < len(text):
        name = _NAME.match(text, position)
        if name is None:
            raise _bracket_error(text, position)
        if name.end() < len(text) and text[name.end()] in "[]":
            raise _bracket_error(text, name.end())
        yield position, _factors(text, position, name.end())
        position = _skip_separators(text, name.end())


def _skip_separators(text: str, position: int) -> int:
    separators = _SEPARATORS.match(text, position)
    return separators.end() if separators else position


def _bracket_error(text: str, position: int) -> HostlistError:
    if text[position] == "]":
        return HostlistError("']' closes no bracket in the node list", text, position)
    if "]" in text[position:]:
        return HostlistError("a bracket stands inside a bracket in the node list", text, position)
    return HostlistError("a bracket is never closed in the node list", text, position, hint="was the list cut off?")


def _factors(text: str, start: int, end: int) -> _Factors:
    factors: List[_Factor] = []
    length = 0
    for part in _FACTOR.finditer(text, start, end):
        ranges_text = part.group(1)
        factors.append(part.group() if ranges_text is None else tuple(_ranges(text, part.start(1), ranges_text)))
        length += len(part.group()) if ranges_text is None else 1
    if length > _LONGEST_NAME:
        raise HostlistError(f"a name in the node list has more than {_LONGEST_NAME} characters", text, start)
    return tuple(factors)


def _ranges(text: str, position: int, ranges_text: str) -> Iterator[_Range]:
    for item in ranges_text.split(","):
        match = _RANGE.match(item)
        if match is None:
            raise HostlistError(f"{item!r} is neither a number nor a range in the node list", text, position)
        low, high = match.group(1), match.group(2) or match.group(1)
        if max(len(low), len(high)) > _MOST_DIGITS:
            raise HostlistError("a number in the node list has too many digits", text, position)
        if int(high) < int(low):
            raise HostlistError(f"the range {item} of the node list runs backwards", text, position)
        yield _Range(int(low), int(high), len(low))
        position += len(item) + 1


def _count(elements: Iterable[Tuple[int, _Factors]], text: str) -> int:
    total = 0
    for position, factors in elements:
        names = 1
        for factor in factors:
            names *= 1 if isinstance(factor, str) else sum(part.high - part.low + 1 for part in factor)
            if total + names > MOST_NAMES:
                hint = f"at most {MOST_NAMES:,}; is a range mistyped?"
                raise HostlistError("the node list has too many names", text, position, hint=hint)
        total += names
    return total


def _product(factors: _Factors) -> List[str]:
    """Return all names in scontrol's order: the last bracket turns fastest, then the first, the second, and so on."""
    texts = [
        [factor] if isinstance(factor, str) else [text for part in factor for text in part.texts()]
        for factor in factors
    ]
    brackets = [index for index, factor in enumerate(factors) if not isinstance(factor, str)]
    slowest_first = [*reversed(brackets[:-1]), *brackets[-1:]]
    names = []
    for texts_of_host in itertools.product(*(texts[index] for index in slowest_first)):
        text_by_index = dict(zip(slowest_first, texts_of_host))
        names.append("".join(text_by_index.get(index, texts[index][0]) for index in range(len(factors))))
    return names


def _refuse_unwritable(name: str) -> None:
    match = _UNWRITABLE.search(name)
    if not name or match or len(name) > _LONGEST_NAME:
        position = match.start() if match else 0
        raise HostlistError(f"{name!r} is not a node name", name, position)
