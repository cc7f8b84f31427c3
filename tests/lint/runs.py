"""The runs of the rules' examples on a lab: the folders that are submitted, and the record that is kept of each run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from muster.older import zip_equal
from muster_lint.shown import Shown, runs_table
from muster_lint.values import Rule
from plugins.labs import ROOT

__all__ = ["GOLDEN", "SIDES", "keep_record", "kept_record", "kept_texts", "records_of", "write_folders"]

GOLDEN = ROOT / "tests/golden/lint.txt"
SIDES = ("before", "after")
# What srun and slurmstepd write of the tasks that they end: which of them they name depends on the moment.
_OF_THE_END = re.compile(
    r"Exited with exit code|Terminating StepId|CANCELLED AT|task \d+: (Terminated|Killed|running)|tasks? [\d,-]+:"
    r"|\*\*\* STEP|forcing job termination|got SIGCONT|[Tt]ask_?[Pp]rolog|Job step aborted|Waiting up to"
    r"|error: Timed out|Force Terminated|_handle_signal_container"
)


def write_folders(top: Path, shown_rules: Sequence[tuple[Rule, Shown]]) -> None:
    """Write one folder for each side of each rule: the script, its program, and how to submit it."""
    for rule, shown in shown_rules:
        for side in SIDES:
            _write_folder(top / rule.name / side, rule, shown, side)


def _write_folder(folder: Path, rule: Rule, shown: Shown, side: str) -> None:
    example = rule.bad if side == "before" else rule.good
    files = {"job.sh": example, "train.py": runs_table().program(shown), **shown.files}
    if rule.language == "python":
        files |= {"job.sh": runs_table().python_job, "train.py": example}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, newline="")
    how = {
        "prepare": shown.prepare,
        "options": shown.options,
        "copies": shown.copies,
        "hangs": shown.hangs and side == "before",
    }
    (folder / "how.json").write_text(json.dumps(how))


def records_of(folder: Path, shown: Shown) -> str:
    """Return what is recorded of one side: what sbatch said, how the job ended, what it wrote."""
    seen = json.loads((folder / "seen.json").read_text())
    if seen["refused"]:
        return "".join(f"sbatch: {line.removeprefix('sbatch: ')}\n" for line in seen["refused"].splitlines())
    jobs = [line for text in seen["shown"] for line in text.splitlines() if line.strip()]
    names = _names_of_nodes(jobs[0])
    lines = sorted({_job_line(line, shown) for line in jobs})
    written = _written(folder, shown)
    if shown.lists_files:
        lines.append(
            "files: " + " ".join(sorted({_masked(str(path), folder, seen["jobs"], names) for path in written}))
        )
    outputs = sorted({_masked(line, folder, seen["jobs"], names) for line in _output_lines(folder, written)})
    only = re.compile(shown.only)
    return "\n".join([*lines, *(line for line in outputs if only.search(line))]) + "\n"


def _job_line(line: str, shown: Shown) -> str:
    values = dict(pair.split("=", 1) for pair in line.split() if "=" in pair)
    signal = values["ExitCode"].partition(":")[2]
    # The status of a step whose tasks were ended is that of whichever task counted last.
    ended = values["JobState"] + (f", signal {signal}" if signal not in {"0", "9", "15"} else "")
    return " ".join([f"job: {ended}", *(f"{name}={values[name]}" for name in shown.fields)])


def _names_of_nodes(line: str) -> dict[str, str]:
    """Return what each host of the job is called in the record: node1 is the first."""
    text = re.search(r" NodeList=(\S+)", line)
    hosts = list(_hosts(text[1])) if text else []
    return {host: f"node{number}" for number, host in enumerate(hosts, start=1)}


def _hosts(text: str) -> Iterator[str]:
    match = re.fullmatch(r"(\w+)\[([\d,-]+)\]", text)
    if match is None:
        yield text
        return
    for part in match[2].split(","):
        low, _, high = part.partition("-")
        yield from (f"{match[1]}{number}" for number in range(int(low), int(high or low) + 1))


def _written(folder: Path, shown: Shown) -> list[Path]:
    """Return the files that the job made, as paths below the folder."""
    before = {"job.sh", "train.py", "how.json", "seen.json", *shown.files}
    paths = sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return [path for path in paths if str(path) not in before and path.parts[0] not in {"env", "module"}]


def _output_lines(folder: Path, written: Sequence[Path]) -> Iterator[str]:
    for path in written:
        if path.suffix in {".out", ".log"}:
            for line in (folder / path).read_text(errors="replace").splitlines():
                if line.strip() and not _OF_THE_END.search(line):
                    yield line.rstrip()


def _masked(line: str, folder: Path, jobs: Sequence[str], names: dict[str, str]) -> str:
    """Return a line without what differs from run to run."""
    line = re.sub(r"/\S*/site-packages/(\S+?):\d+:", r"\1:", line)
    line = re.sub(r"/\S*/slurm_script", "slurm_script", line).replace(str(folder), "HOME")
    line = re.sub(r"\b(?:%s)\b" % "|".join(map(re.escape, names or {"-": ""})), lambda match: names[match[0]], line)  # noqa: UP031
    numbers = "|".join(job for job in jobs if job)
    line = re.sub(rf"(?i)(\bjob |slurm-|train-|jobid=|stepid=|logs/)(?:{numbers})(?=\b|_)", r"\1JOB", line)
    line = re.sub(r"\bnode\[[\d,-]+\]", f"node[1-{len(names)}]", line)
    return re.sub(r"port 2\d{4}\b", "port PORT", line)


def kept_texts() -> dict[str, str]:
    """Return the record that is kept of each rule's run, as text."""
    _, *parts = re.split(r"(?:\A|\n)=== ([a-z-]+)\n", GOLDEN.read_text(encoding="utf-8"))
    return dict(zip_equal(parts[::2], parts[1::2]))


def keep_record(name: str, records: dict[str, str]) -> None:
    """Write the record of both sides of a rule in the place of the kept one."""
    text = "".join(f"--- {side}\n{record}" for side, record in records.items())
    texts = sorted({**kept_texts(), name: text}.items())
    GOLDEN.write_text("\n".join(f"=== {rule}\n{each}" for rule, each in texts), encoding="utf-8")


def kept_record(name: str) -> dict[str, str]:
    """Return the record that is kept of a rule's run."""
    text = kept_texts().get(name, "")
    parts = re.split(r"^--- (before|after)\n", text, flags=re.MULTILINE)[1:]
    return dict(zip_equal(parts[::2], parts[1::2]))
