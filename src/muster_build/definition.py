"""The text that Apptainer builds from: a definition file, ours or the user's on top of an image. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from muster.errors import RequestError

_HEADER = re.compile(r"\s*(?:[A-Za-z]+\s*:.*|#.*)?$")
_INSIDE = "/opt/muster-build"
_WHEELS = f"{_INSIDE}/wheels"
# An image is nobody's system: its Python may be the distribution's, and who installs is root. Older pips know neither.
_SETTINGS = "export PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore"


class Copy(msgspec.Struct, frozen=True):
    """A file or directory of this host, and where it goes in the image."""

    source: str
    target: str


def parse_copy(words: str) -> Copy:
    """Return the source and the target of SRC:DST."""
    source, _, target = words.rpartition(":")
    if not source or not target.startswith("/"):
        raise RequestError(f"--copy {words} is not SRC:DST", hint="DST is an absolute path in the image")
    if re.search(r"\s", words):
        raise RequestError(f"--copy {words} holds a space, at which Apptainer splits", hint="rename it, or link to it")
    return Copy(source, target)


def compose(
    base: str,
    *,
    copies: Sequence[Copy] = (),
    requirements: str | None = None,
    wheelhouse: str | None = None,
    offline: bool = False,
    definition: str = "",
) -> str:
    """Return a definition that starts from `base`, which is an image's path or a transport and what it names."""
    transport, name = _transport(base)
    parts = [f"Bootstrap: {transport}\nFrom: {name}\n"]
    files = list(copies)
    if requirements is not None:
        files.append(Copy(requirements, f"{_INSIDE}/requirements.txt"))
    if wheelhouse is not None:
        files.append(Copy(wheelhouse, _WHEELS))
    if files:
        parts.append("%files\n" + "".join(f"    {file.source} {file.target}\n" for file in files))
    if requirements is not None:
        pip_options = [*(["--no-index"] if offline else []), *([f"--find-links {_WHEELS}"] if wheelhouse else [])]
        words = ["python3 -m pip install --no-cache-dir", *pip_options, f"-r {_INSIDE}/requirements.txt"]
        removal = f"    rm -rf {_WHEELS}\n" if wheelhouse else ""
        parts.append(f"%post\n    set -e\n    {_SETTINGS}\n    {' '.join(words)}\n{removal}")
    parts.append(_without_header(definition))
    return "\n".join(part for part in parts if part)


def _transport(base: str) -> tuple[str, str]:
    if base.startswith("docker://"):
        return "docker", base.removeprefix("docker://")
    name, colon, rest = base.partition(":")
    return (name, rest) if colon and name in {"docker-archive", "oci-archive", "oci"} else ("localimage", base)


def _without_header(definition: str) -> str:
    lines = definition.splitlines(keepends=True)
    while lines and _HEADER.match(lines[0]):
        lines.pop(0)
    return "".join(lines)


# Instruction → the form of it that has a counterpart in a definition.
_COUNTERPARTS = {
    "FROM": r"(?!scratch$)[^\s$]+",
    "RUN": r"(?!--|\[|<<)[\s\S]*",
    "COPY": r"(?![-\[])\S+\s+/\S*",
    "ENV": r"[A-Za-z_]\w*=(?:\"[^\"]*\"|'[^']*'|\S*)",
    "WORKDIR": r"/\S*",
}


def _has_counterpart(word: str, rest: str) -> bool:
    return word in _COUNTERPARTS and re.fullmatch(_COUNTERPARTS[word], rest) is not None


def from_containerfile(text: str) -> str:
    """Return a definition that does what a simple Containerfile does.

    What has no counterpart is refused by its line.
    """
    base: str | None = None
    runs = False
    files: list[str] = []
    post: list[str] = []
    environment: list[str] = []
    for number, line in _instructions(text):
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        word = word.upper()
        if not _has_counterpart(word, rest) or (word == "FROM" and base is not None):
            raise RequestError(
                f"line {number} of the Containerfile has no simple counterpart in a definition: {line}",
                hint="Muster converts one FROM, RUN in shell form, COPY SRC /DST, ENV NAME=VALUE and WORKDIR /DIR; "
                "for more, build it with podman or docker, and give --from docker-archive:FILE (docker save)",
            )
        if word == "FROM":
            base = rest
        elif word == "RUN":
            runs = True
            post.append(rest)
        elif word == "COPY":
            if runs:
                raise RequestError(
                    "the Containerfile copies after RUN, but a definition copies first", hint="move COPY above RUN"
                )
            files.append(rest)
        elif word == "ENV":
            environment.append(f"export {rest}")
            post.append(f"export {rest}")
        else:
            post.append(f"mkdir -p {rest} && cd {rest}")
    if base is None:
        raise RequestError("the Containerfile has no FROM", hint="its first instruction names the base image")
    sections = {"%files": files, "%environment": environment, "%post": post and ["set -e", *post]}
    body = [name + "\n" + "".join(f"    {command}\n" for command in lines) for name, lines in sections.items() if lines]
    return "\n".join([f"Bootstrap: docker\nFrom: {base}\n", *body])


def _instructions(text: str) -> list[tuple[int, str]]:
    """Return the instructions, each on one line, with the number of its first line."""
    instructions: list[tuple[int, str]] = []
    pending, first_number = "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue  # an empty line ends no instruction either
        first_number = first_number if pending else number
        pending += content
        if pending.endswith("\\"):
            pending = pending[:-1] + " "
            continue
        instructions.append((first_number, pending))
        pending = ""
    return instructions
