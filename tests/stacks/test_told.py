"""What `top`, `why` and `site check` say of what was seen, each condition by the smallest picture."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from muster.act.record import Run
from muster.errors import MusterError, RequestError
from muster.follow.cases import JobCase
from muster.follow.heard import Accounting, Heard
from muster.sites.load import load
from muster.sites.schema import Profile
from muster.slurm.jobs import SlurmJob
from muster.slurm.reasons import reason_of
from muster.slurm.states import state_of
from muster_check.stacks import why
from muster_check.stacks.condition import JobCondition
from muster_check.stacks.judge import Verdict, judge
from muster_check.stacks.move import Doing, Movement
from muster_check.stacks.read import Frame, RankStack, Round, read_rounds
from muster_check.stacks.record import read_record
from muster_check.survey.verify import _containers, _fabric, _launch, _network, unlisted
from muster_check.verbs import check, top
from muster_check.verbs.top import _clock, _Top

_FRAME = Frame("step", "/a/train.py", 12)
_JOB = SlurmJob("7", "7", "train", state_of("RUNNING"), reason_of("None"), node_list="n[1-2]", nodes=2, started=1000)


def _ranks(*labels: str) -> tuple[Movement, ...]:
    made = []
    for label in labels:
        role, _, rank = label.rpartition(".")
        threads = (("worker", (_FRAME,)), ("MainThread", (_FRAME,)))
        stack = RankStack(int(rank), 4, "n1", 100, "S", (_FRAME,), threads, role=role)
        made.append(Movement(stack, Doing.MOVES, 0.5, 0.0))
    return tuple(made)


def _top(*labels: str, case: JobCase | None = None, rounds: tuple[Round, ...] = ()) -> _Top:
    looks = SimpleNamespace(movements=lambda: _ranks(*labels), rounds=lambda: rounds, looks=[1])
    watch: Any = SimpleNamespace(looks=looks, said=lambda: "", status=0)
    return _Top(case or JobCase("7", _JOB, None), watch)


@pytest.mark.parametrize(
    ("keys", "chosen", "page"),
    [
        ("", "0", ""),
        ("j", "1", ""),
        ("jj", "2", ""),
        ("jjj", "0", ""),
        ("k", "2", ""),
        ("jk", "0", ""),
        ("s", "0", "s"),
        ("ss", "0", ""),
        ("sl", "0", "l"),
        ("sx", "0", ""),
        ("js", "1", "s"),
        ("sj", "1", "s"),
    ],
)
def test_keys_choose_a_rank_and_a_page(keys: str, chosen: str, page: str) -> None:
    screen = _top("0", "1", "2")
    screen.screen()
    for key in keys:
        screen.press(key)
    screen.press("")
    assert (screen.chosen, screen.page) == (chosen, page)


def test_arrows_are_keys_and_a_rank_that_is_gone_is_left_for_the_next() -> None:
    screen = _top("0", "1")
    screen.press("\x1b[B")
    assert screen.chosen == "1"
    screen.press("\x1b[A")
    assert screen.chosen == "0"
    screen.chosen = "gone"
    screen.press("j")
    assert screen.chosen == "1"
    empty = _top()
    empty.press("j")
    assert (empty.chosen, empty.page) == ("", "")


def test_the_title_tells_what_is_known_of_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1060.0)
    assert _top("0", "1").screen().title == "job 7 train  2 of 4 ranks on 2 nodes  runs 0:01:00"
    limited = JobCase("7", replace(_JOB, nodes=1, time_limit_s=3660), None)
    assert _top(case=limited).screen().title == "job 7 train  0 of 0 ranks on 1 node  runs 0:01:00  1:00:00 left"
    begins = JobCase("7", replace(_JOB, started=1100, time_limit_s=10), None)
    assert _top(case=begins).screen().title.endswith("runs 0:00:00  0:00:10 left")
    assert _top(case=JobCase("7", replace(_JOB, started=None), None)).screen().title.endswith("on 2 nodes")
    assert _clock(3661) == "1:01:01"


def test_two_roles_have_their_own_sizes_and_a_page_has_their_stacks() -> None:
    screen = _top("a.0", "b.0")
    shown = screen.screen()
    assert "2 of 8 ranks" in shown.title
    assert (shown.size, shown.chosen) == (4, "a.0")
    assert shown.sentence == "the first look …"
    screen.press("s")
    page = screen.screen().page
    assert page[0] == "rank a.0: process 100 on n1"
    assert page[1:4] == ("thread MainThread", "    step (/a/train.py:12)", "thread worker")
    screen.chosen = "c.0"
    assert screen.screen().page == ("rank c.0 has no process",)


def test_the_sentence_is_judged_from_the_second_look_on() -> None:
    looks = "".join(f"@node 0 n1 {look} {100 + look}.0\n@done 0\n" for look in (1, 2))
    rounds = tuple(read_rounds(looks))
    assert _top(rounds=rounds[:1]).screen().sentence == "the first look …"
    assert _top(rounds=rounds[:2]).screen().sentence != "the first look …"
    same = (rounds[0], rounds[0])
    assert _top(rounds=same).screen().sentence == "the first look …"


def _logged(folder: Path, **files: str) -> JobCase:
    (folder / "logs").mkdir()
    for name, text in files.items():
        (folder / "logs" / f"{name}.log").write_text(text)
    return JobCase("7", _JOB, Run("7", folder, "train"))


def test_the_last_lines_of_the_chosen_rank_are_a_page(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(
        '{"shape": {"nodes": 2, "ntasks_per_node": 2}, "label": true, "output": "files", "launcher": "srun"}'
    )
    screen = _top("0", "1", case=_logged(tmp_path, n1="0: a\n1: b\n0: c\n"))
    shown = screen.screen()
    assert shown.last_line == "last output: 0: c"
    screen.press("l")
    assert screen.screen().page == ("rank 0: its last lines, the newest first", "0: c", "0: a")
    unknown = JobCase("7", replace(_JOB, stdout=None), None)
    assert _top(case=unknown).screen().last_line == "no line of its output is to be seen here"


def test_no_look_and_no_rank_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    case = JobCase("7", _JOB, None)
    none: Any = SimpleNamespace(looks=SimpleNamespace(looks=[]), said=lambda: "srun: error: x", status=1)
    with pytest.raises(MusterError, match=r"srun: error: x|did not|not be"):
        top._check(case, none)
    no_rank: Any = SimpleNamespace(looks=SimpleNamespace(looks=[1], movements=lambda: (), rounds=lambda: ()))
    with pytest.raises(RequestError, match="no rank was found"):
        top._check(case, no_rank)
    top._check(case, cast(Any, _top("0").watch))
    del monkeypatch


# --- why a job runs and does nothing ---


def _verdict(kind: JobCondition, where: Frame | None = None) -> Verdict:
    return Verdict(kind, f"it is {kind.name}", (3,), "n1", where)


_HANG = next(kind for kind in JobCondition if kind.is_hang)
_WORK = next(kind for kind in JobCondition if not kind.is_hang)


@pytest.mark.parametrize("kind", [_HANG, _WORK])
def test_why_tells_the_sentence_the_line_and_what_to_do_about_a_hang(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: JobCondition
) -> None:
    (tmp_path / "t.py").write_text("one\ntwo  \n")
    case = _logged(tmp_path, batch="hello\n")
    verdicts = [
        _verdict(kind),
        _verdict(kind, Frame("f", str(tmp_path / "t.py"), 2)),
        _verdict(kind, Frame("f", "/gone.py", 9)),
    ]
    told = []
    for verdict in verdicts:
        monkeypatch.setattr(why, "look_at_ranks", lambda _, verdict=verdict: (verdict, ("torch says",)))
        told.append(list(why.explain_running(case)))
    assert [lines[0] for lines in told] == [f"  it is {kind.name}"] * 3
    assert told[1][1].endswith("t.py:2 | two")
    assert told[2][1] == "    /gone.py:9"
    assert "  torch says" in told[0]
    assert any(line.startswith("  last output 0 s ago: hello") for line in told[0])
    assert any("hint:" in line for line in told[0]) is kind.is_hang
    document = why.as_json(case)
    assert document is not None
    place = (document["file"], document["line"], document["ranks"], document["stands"])
    assert place == ("/gone.py", 9, [3], kind.is_hang)
    assert (document["remedy"] is not None) is kind.is_hang
    assert "role" not in document


def test_why_says_that_ranks_cannot_be_looked_at(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(_: JobCase) -> None:
        raise RequestError("no srun here", hint="x")

    monkeypatch.setattr(why, "look_at_ranks", refuse)
    case = _logged(tmp_path)
    assert list(why.explain_running(case)) == ["  its ranks cannot be looked at: no srun here"]
    assert why.as_json(case) is None


@pytest.mark.parametrize(
    ("heard", "state", "words"),
    [
        (Heard(silent=True, accounting=Accounting.ANSWERED), "RUNNING", "at: the Slurm controller does not answer"),
        (Heard(silent=False, accounting=Accounting.ANSWERED), "RUNNING", "srun ended"),
        (Heard(silent=False), "RUNNING", "srun ended"),
        (Heard(), "RUNNING", "srun ended"),
        (Heard(), "SUSPENDED", "at: a suspended job starts no step"),
    ],
)
def test_no_step_is_tried_where_none_would_start(
    heard: Heard, state: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each srun waited for it: 52 s for three tasks and a silent controller on a lab, 62 s for a suspended job."""
    asked: list[str] = []

    def ask(job: str, *_: Any) -> list[Any]:
        asked.append(job)
        raise RequestError("srun ended", hint="x")

    monkeypatch.setattr("muster_check.stacks.ask.ask_job", ask)
    case = _logged(tmp_path)._replace(heard=heard, job=replace(_JOB, state=state_of(state)))
    (line,) = why.explain_running(case)

    assert bool(asked) is (words == "srun ended")
    assert line.endswith(words)


@pytest.mark.parametrize(
    ("files", "words", "is_hang"),
    [
        ({}, "its ranks have not started", False),
        (
            {"1.0": "0 begins\n0 0\n", "1.1": "1 begins\n1 0\n"},
            "RANK: 2 ranks said that they ended",
            False,
        ),
        (
            {"1.0": "0 begins\n0 0\n", "1.1": "1 begins\n"},
            "and those on n2 began and said no more: the node was started again, a slurmstepd killed, or their command",
            False,  # ranks of `env -i` run on
        ),
        ({"1.1": "1 begins\n"}, "RANK, though those on n2 have begun", False),
        ({"2.0": "0 begins\n", "2.1": "1 begins\n"}, "its ranks have not started", False),
    ],
    ids=["none began", "all ended", "one is lost", "one began", "another attempt"],
)
def test_ranks_that_had_begun_are_not_said_not_to_have_started(
    files: dict[str, str], words: str, is_hang: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Seen on a lab: a host was started again within five seconds, Slurm kept the step, and its rank was gone."""
    monkeypatch.setattr("muster_check.stacks.ask.ask_job", lambda *_: "")
    monkeypatch.setattr("muster_check.stacks.judge.judge_job", lambda *_: judge([], 2))
    (tmp_path / "ranks/7.1.1").mkdir(parents=True)
    for name, text in files.items():
        (tmp_path / "ranks/7.1.1" / name).write_text(text)
    (tmp_path / "ranks/7.0.2").mkdir()  # of an earlier start: clean takes such a folder away, or touches it
    lines = list(why.explain_running(_logged(tmp_path)))

    assert words in lines[0]
    assert any("hint:" in line for line in lines) is is_hang


def test_of_output_that_is_not_there_it_is_said_why(tmp_path: Path) -> None:
    def told(**fields: Any) -> list[str]:
        return list(why._last_output(JobCase("7", replace(_JOB, **fields), None)))

    assert told(stdout=None) == ["no file of its output is to be seen here"]
    assert told(stdout="/dev/null") == ["its output is not kept: it goes to /dev/null"]
    (tmp_path / "7.out").touch()
    assert told(stdout=str(tmp_path / "7.out")) == ["nothing was written yet"]
    (tmp_path / "7.out").write_text("x" * 500)
    (line,) = told(stdout=str(tmp_path / "7.out"))
    assert re.fullmatch(r"last output \d s ago: x{120}", line)
    os.utime(tmp_path / "7.out", (0, time.time() - 200))
    assert told(stdout=str(tmp_path / "7.out"))[0].startswith("last output 3 min ago")


@pytest.mark.parametrize(("seconds", "age"), [(99.4, "99 s"), (100, "2 min"), (5999, "100 min"), (6000, "1.7 h")])
def test_an_age_has_the_unit_that_suits_it(seconds: float, age: str) -> None:
    assert why._age(seconds) == age


# --- a profile held against what was seen ---

_GENERIC = load("generic").profile


def _of(**parts: dict[str, Any]) -> Profile:
    changes = {name: replace(getattr(_GENERIC, name), **fields) for name, fields in parts.items()}
    return replace(_GENERIC, **changes)


@pytest.mark.parametrize(
    ("says", "seen", "keys"),
    [
        ({"mpi": "pmix"}, {"mpi_types": ("pmix", "none")}, []),
        ({"mpi": "pmi2"}, {"mpi_types": ("pmix", "none")}, ["launch.mpi"]),
        ({"mpi": None}, {"mpi_types": ("pmix",)}, []),
        ({"mpi": "pmi2"}, {"mpi_types": ()}, []),
        ({"mpi_types": ("pmix", "cray")}, {"mpi_types": ("pmix",)}, ["launch.mpi_types"]),
        ({"mpi": "cray", "mpi_types": ("pmix", "cray")}, {"mpi_types": ("pmix",)}, ["launch.mpi"]),
        ({"mpi_types": None}, {"mpi_types": ("pmix",)}, []),
    ],
)
def test_an_mpi_type_that_srun_does_not_list_is_found(
    says: dict[str, Any], seen: dict[str, Any], keys: list[str]
) -> None:
    assert [key for key, *_ in _launch(_of(launch=says), _of(launch=seen))] == keys


@pytest.mark.parametrize(
    ("says", "seen", "keys"),
    [
        ({"kind": "infiniband"}, {"kind": "slingshot"}, ["fabric.kind"]),
        ({"kind": "infiniband"}, {"kind": "infiniband"}, []),
        ({"kind": None}, {"kind": "slingshot"}, []),
        ({"kind": "infiniband"}, {"kind": None}, []),
        ({"interfaces": ("ib0", "ib1")}, {"interfaces": ("ib0",)}, ["fabric.interfaces"]),
        ({"interfaces": ("ib0",)}, {"interfaces": ("ib0", "ib1")}, []),
        ({"interfaces": ("ib0",)}, {"interfaces": None}, []),
        ({"hcas": ("mlx5_0",)}, {"hcas": ("mlx5_1",)}, ["fabric.hcas"]),
        ({"hcas": None}, {"hcas": ("mlx5_1",)}, []),
    ],
)
def test_a_fabric_that_a_node_does_not_show_is_found(
    says: dict[str, Any], seen: dict[str, Any], keys: list[str]
) -> None:
    assert [key for key, *_ in _fabric(_of(fabric=says), _of(fabric=seen))] == keys


@pytest.mark.parametrize(
    ("says", "seen", "is_wrong"),
    [
        ("open", "none", True),
        ("nat", "open", False),
        ("none", "none-even-login", False),
        ("none", "nat", True),
        ("proxy", "none", False),
        ("open", None, False),
        (None, "none", False),
    ],
)
def test_a_way_out_that_is_not_there_is_found(says: str | None, seen: str | None, is_wrong: bool) -> None:
    misfits = list(_network(_of(network={"internet": says}), _of(network={"internet": seen})))
    assert bool(misfits) is is_wrong


def test_an_engine_that_a_node_does_not_have_is_found_unless_a_module_brings_it() -> None:
    site = load("lumi").profile
    (name, container) = next((name, each) for name, each in site.containers.items())
    podman = replace(container, engine="podman")
    says = replace(_GENERIC, containers={name: replace(container, modules=())})
    assert [key for key, *_ in _containers(says, replace(_GENERIC, containers={"x": podman}))] == [f"containers.{name}"]
    assert list(_containers(says, replace(_GENERIC, containers={}))) == []
    assert list(_containers(says, replace(_GENERIC, containers={"x": replace(container, modules=())}))) == []
    brought = replace(_GENERIC, containers={name: replace(container, modules=("x",))})
    assert list(_containers(brought, replace(_GENERIC, containers={"x": podman}))) == []


def test_queues_that_a_profile_with_queues_lacks_are_named() -> None:
    cluster: Any = SimpleNamespace(partitions=[SimpleNamespace(name=name) for name in ("b", "standard-g", "a")], qos=[])
    assert unlisted(load("lumi").profile, cluster) == {"partitions": ["a", "b"]}
    assert unlisted(_GENERIC, cluster) == {}
    cluster.partitions = cluster.partitions[1:2]
    assert unlisted(load("lumi").profile, cluster) == {}


# --- files ---


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "does not hold the facts"),
        ("{}", "does not hold the facts"),
        ('{"muster_check": 2}', "does not hold the facts"),
        ('{"muster_check": 1}', "is not whole"),
        ('{"muster_check": 1, "ranks": [], "login": null, "expected": 3}', "is not whole"),
        ("{", "is not JSON"),
    ],
)
def test_a_file_that_is_no_saved_check_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "file").write_text(text)
    with pytest.raises(RequestError, match=says):
        check._saved(tmp_path / "file")
    with pytest.raises(RequestError, match="No such file"):
        check._saved(tmp_path / "gone")
    (tmp_path / "file").write_text('{"muster_check": 1, "ranks": [], "login": null, "expected": {}}')
    assert check._saved(tmp_path / "file").ranks == ()


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('json [{"entries": []}]', 0),
        ('json [{"entries": 3}, [], {"other": 1}]', 0),
        ("json [", None),
        ("pickle ?", None),
        ("pickle AAAA", None),
    ],
)
def test_a_record_that_is_none_is_none(text: str, count: int | None) -> None:
    record = read_record(text)
    assert (None if record is None else len(record)) == count
