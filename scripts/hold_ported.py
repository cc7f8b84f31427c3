"""Hold `muster port` to what runs: each script of a folder before, and the job after at each site, with stub programs.

    scripts/hold_ported.py FOLDER [--sites lumi,perlmutter] [--all] [--show]

FOLDER holds the scripts, files that end in .sbatch, .slurm or .sh; nothing here fetches them. A script of somebody else
runs in a box (bubblewrap): no network, an empty root in memory whose files vanish with the box, the programs of this
machine to read, and one new folder that it can write, which is removed afterwards. Folders that a script goes to, files
that it reads and programs that it names by a path are made in the box before they are missed. srun, mpirun, torchrun,
accelerate, deepspeed, image engines, conda, uv and others are stubs that start each other; the last of them, python or
any program that is not here, writes down its number and world, its words, its folder, all its variables and modules,
the files that it finds, and the line of the script that started it. The files at the end count too.

Where something differs that no row speaks of, the script runs once more, at another time of another day and with other
numbers of processes: what is not the same in its own two runs is not compared.

A row of the table speaks of a difference if it is about just that: the line of another launch, the size, the variable's
name, the folder, the file's name; in the words of a command only what a row asks about may differ. One result for each
script and site, by the first of these that holds:

    refused        muster port, or the plan of the site, takes no such job
    not compared   the script alone starts no rank with these programs
    no rank        the job starts none, and ends with this status
    ended          ranks were started, but the job ends with this status
    silent         something differs and no row speaks of it
    told           rows speak of all that differs, but of some of it only to say that it was left out or changed
    asked, differs an open row (asked, not carried) speaks of each thing that differs
    asked          nothing differs, though there are open rows
    same           nothing differs, and nothing is asked
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from muster.errors import MusterError  # noqa: E402
from muster.render.script import job_script  # noqa: E402
from muster_lint.job import BatchScript  # noqa: E402
from muster_lint.port.carry import carry  # noqa: E402
from muster_lint.port.expand import expanded, values_of  # noqa: E402
from muster_lint.port.target import Carried, facts_of  # noqa: E402
from muster_lint.port.values import is_open  # noqa: E402
from port.box import Outcome, run_boxed  # noqa: E402
from port.judge import Difference, differences, steady  # noqa: E402
from port.scripts import origin_of, read  # noqa: E402
from sites.profiles import bundled  # noqa: E402

_SITES = "lumi,perlmutter,jean-zay,marenostrum5,clariden"
_NAMED = re.compile(r"[/$].*\b(python3?|torchrun|accelerate|deepspeed)$")
_QUIET = {"asked", "same", "not compared"}


class Result(NamedTuple):
    """What became of one script at one site."""

    word: str
    why: str = ""
    found: tuple[Difference, ...] = ()


def main() -> int:
    """Print a line for each result that wants to be read, and the counts; 1 if one differs in silence."""
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    words.add_argument("folder", type=Path, help="the scripts: files that end in .sbatch, .slurm or .sh")
    words.add_argument("--sites", default=_SITES, help=f"names of profiles ({_SITES})")
    words.add_argument("--all", action="store_true", help="print a line for each result")
    words.add_argument("--show", action="store_true", help="show every difference, and what the table says of it")
    options = words.parse_args()
    if shutil.which("bwrap") is None:
        print("hold_ported: bubblewrap is missing: no script of somebody else runs without its box", file=sys.stderr)
        return 1
    counts: Counter[str] = Counter()
    paths = [path for path in sorted(options.folder.iterdir()) if path.suffix in {".sbatch", ".slurm", ".sh"}]
    for path in paths:
        for site, result in hold(path.read_text(errors="replace"), options.sites.split(",")):
            counts[result.word] += 1
            if options.all or result.word not in _QUIET:
                print(f"{path.name} {site}: {result.word}: {result.why[:600]}", flush=True)
            for each in result.found if options.show else ():
                print(f"    {each.said or 'silent'}: {each.kind}: {each.text[:400]}")
    print(f"{len(paths)} scripts: " + ", ".join(f"{count} {word}" for word, count in counts.most_common()))
    return 1 if counts["silent"] else 0


def hold(text: str, sites: list[str]) -> Iterator[tuple[str, Result]]:
    """Yield what became of a script at each site; the script itself runs once for each way of being started."""
    ran: dict[tuple[str, ...], Outcome] = {}

    def run_before(passed: tuple[str, ...], *, later: bool = False) -> Outcome:
        key = ("later", *passed) if later else passed
        if key not in ran:
            ran[key] = run_boxed(text, given=_given(passed), traced=True, programs=programs_of(job), later=later)
        return ran[key]

    for site in sites:
        try:
            job, draft = read(text)
            carried = carry(draft, bundled(site), origin_of(text), facts_of("/srv", "/home/ada", "ada"))
        except MusterError as error:
            yield site, Result("refused", error.message)
            continue
        passed = tuple(name for name in carried.draft.values.get("env", ()) if "=" not in name)
        yield site, compare(run_before, carried, job, passed)


def compare(run_before: Callable[..., Outcome], carried: Carried, job: BatchScript, passed: tuple[str, ...]) -> Result:
    """Return what became of a script, which runs before the job does, carried to one site."""
    if carried.plan is None:
        return Result("refused", str(carried.refusal))
    old = run_before(passed)
    if not old.ranks:
        return Result("not compared", f"no rank was started before (status {old.status}: {old.said})")
    script = job_script(carried.plan)
    new = run_boxed(script, given=_given(passed), programs=[*programs_of(job), *_places_of(carried, script)])
    if not new.ranks:
        return Result("no rank", f"status {new.status}: {new.said}")
    found = tuple(differences(old, new, carried.draft, job))
    if not all(each.said for each in found):
        old = steady(old, run_before(passed, later=True), new)
        found = tuple(differences(old, new, carried.draft, job))
    questions = [row for row in carried.draft.rows if is_open(row)]
    shown = " | ".join(f"{each.kind}: {each.text}"[:200] for each in sorted(found, key=lambda one: one.said))
    if new.status:
        return Result("ended", f"status {new.status}: {new.said} | {shown}", found)
    for said, word in (("", "silent"), ("told", "told"), ("asked", "asked, differs")):
        each = " | ".join(f"{one.kind}: {one.text}"[:300] for one in found if one.said == said)
        if each:
            return Result(word, each, found)
    return Result("asked" if questions else "same")


def _places_of(carried: Carried, script: str) -> Iterator[str]:
    """Yield what the job looks for: its program, the image, the Python of a conda environment, the site's folders."""
    command = carried.draft.command
    yield from re.findall(r"(?:^|; )exec ([\w./~+-]+)(?= |$)", command[-1]) or [
        word for word in command[:1] if re.fullmatch(r"[\w./~+-]+", word)
    ]
    yield from (f"/srv/{name}" for name in re.findall(r"(?<!source )(?<!\. )\b([\w.-]+\.sh)\b", " ".join(command)))
    yield from (f"{place}/" for place in re.findall(r"--bind[\s\\]+(/[\w./-]+)", script))
    folder = (carried.draft.get("chdir") or "/srv").replace("~", "/home/ada", 1)
    for place in (carried.draft.get("image"), f"{carried.draft.get('conda') or ''}/bin/python"):
        if place and not place.startswith("/bin/") and not re.match(r"\w+:", place):
            for base in ("/srv", folder):
                yield str(Path(base) / place.replace("~", "/home/ada", 1))


def _given(names: tuple[str, ...]) -> dict[str, str]:
    """Return the variables of the submitting shell that a line asks for, each with a value."""
    return {name: f"given_{name}" for name in names}


def programs_of(job: BatchScript) -> list[str]:
    """Return the programs that a script names by a path, and the scripts of its own that it starts."""
    values = values_of(job.shell)
    found = []
    for command in job.shell.commands:
        words = [word.value for word in expanded(command, values)]
        for before, word in zip(["", *words], words):
            if before in {"source", ".", "cd", "pushd"}:
                continue
            is_own = word.endswith(".sh") and (before.rpartition("/")[2] in {"bash", "sh", ""} or word.startswith("./"))
            if is_own or ("/bin/" in word and "=" not in word) or _NAMED.search(word if before else f"{word}/python"):
                found.append(word)
    return [
        word
        for word in found
        if re.fullmatch(r"[\w./~${}+-]+", word) and not re.match(r"/usr/s?bin/|/bin/|.*/activate$", word)
    ]


if __name__ == "__main__":
    sys.exit(main())
