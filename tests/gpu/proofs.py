"""What one GPU can prove, as values: what is run, and what must be seen. The judges are pure."""

from __future__ import annotations

import json
import math
import pickle
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

MARK = "gpu-proof "


class Seen(NamedTuple):
    """What a run left: its status, its output, what was looked at while it ran, files that it wrote."""

    status: int
    output: str
    looked: str = ""
    files: Mapping[str, bytes] = {}

    @property
    def told(self) -> list[dict[str, Any]]:
        """Return what the programs told, a rank a line."""
        lines = (line.partition(MARK)[2] for line in self.output.splitlines() if MARK in line)
        return [json.loads(text) for text in lines]


class Verdict(NamedTuple):
    """Whether it is proved, and the figure or the reason."""

    good: bool
    says: str


class Proof(NamedTuple):
    """One thing that a GPU can prove."""

    name: str
    proves: str
    muster: Sequence[str]
    """The words after `muster`; {programs} stands for the folder of the programs."""

    judge: Callable[[Seen], Verdict]
    look: Sequence[str] = ()
    """The words after `muster` that are asked while the program hangs; it is ended after that."""

    files: str = ""
    """A pattern: files of the run's folder that the judge gets."""

    seconds: float = 120.0


def first(seen: Seen, judge: Callable[[dict[str, Any]], Verdict], status: int = 0) -> Verdict:
    """Judge what the first rank told, where the run ended as it should."""
    if seen.status != status:
        return Verdict(False, f"status {seen.status} instead of {status}: {last_line(seen.output)}")
    return judge(seen.told[0]) if seen.told else Verdict(False, f"nothing was told: {last_line(seen.output)}")


def last_line(text: str) -> str:
    """Return the last line that says something."""
    return next((line for line in reversed(text.splitlines()) if line.strip()), "no output")


def _sees_its_device(told: dict[str, Any]) -> Verdict:
    if told["initialized_first"]:
        return Verdict(False, "CUDA was started before the first line of the script")
    if told["device"] != min(told["local_rank"], told["count"] - 1):
        return Verdict(False, f"local rank {told['local_rank']} is on device {told['device']}")
    if told["doubled"] != 8.0:
        return Verdict(False, f"2 × (1 + 1 + 1 + 1) is {told['doubled']} there")
    return Verdict(True, f"{told['name']}, torch {told['torch']}, CUDA {told['cuda']}, visible {told['visible']}")


def _sees_its_device_alone(told: dict[str, Any]) -> Verdict:
    if told["visible"] != "0":
        return Verdict(False, f"CUDA_VISIBLE_DEVICES is {told['visible']}, not 0")
    return _sees_its_device(told)


def _trains_as_on_cpu(told: dict[str, Any]) -> Verdict:
    if told["backend"] != "nccl":
        return Verdict(False, f"the backend is {told['backend']}")
    worst = max(abs(one - other) / max(abs(other), 1e-6) for one, other in zip(told["gpu"], told["cpu"], strict=True))
    fell = told["gpu"][-1] < told["gpu"][0]
    return Verdict(worst < 0.01 and fell, f"20 losses differ from the CPU's by {worst:.2%} at most; fell: {fell}")


def _world(told: dict[str, Any]) -> Verdict:
    good = (told["backend"], told["device"], told["sums"]) == ("nccl", "cuda:0", [1.0])
    return Verdict(good, f"{told['backend']} on {told['device']}, sums over {told['size']} rank: {told['sums']}")


def _two_share(seen: Seen) -> Verdict:
    if seen.status != 0:
        return Verdict(False, f"status {seen.status}: {last_line(seen.output)}")
    sums = [told["sum"] for told in seen.told]
    return Verdict(sums == [3.0, 3.0], f"two ranks on one GPU: sums {sums}")


def _names(*words: str) -> Callable[[Seen], Verdict]:
    """Make the judge of a run that must fail, and say these words of it."""

    def judge(seen: Seen) -> Verdict:
        missing = [word for word in words if word not in seen.output]
        if seen.status == 0:
            return Verdict(False, "it ended well")
        return Verdict(not missing, f"not said: {missing[0]}" if missing else f"said: {words[-1]}")

    return judge


def _stands_at(function: str, program: str) -> Callable[[Seen], Verdict]:
    """Make the judge of stacks that must name this function and a line of this program."""

    def judge(seen: Seen) -> Verdict:
        place = re.search(rf"{re.escape(program)}:\d+", seen.looked)
        good = place is not None and function in seen.looked
        return Verdict(good, f"{function} at {place[0]}" if good and place else f"stacks say: {last_line(seen.looked)}")

    return judge


def _check(seen: Seen) -> Verdict:
    document = _json_of(seen.output)
    if document is None:
        return Verdict(False, f"no document: {last_line(seen.output)}")
    if not document.get("ranks"):
        return Verdict(False, "no rank was looked at")
    broken = [one for one in document.get("findings", []) if one.get("status") == "broken"]
    if broken:
        return Verdict(False, str(broken[0].get("evidence")))
    notes = [str(one.get("evidence")) for one in document.get("findings", []) if one.get("what") == "GPU health"]
    return Verdict(True, f"nothing is broken; of the GPU: {'; '.join(notes) or 'nothing to say'}")


def _collectives(told: dict[str, Any]) -> Verdict:
    good = told["backend"] == "nccl" and not told["wrong"]
    return Verdict(good, f"{told['count']} collectives over {told['backend']}, wrong: {told['wrong'] or 'none'}")


def _parts(seen: Seen) -> Verdict:
    """Each device part against the published peak; every element of every collective right."""
    document = _json_of(seen.output)
    if document is None:
        return Verdict(False, f"no document: {last_line(seen.output)}")
    wrong = [row["collective"] for row in document["rows"] if row["wrong"]]
    if wrong:
        return Verdict(False, f"wrong elements: {', '.join(wrong)}")
    shares = {one["probe"]: one["of_peak"] for one in document["peaks"]}
    if "gemm" not in shares:
        return Verdict(False, "no matrix product was held against a published peak")
    poor = [f"{name} {share:.0%}" for name, share in shares.items() if not 0.3 <= share <= 1.05]
    told = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
    names = len({row["collective"] for row in document["rows"]})
    right = f"; {names} collectives right" if names else ""
    return Verdict(not poor, f"out of bounds: {', '.join(poor)}" if poor else f"{told}{right}")


def _flight_recorder(seen: Seen) -> Verdict:
    entries = [entry for data in seen.files.values() for entry in _entries(data)]
    waiting = [entry for entry in entries if entry.get("state") != "completed"]
    if not entries:
        return Verdict(False, f"no record of collectives: {last_line(seen.output)}")
    if not waiting or "all_reduce" not in str(waiting[0].get("profiling_name")):
        return Verdict(False, f"{len(entries)} entries, none of a waiting all_reduce")
    return Verdict(seen.status != 0, f"{waiting[0]['profiling_name']} {waiting[0]['state']}, of {len(entries)} entries")


def _entries(data: bytes) -> list[dict[str, Any]]:
    try:
        entries: list[dict[str, Any]] = pickle.loads(data)["entries"]  # noqa: S301  # torch's own record, made here
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError):
        return []
    return entries


def _json_of(text: str) -> dict[str, Any] | None:
    begin = text.find("{")
    try:
        document: dict[str, Any] = json.JSONDecoder().raw_decode(text, begin)[0]
    except ValueError:
        return None
    return document


def judge_cost(times: Mapping[str, Sequence[Mapping[str, float]]]) -> Verdict:
    """Hold Muster's medians against torchrun's and a plain start's: no more than the spread of all."""
    untold = [name for name, runs in times.items() if not runs]
    if untold:
        return Verdict(False, f"no start told its times: {', '.join(untold)}")
    told = []
    good = True
    for what, unit, scale in (("step_s", "ms a step", 1e3), ("first_s", "s to the first collective", 1.0)):
        middle = {name: statistics.median(run[what] for run in runs) for name, runs in times.items()}
        spread = max(max(run[what] for run in runs) - min(run[what] for run in runs) for runs in times.values())
        base = max(value for name, value in middle.items() if name != "muster")
        good = good and math.isfinite(spread) and middle["muster"] <= base + max(spread, 0.02 * base)
        shown = ", ".join(f"{name} {value * scale:.3g}" for name, value in middle.items())
        told.append(f"{shown} {unit} (spread {spread * scale:.2g})")
    return Verdict(good, "; ".join(told))


def _run(program: str, *options: str, words: Sequence[str] = (), gpus: int = 1) -> tuple[str, ...]:
    return ("run", "--here", "-g", str(gpus), *options, "--", "python", f"{{programs}}/{program}.py", *words)


# Muster refuses more ranks than GPUs. Without GPUs in the request each rank sees all that the machine has.
TWO = ("--ntasks-per-node", "2")

PROOFS: tuple[Proof, ...] = (
    Proof(
        "device",
        "the rank's device is chosen before CUDA starts",
        _run("seen"),
        lambda seen: first(seen, _sees_its_device),
    ),
    Proof(
        "device alone",
        "the same where each rank sees one GPU",
        _run("seen", "--visibility", "one"),
        lambda seen: first(seen, _sees_its_device_alone),
    ),
    Proof(
        "training",
        "an unchanged script trains over NCCL as on a CPU",
        _run("train"),
        lambda seen: first(seen, _trains_as_on_cpu),
    ),
    Proof("world", "muster.world() on NCCL", _run("world"), lambda seen: first(seen, _world)),
    Proof(
        "collectives",
        "every collective over NCCL with one rank gives what was sent",
        _run("collectives"),
        lambda seen: first(seen, _collectives),
    ),
    Proof("two ranks", "two ranks share one GPU over gloo", _run("share", *TWO, words=["gloo"], gpus=0), _two_share),
    Proof(
        "two ranks over NCCL",
        "NCCL refuses two ranks on one GPU, and the cause is named",
        _run("share", *TWO, "--env", "NCCL_DEBUG=WARN", words=["nccl"], gpus=0),
        _names("Duplicate GPU", "two ranks of one node use the same GPU"),
    ),
    Proof("check", "muster check sees the GPU and finds it well", ("check", "--here", "-g", "1", "--json"), _check),
    Proof(
        "rates",
        "matrix products and copies, held against the card's published peak",
        ("bench", "--here", "-g", "1", "--json", "--sizes", "1MiB,64MiB"),
        _parts,
        seconds=300.0,
    ),
    Proof(
        "a kernel that hangs",
        "muster stacks names the line that waits for a kernel",
        _run("hang_kernel"),
        _stands_at("synchronize", "hang_kernel.py"),
        look=("stacks", "--here"),
    ),
    Proof(
        "a collective that hangs",
        "the flight recorder has the all_reduce that waits",
        _run(
            "hang_nccl",
            *("--env", "TORCH_NCCL_TRACE_BUFFER_SIZE=1000", "--env", "TORCH_NCCL_DUMP_ON_TIMEOUT=1"),
            *("--env", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE={folder}/flight_"),
        ),
        _flight_recorder,
        files="flight_*",
    ),
    Proof(
        "out of memory",
        "a card that is full is named as the cause",
        _run("out_of_memory"),
        _names("out of memory", "the GPU's memory is full"),
    ),
    Proof(
        "an illegal address",
        "a kernel that touches foreign memory is named as the cause",
        _run("illegal_address"),
        _names("illegal memory access", "a kernel touched memory that is not its own"),
    ),
)
