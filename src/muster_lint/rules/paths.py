"""Rules on paths that mean another place than their author thought."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from muster_lint import sources
from muster_lint.bash import Word
from muster_lint.job import BatchScript
from muster_lint.rule import rule
from muster_lint.values import Hit, Severity
from muster_lint.works import is_work

_HEAD = "#!/bin/bash\n#SBATCH --nodes=1\n#SBATCH --time=01:00:00\nset -e\n"


@rule(
    "path-not-there",
    Severity.FRAGILE,
    "a path or a module that is not there from where the work starts",
    why="Behind cd DIR the path DIR/file means DIR/DIR/file, which is seldom there. python -m and torchrun -m look in the folder where they start, in PYTHONPATH and among what is installed.",
    instead='Give the variable a whole path: DIR="$PWD/code". Name a module as it lies there, or install it.',
    source=sources.BASH,
    bad=_HEAD + "CODE=code\ncd $CODE\nsrun --kill-on-bad-exit=1 python train.py --config $CODE/train.yaml\n",
    good=_HEAD + "CODE=$PWD/code\ncd $CODE\nsrun --kill-on-bad-exit=1 python train.py --config $CODE/train.yaml\n",
)
def find_paths_from_before(job: BatchScript) -> Iterator[Hit]:
    """Yield the first path of the work that begins with the folder that the script has gone into, and a module that no folder has."""
    yield from _missing_modules(job)
    moves = [
        each for each in job.shell.commands if each.program in {"cd", "pushd", "popd"} and not each.in_substitution
    ]
    if not job.directives or len(moves) != 1 or len(moves[0].words) != 2:
        return
    move = moves[0]
    folder = job.shell.filled(move.words[1].value).rstrip("/").removeprefix("./")
    is_apart = move.is_conditional or move.in_loop or move.function or move.is_tested or "REPLACE" in folder
    if is_apart or not re.fullmatch(r"[\w-][\w.-]*(/[\w.-]+)*", folder):
        return
    works = [each for each in job.launches if is_work(job, each) and each.command.order > move.order]
    for word in [word for work in works for word in work.command.words]:
        name = _first_name(word)
        if name and _is_below(job, word, folder) and job.shell.filled(f"${name}").startswith(folder):
            message = f"line {move.place.line} went into {folder}, so this means {folder}/{folder}/…"
            yield Hit(word.place, message, unknown=f"whether {folder} lies in {folder} again")
            return


def _first_name(word: Word) -> str:
    """Return the variable that a path begins with, behind the name of its option."""
    found = re.match(r"(?:[-\w.]+=)?\$\{?(\w+)", word.value)
    return found[1] if found else ""


def _is_below(job: BatchScript, word: Word, folder: str) -> bool:
    """Tell whether a word is a file of the folder, as the path is written."""
    path = job.shell.filled(word.value)
    return (path.partition("=")[2] if "=" in path else path).removeprefix("./").startswith(f"{folder}/")


def _missing_modules(job: BatchScript) -> Iterator[Hit]:
    """Yield the first module of a package that no folder around the script has, where the work starts with the script's folders."""
    if (
        not job.directives
        or "PYTHONPATH" in job.text
        or re.search(r"\b(cd|pushd|install|chdir)\b|-C |--chdir", job.text)
    ):
        return
    for launch in job.all_launches:
        stage = launch.stage("agent") or launch.stage("python")
        name = _module_of(launch.command.words) if stage is not None and launch.stage("container") is None else None
        top = name.value.partition(".")[0] if name is not None else ""
        if name is None or "." not in name.value or top in _KNOWN or not re.fullmatch(r"\w+(\.\w+)+", name.value):
            continue
        tops = _folders_around(job)
        if tops and not any(_holds(folder, top) for folder in tops):
            yield Hit(name.place, f"no folder around the script holds {top}", unknown="what is installed")
            return


_KNOWN = frozenset(
    "torch accelerate deepspeed transformers vllm lightning fairseq jax flax mpi4py ray dask llamafactory axolotl trl verl espnet2 detectron2".split()  # noqa: SIM905
)


def _module_of(words: tuple[Word, ...]) -> Word | None:
    """Return the module behind the last -m; None where there is none, or Python runs a launcher by it."""
    places = [index for index, word in enumerate(words[:-1]) if word.value in {"-m", "--module"}]
    return words[places[-1] + 1] if places else None


def _folders_around(job: BatchScript) -> list[Path]:
    """Return the folder of the script and those above it up to that of the project; none where no project is seen."""
    script = Path(job.path)
    if job.path in {"", "-"} or not script.is_file():
        return []
    found = []
    for folder in [*script.absolute().parents][:4]:
        found.append(folder)
        if any((folder / name).exists() for name in (".git", "requirements.txt", "setup.cfg", "README.md")):
            return (
                [] if any((folder / name).exists() for name in ("pyproject.toml", "setup.py")) else [*found, Path.cwd()]
            )
    return []


def _holds(folder: Path, name: str) -> bool:
    return any(
        (folder / place).exists() for place in (name, f"{name}.py", f"src/{name}", f"src/{name}.py", f"lib/{name}")
    )
