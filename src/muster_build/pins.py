"""How firmly give a requirements file or a conda environment file says what it wants. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from muster.rank.vendors import VENDORS

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[[^\]]*\])?\s*([^;#]*)")
# A comment of YAML's begins behind a blank: in an address, # stands before a hash.
_LIST_ITEM = re.compile(r"^(\s*)-\s+['\"]?([^'\"]+?)['\"]?\s*(?:\s#.*)?$")
# The short form of a list: dependencies: [python=3.11, {pip: [torch==2.1]}]
_SHORT_LIST = re.compile(r"^dependencies:\s*\[((?:[^\[\]]|\[[^\[\]]*\])*)\]", re.MULTILINE)
_SHORT_PIP = re.compile(r"\{\s*['\"]?pip['\"]?\s*:\s*\[([^\]]*)\]\s*\}")
_OF_GPUS = {
    **{vendor.kind: re.compile(vendor.packages) for vendor in VENDORS},
    "cpu": re.compile(r"(\+|%2B)cpu\b|=cpu_|^cpuonly\b|^pytorch-cpu|/whl/cpu"),
}
# Packages of which there is one build for each kind of GPU.
_BUILT_BY_KIND = frozenset({"torch", "torchvision", "torchaudio", "pytorch", "jaxlib"})


class Pin(msgspec.Struct, frozen=True):
    """One package: `unpinned`, `version` (the same version, any build of it) or `build` (the same bytes)."""

    name: str
    level: str
    words: str
    from_pip: bool = True


def pins_of_requirements(text: str) -> Iterator[Pin]:
    """Yield the pins of a requirements file; lines that are options of pip are none."""
    for line in text.replace("\\\n", " ").splitlines():
        words = line.split(" #")[0].strip()
        match = _REQUIREMENT.match(words)
        if match is None:
            continue
        name, constraint = match[1].lower().replace("_", "-"), match[2].strip()
        yield Pin(name, _level(words, constraint), words)


def _level(words: str, constraint: str) -> str:
    if "--hash=" in words or (constraint.startswith("@") and re.search(r"#sha256=|@[0-9a-f]{40}", words)):
        return "build"
    exact = re.match(r"===?\s*[^,*\s]+", constraint)
    return "version" if exact and "*" not in constraint else "unpinned"


def pins_of_conda(text: str) -> Iterator[Pin]:
    """Yield the `dependencies` of a conda environment file; the packages of its `pip:` list are marked as pip's."""
    of_pip_deeper_than: int | None = None
    is_dependency = False
    for line in _SHORT_LIST.sub(_as_lines, text).splitlines():
        if line.strip() and not line.startswith((" ", "-", "#")):
            is_dependency = line.startswith("dependencies:")
            continue
        item = _LIST_ITEM.match(line)
        if not is_dependency or item is None:
            continue
        depth, words = len(item[1]), item[2].strip()
        if words == "pip:":
            of_pip_deeper_than = depth
        elif of_pip_deeper_than is not None and depth > of_pip_deeper_than:
            yield from pins_of_requirements(words)
        else:
            of_pip_deeper_than = None
            name, _, constraint = words.partition("::")[2].partition("=") if "::" in words else words.partition("=")
            count = len([part for part in constraint.split("=") if part])
            bare = re.split(r"[<>!~ ]", name)[0].lower()
            moving = "*" in constraint or bare != name.strip().lower()
            yield Pin(bare, "unpinned" if moving or not count else "version" if count == 1 else "build", words, False)


def _as_lines(short_list: re.Match[str]) -> str:
    """Return YAML's short form of a list, [a, {pip: [b]}], with an item on each line."""
    of_pip = _SHORT_PIP.search(short_list[1])
    own_items = _SHORT_PIP.sub("", short_list[1]).split(",")
    pip_items = of_pip[1].split(",") if of_pip else []
    lines = [f"  - {item.strip()}" for item in own_items if item.strip()]
    return "\n".join(
        ["dependencies:", *lines, *(["  - pip:"] if of_pip else []), *(f"    - {p.strip()}" for p in pip_items)]
    )


def for_other_gpus(pins: Iterable[Pin], kind: str) -> list[Pin]:
    """Return packages made for other GPUs than those of the target (or cpu)."""
    other_patterns = [pattern for name, pattern in _OF_GPUS.items() if name not in {kind, "cpu"}]
    if kind != "cpu":
        other_patterns.append(_OF_GPUS["cpu"])
    return [pin for pin in pins if any(pattern.search(pin.words) for pattern in other_patterns)]


def of_no_kind(pins: Iterable[Pin], text: str, kind: str) -> list[Pin]:
    """Return packages that are built once for each kind of GPU, of which neither they nor the file's index say which.

    That is an error where the usual index has no builds for that kind: it would give one for CUDA or for CPUs.
    """
    is_named = any(
        _OF_GPUS[kind].search(line) for line in text.splitlines() if "index-url" in line or "find-links" in line
    )
    return [
        pin
        for pin in pins
        if pin.name in _BUILT_BY_KIND
        and not (pin.from_pip and is_named)
        and not any(pattern.search(pin.words) for pattern in _OF_GPUS.values())
    ]
