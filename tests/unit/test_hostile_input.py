"""No text that a program, a file or a person gives ends in anything but a value or a sentence.

A parser gives back a value or raises MusterError; a verb ends with a documented status, never with 70.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import muster
from muster.cli.app import EXIT_BUG, main
from muster.errors import MusterError
from muster.follow.known_causes import read_log
from muster.follow.watch import LogFile
from muster.job.request import options_of
from muster.job.settings import merge_settings
from muster.launchers.mpirun import mpirun_failure
from muster.launchers.torchrun import torchrun_failure
from muster.older import tomllib
from muster.rank.hostlist import expand
from muster.rank.identity import identify, tasks_per_node
from muster.sites.heads import SearchPath
from muster.sites.load import load
from muster.slurm.filenames import glob_of
from muster.slurm.flags import gpus_in_gres, split_flag
from muster.slurm.jobs import parse_job_id, parse_sacct, parse_squeue
from muster.slurm.partitions import count_waiting, parse_sinfo
from muster.slurm.reasons import reason_of
from muster.slurm.srun_messages import read_step
from muster.slurm.states import state_of
from muster.slurm.submit import array_indices, parse_rejection, parse_submit
from muster.units import parse_memory_mib, parse_walltime_s
from muster_bench.history import read_history
from muster_bench.order import parse_bytes, parse_sizes
from muster_bench.results import read_series
from muster_build.pins import pins_of_conda, pins_of_requirements
from muster_build.source import parse_source
from muster_check.ranks.cpulist import cpu_set
from muster_check.ranks.smi import read_nvidia_smi, read_peers, read_rocm_smi, read_xids
from muster_check.survey.draft import node_answers
from plugins.wide import sampled

# Digits that int() takes and Slurm does not, a number that int() refuses to read, a K that casefolds to k.
HOSTILE = (
    *("\u00b2", "\u0663", "\u212a", "9" * 4400, "-" + "9" * 5000, "0-127127127", "1e999", "nan", "\x00", "\udc80"),
    *(
        "",
        " ",
        "\n",
        "-",
        "-1",
        ":",
        ",",
        ";",
        "[",
        "]",
        "(",
        ")",
        "%",
        "=",
        "'",
        '"',
        "{",
        "}",
        "[[",
        "\u2028",
        "\u202e",
    ),
)


def _lines(read: Callable[[Any], Any]) -> Callable[[str], Any]:
    return lambda text: read(text.splitlines())


def _variables(text: str) -> dict[str, str]:
    return dict(line.partition("=")[::2] for line in text.splitlines() if "=" in line)


_SQUEUE = "\x1f".join(["7", "7", "job", "RUNNING", "None", "0:0", "2", "8", "10:00", "1700000000"] + ["1"] * 12)
PARSERS: dict[str, tuple[Callable[[str], Any], str]] = {
    "walltime": (parse_walltime_s, "1-02:03:04"),
    "memory": (parse_memory_mib, "64K"),
    "bytes": (parse_bytes, "64K"),
    "sizes": (parse_sizes, "8-64M"),
    "squeue": (parse_squeue, _SQUEUE),
    "sacct": (parse_sacct, _SQUEUE),
    "sinfo": (parse_sinfo, "gpu*|up|1-00:00:00|4|idle|64|512000|gpu:a100:4(S:0-1)|feature\n"),
    "waiting": (count_waiting, "gpu\ngpu\n"),
    "job id": (parse_job_id, "123_[4-5]"),
    "reason": (reason_of, "QOSGrpGRESRunMinutes"),
    "state": (state_of, "CANCELLED by 1000"),
    "srun": (_lines(read_step), "srun: error: node4: tasks 2-3: Exited with exit code 7"),
    "torchrun": (
        _lines(torchrun_failure),
        "Root Cause (first observed failure):\n  time : 2026\n  host : n1\n  rank : 3\n  exitcode : -9 (pid: 5)",
    ),
    "mpirun": (
        _lines(mpirun_failure),
        (
            "mpirun noticed that process rank 3 with PID 5 on node n1 exited on signal 9\n"
            "  Process name: [[1,1],3]\n  Exit code:    7\n=   PID 5 RUNNING AT n1\n"
        ),
    ),
    "label": (lambda text: LogFile(Path("n1.log")).line(text.encode(errors="replace")), "[1,3]<stdout>:hello"),
    "submit": (parse_submit, "123;cluster"),
    "rejection": (parse_rejection, "sbatch: error: Batch job submission failed: Invalid qos specification"),
    "array": (array_indices, "1,5-7,0-15:4%10"),
    "file name": (lambda text: glob_of(text, {"j": "7"}), "R-%x.%04j.out"),
    "gres": (gpus_in_gres, "gpu:a100:4"),
    "flag": (split_flag, "--signal=B:USR1@90"),
    "host list": (expand, "node[1-4,07]"),
    "tasks per node": (tasks_per_node, "2(x3),1"),
    "identity": (
        lambda text: identify(_variables(text)),
        (
            "SLURM_PROCID=1\nSLURM_NTASKS=2\nSLURM_LOCALID=0\nSLURM_NODEID=1\nSLURM_STEP_TASKS_PER_NODE=1(x2)\n"
            "OMPI_COMM_WORLD_RANK=1\nRANK=1\nWORLD_SIZE=2"
        ),
    ),
    "CPU set": (cpu_set, "0-5,48-53"),
    "nvidia-smi": (read_nvidia_smi, "GPU 00000000:07:00.0\n  Volatile\n    DRAM Uncorrectable : 3\n  Process ID : 7"),
    "peers": (read_peers, "        GPU0    GPU1\n GPU0    X    NV12\n GPU1    NV12    X"),
    "rocm-smi": (read_rocm_smi, "GPU[0] : PCI Bus: 0000:C1:00.0\nGPU[0] ue 3"),
    "Xid": (read_xids, "NVRM: Xid (PCI:0000:07:00): 79, pid=1, GPU has fallen off the bus."),
    "log": (
        lambda text: list(read_log([line.encode(errors="replace") for line in text.splitlines()]).lines()),
        (
            "1: n1:42:43 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [send] via NET/AWS Libfabric/0/GDRDMA\n"
            "n1:42:43 [0] NCCL INFO comm 0x1 rank 1 nranks 2 nNodes 2"
        ),
    ),
    "bench lines": (_lines(read_series), 'muster-bench {"kind":"row","size":8}'),
    "bench history": (_lines(read_history), '{"site": "lumi", "nodes": 2}'),
    "requirements": (lambda text: list(pins_of_requirements(text)), "torch==2.13.0+cu128 --hash=sha256:0"),
    "conda": (lambda text: list(pins_of_conda(text)), "dependencies:\n  - python=3.11\n  - pip:\n    - torch==2.1"),
    "source": (parse_source, "docker://nvcr.io/nvidia/pytorch:22.01-py3"),
    "settings": (
        lambda text: merge_settings([("muster.toml", text)], {}),
        'nodes = 2\ntime = "10"\n[environment]\nA = "1"\n',
    ),
    "settings of the environment": (lambda text: merge_settings([], {"MUSTER_NODES": text}), "2"),
    "node's answers": (node_answers, "muster-fact cpus\n64\n"),
    **{
        f"option {name}": (option.parse, "2")
        for name, option in options_of().items()
        if option.metavar is not None and option.choices is None
    },
}


@st.composite
def _mutated(draw: st.DrawFn, seed: str) -> str:
    text = seed
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 6)))
        text = text[:start] + draw(st.sampled_from(HOSTILE) | st.text(max_size=4)) + text[end:]
    return text


@pytest.mark.parametrize("name", PARSERS)
def test_a_parser_takes_or_refuses_hostile_text(name: str) -> None:
    for text in HOSTILE:
        try:
            PARSERS[name][0](text)
        except MusterError:
            continue


@pytest.mark.parametrize("name", sampled(PARSERS, keep=5))
@settings(suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_parser_gives_a_value_or_a_sentence(name: str, data: st.DataObject) -> None:
    read, seed = PARSERS[name]
    text = data.draw(_mutated(seed))
    try:
        read(text)
    except MusterError:
        return


@pytest.mark.parametrize("name", sampled(PARSERS, keep=lambda name: name != "log"))
def test_each_number_of_a_text_may_be_any_number(name: str) -> None:
    """Numbers are what parsers compute with: each one in turn becomes one that nobody expects."""
    read, seed = PARSERS[name]
    for text in _with_other_numbers(seed):
        try:
            read(text)
        except MusterError:
            continue


def _with_other_numbers(seed: str) -> Iterator[str]:
    places = [index for index, letter in enumerate(seed) if letter.isdigit()]
    for place in places:
        for other in HOSTILE[:8]:
            yield seed[:place] + other + seed[place + 1 :]


# --- whole files ----------------------------------------------------------------------------------------------------


def _damaged(value: Any, chance: random.Random) -> Any:
    """The same tree with one leaf or branch replaced by something of another kind."""
    spots = list(_spots(value))
    holder, key = chance.choice(spots)
    holder[key] = chance.choice([None, True, -1, 10**30, 1.5, "", "x", "²", [], [[]], {}, {"a": 1}, "9" * 4400])
    return value


def _spots(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in list(items):
        yield value, key
        yield from _spots(inner)


SITE = tomllib.loads((Path(muster.__file__).parent / "sites/data/lumi.toml").read_text())


@pytest.mark.parametrize("start", sampled(range(4), keep=4))
def test_a_damaged_profile_is_read_or_refused(start: int, tmp_path: Path) -> None:
    chance = random.Random(start)  # noqa: S311
    for number in range(40):
        table = {key: value for key, value in json.loads(json.dumps(SITE, default=str)).items() if key != "facts"}
        file = tmp_path / f"site{number}.toml"
        file.write_text(_as_toml(_damaged(table, chance)))
        try:
            load(str(file), SearchPath())
        except MusterError:
            continue


def _as_toml(table: dict[str, Any]) -> str:
    """The table as TOML: every value inline, which TOML allows at the top."""
    return "".join(f"{json.dumps(key)} = {_inline(value)}\n" for key, value in table.items())


def _inline(value: Any) -> str:
    if value is None:
        return "nan"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_inline, value)) + "]"
    return json.dumps(value)


# --- command lines --------------------------------------------------------------------------------------------------

_LINES = (
    "plan --site lumi -A project_1 -N 2 -g 8 -t 30 -- python x.py",
    "plan -N 2 --ntasks-per-node 2 --launcher torchrun --port-range 40000-40010 -- python x.py",
    "plan --site horeka -N 1 -c 4 --mem 64G --array 0-3 -o R-%x.%j.out --sbatch=--signal=USR1@90 -- python x.py",
    "check --log no-such.log",
    "check --read no-such.json",
    "bench --read no-such.txt --sizes 8B..16MiB",
    "site show lumi --set memory.mem=400G",
    "site show lumi --why",
    "run --rehearse --ranks 4 --site lumi -- python x.py",
    "status 12",
    "why 12 --json",
    "logs 12 --rank 3",
    "cancel 12",
    "completion bash",
    "run --here --ntasks-per-node 2 --grace 3 --master-port 40000",
    "build lock --requirements r.txt",
    "stage no-such",
)


def _hostile_command(chance: random.Random) -> list[str]:
    words = chance.choice(_LINES).split()
    for _ in range(chance.randint(1, 2)):
        place = chance.randrange(len(words))
        word = words[place]
        other = chance.choice([each for each in HOSTILE if "\x00" not in each])
        words[place] = chance.choice([other, word + other, other + word, word[:2] + other, word.upper()])
    return words


@pytest.mark.parametrize("start", sampled(range(6), keep=6))
def test_no_command_line_ends_as_a_bug(
    start: int, tmp_path: Path, capsysbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of this starts a job: no Slurm is on PATH, and the commands are mutilated before they are run."""
    chance = random.Random(start)  # noqa: S311
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    for _ in range(60):
        words = _hostile_command(chance)
        try:
            status = main(words)
        except SystemExit as left:  # argparse's own way out
            status = int(left.code or 0)
        said = capsysbinary.readouterr()
        assert status != EXIT_BUG, (words, said.err)
        assert b"Traceback" not in said.err, words
