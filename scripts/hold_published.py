"""Hold the facts of the published scripts to the scripts themselves, line by line.

    scripts/hold_published.py FOLDER

FOLDER has a clone of each repository, as OWNER+NAME, or the bare repository as OWNER+NAME/repo. Each line of a script
that decides something (a directive, an export, a module, a sourced file) has to be a fact of
tests/sites/published/SITE.toml, or to stand in its `left_out` with the reason. The texts are not kept here: whoever
changes the facts runs this once.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from sites.differences import Script, published  # noqa: E402  # what is published is a fact of the tests
from sites.profiles import SITES  # noqa: E402

_AT = re.compile(r"([\w.-]+/[\w.-]+) @([0-9a-f]{7,40}),? ?([\w./+-]+)")
_LETTERS = {"-N": "nodes", "-n": "ntasks", "-c": "cpus-per-task", "-t": "time", "-A": "account", "-p": "partition"}
_LETTERS |= {"-q": "qos", "-C": "constraint", "-G": "gpus"}
_OF_THE_AUTHOR = frozenset(
    ("-J", "-o", "-e", "-D", "--job-name", "--output", "--error", "--mail-type", "--mail-user", "--chdir", "--comment")
)


_OF_THE_WIREUP = frozenset(
    ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_ADDR", "RDZV_ENDPOINT", "RDZV_HOST", "RDZV_PORT")
)
"""What each rank gets from Muster, whatever the script computes."""


def decisive_lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the whole text of each line that decides something."""
    for line in map(str.strip, text.splitlines()):
        directive = re.match(r"#SBATCH\s+(-{1,2}[\w-]+)", line)
        if directive is not None and directive[1] not in _OF_THE_AUTHOR:
            name = _LETTERS.get(directive[1], directive[1].lstrip("-"))
            yield {"tasks-per-node": "ntasks-per-node"}.get(name, name), line
        elif line.startswith("export "):
            yield from ((name, line) for name in re.findall(r"(?:^export| )\s*([A-Za-z_]\w*)=", line))
        elif re.match(r"(source|\.)\s+\S", line):
            yield line.split()[1], line
        elif re.match(r"(module|ml)\s+(?!list|avail|spider)\S", line):
            yield from ((word, line) for word in _modules(line))


def _modules(line: str) -> list[str]:
    words = line.partition("#")[0].split()[1:]
    return [word for word in words if word not in {"load", "add", "use", "purge", "reset", "unload", "-q"}]


def blocks_of(path: str, text: str) -> list[str]:
    """Return the scripts in a text: the file itself, or the blocks of code of a page."""
    if path.endswith(".md"):
        return re.findall(r"^ *```[^\n]*\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL)
    if path.endswith(".rst"):
        return [block for block in re.split(r"\n(?=\S)", text) if "\n   " in block]
    return [text]


def is_held(name: str, script: Script) -> bool:
    """Return whether a line of this name is a fact, or stands among those that were omitted with a reason."""
    facts = {*script.directives, *script.environment, *script.left_out, *_OF_THE_WIREUP}
    facts |= {"ntasks"} if "ntasks-per-node" in script.directives else set()
    facts |= {word.lstrip("-") for flag in script.step for word in re.split(r"[ =]", flag)[:1]}
    texts = " ".join((*script.modules, *script.commands, script.image or ""))
    return name in facts or "activate" in name or name.rsplit("/", 1)[-1] in texts or name in texts.split()


def missing_lines(script: Script, text: str, path: str) -> list[str]:
    """Return the decisive lines of the script that are not held; of a page, those of the block that has most facts."""
    held = [[(name, line) for name, line in decisive_lines(block)] for block in blocks_of(path, text)]
    best = max(held, key=lambda lines: sum(is_held(name, script) for name, _ in lines), default=[])
    return list(dict.fromkeys(f"{name}: {line}" for name, line in best if not is_held(name, script)))


def text_of(script: Script, folder: Path) -> tuple[str, str] | None:
    """Return the path and the text of a published script, from a clone below the folder; None: there is no clone."""
    match = _AT.search(script.at)
    if match is None:
        return None
    repository = folder / match[1].replace("/", "+")
    bare = repository / "repo"
    directory = bare if bare.is_dir() else repository / ".git"
    for commit in (match[2], "HEAD"):
        argv = ["git", "--git-dir", str(directory), "show", f"{commit}:{match[3]}"]
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", check=False)
        if done.returncode == 0:
            return match[3], done.stdout
    return None


def main(folder: Path) -> int:
    """Print each line that is not held, and what could not be read."""
    counts = {"held": 0, "not read": 0, "lines not held": 0}
    for site in SITES:
        for script in published(site).script:
            found = text_of(script, folder)
            if found is None:
                counts["not read"] += 1
                print(f"{site}: {script.name}: not read ({script.at})")
                continue
            missing = missing_lines(script, found[1], found[0])
            counts["held"] += not missing
            counts["lines not held"] += len(missing)
            for line in missing:
                print(f"{site}: {script.name}: {line}")
    print(", ".join(f"{count} {name}" for name, count in counts.items()))
    return 1 if counts["lines not held"] else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
