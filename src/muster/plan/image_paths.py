"""Paths of the command and of variables, seen from inside: what is not there, and what cannot be written. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from muster.errors import RequestError
from muster.facts import ImageFacts
from muster.model.plan import ImageUse, Note, Variable
from muster.model.words import Hidden, Template, Word
from muster.plan.mounts import covered

# Variables by which programs choose where they write what they keep.
_CACHE = re.compile(
    r"(^|_)(CACHE|CACHE_DIR|CACHEDIR|CACHE_PATH|CACHE_HOME|DB_PATH|TMPDIR)$|^(HF|TORCH|MPLCONFIG)_?(HOME|DIR)$"
)
# Every engine gives an image its own of these, or the kernel's.
_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr", "/etc", "/proc", "/sys", "/dev")
_OUTPUT = frozenset({"out", "output", "outputs", "outdir", "save", "savedir", "logdir", "results", "export"})
_INPUT = frozenset({"load", "resume", "from", "in", "input", "init", "restore"})
_NAMED = re.compile(r"-{0,2}([\w.-]+)=(/[^:,;=\s]+)")
_PATH = re.compile(r"(?:^|=)(/[^:,;=\s]+)")


def absolute_paths(words: Sequence[Word]) -> Iterator[str]:
    """Yield absolute paths in words: alone, and behind an equals sign (--data=/scratch/set)."""
    for word in words:
        if isinstance(word, str):
            for match in _PATH.finditer(word):
                yield match[1]


def check_places(use: ImageUse, working_directory: str, variables: Sequence[Variable]) -> None:
    """Refuse what would be written into the image: images are read-only, and shared by all ranks."""
    if PurePosixPath(working_directory).is_relative_to(use.name):
        raise RequestError(
            f"the working directory {working_directory} is in the image, but Muster has to make run directories there",
            hint="go to a directory of yours, or give one with --chdir",
        )
    for variable in variables:
        value = variable.value.text if isinstance(variable.value, (Hidden, Template)) else variable.value
        if not isinstance(value, str) or not _CACHE.search(variable.name) or not value.startswith("/"):
            continue
        if not covered(value, use.mounts):
            raise RequestError(
                f"{variable.name}={value} is in the image, which is read-only",
                hint=f"--env {variable.name}={{node_tmp}}/{variable.name.lower()}, or --bind {value}",
            )


def image_notes(use: ImageUse, image_facts: ImageFacts | None, words: Sequence[Word], *, gpus: int) -> Iterator[Note]:
    """Yield what to know before pressing return: paths that the image does not see, and what starting it costs."""
    image_facts = image_facts or ImageFacts()
    yield from _unseen(use, image_facts, words)
    yield from _outputs_inside(use, image_facts, words)
    for mount in use.mounts if image_facts.machine else ():
        if mount.is_asked and mount.source not in image_facts.real_paths:
            yield Note(f"{mount.source} does not exist on this host: each node checks before it starts", warning=True)
    if gpus and use.venv is None and image_facts.made_for == "cpu":
        yield Note(f"the torch in the image {use.image} is built for CPUs, but GPUs are asked for", warning=True)
    if use.kind == "registry" and use.program:
        yield Note("every node pulls the image when its first rank starts; a .sif is pulled once", warning=True)


def _unseen(use: ImageUse, image_facts: ImageFacts, words: Sequence[Word]) -> Iterator[Note]:
    for path in dict.fromkeys(absolute_paths(words)):
        of_system = any(PurePosixPath(path).is_relative_to(top) for top in _SYSTEM)
        is_hidden = path in image_facts.real_paths and path not in image_facts.inside
        if is_hidden and not of_system and not covered(path, use.mounts):
            folder = str(PurePosixPath(path).parent) if PurePosixPath(path).suffix else path
            yield Note(f"{path} exists on this host, but not in the image: --bind {folder}", warning=True)


def _outputs_inside(use: ImageUse, image_facts: ImageFacts, words: Sequence[Word]) -> Iterator[Note]:
    """Yield a warning for each option and variable by whose name the program writes to a path that is not bound."""
    for shown, name, path in dict.fromkeys(_named_paths(words)):
        of_system = any(PurePosixPath(path).is_relative_to(top) for top in (*_SYSTEM, "/tmp", "/var/tmp"))  # noqa: S108
        is_inside = path in image_facts.inside
        if (
            not _is_output(name)
            or of_system
            or covered(path, use.mounts)
            or (path in image_facts.real_paths and not is_inside)
        ):
            continue
        place = "is not a path of this host that the image sees; whether the image has it is not known"
        if is_inside or image_facts.looked_inside:
            place = f"{'lies' if is_inside else 'is not'} in the image, and no folder of this host is bound there"
        yield Note(
            f"{shown}: {path} {place}. What is written there is refused, or gone after the job\n\n"
            f"hint: --bind FOLDER:{path}, or a path of this host",
            warning=True,
        )


def _named_paths(words: Sequence[Word]) -> Iterator[tuple[str, str, str]]:
    """Yield (as it was typed, name, path) of `--name=/path`, `NAME=/path` and `--name /path`."""
    option = ""
    for word in words:
        text = word if isinstance(word, str) else ""
        if match := _NAMED.fullmatch(text):
            yield text, match[1], match[2]
        elif option and text.startswith("/"):
            yield f"{option} {text}", option, text
        option = text if text.startswith("-") and "=" not in text else ""


def _is_output(name: str) -> bool:
    parts = set(re.split(r"[-_.]", name.lower()))
    is_folder_of = parts & {"checkpoint", "checkpoints", "ckpt", "ckpts", "log", "logs"} and parts & {"dir", "folder"}
    return bool(parts & _OUTPUT or is_folder_of) and not parts & _INPUT
