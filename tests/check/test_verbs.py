"""What `site check`, `stacks` and `top` make of answers: one row for each condition that decides something."""

from __future__ import annotations

import json
import os
import pty
import sys
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from muster.cli.command_line import TypedLaunch, Words
from muster.errors import RequestError, SiteError
from muster.follow.cases import JobCase
from muster.job.options import Typed
from muster.probe.judge import Point
from muster.rank.finding import BROKEN, Finding
from muster.runner import ProgramResult
from muster.slurm.jobs import SlurmJob
from muster.slurm.reasons import reason_of
from muster.slurm.states import state_of
from muster_check.ranks.facts import world_of
from muster_check.stacks import ask as ask_stacks
from muster_check.stacks import stream
from muster_check.stacks.pulse import FORBIDDEN, NO_SPY
from muster_check.stacks.read import ProgramOfRank, RankStack
from muster_check.survey import ask as ask_cluster
from muster_check.survey import nodes, verify
from muster_check.survey.draft import CLUSTER, Survey
from muster_check.survey.verify import SLURM_SAYS, WrongFact
from muster_check.verbs import check, site, stacks, top
from sites.profiles import bundled
from slurm.clusters import cluster, partition_line

from .worlds import healthy

_OF_SITE = {"job": None, "srun": (), "reach": None, "json": False}


def _words(*operands: str, **values: Any) -> Words:
    return Words("verb", {**_OF_SITE, **values}, TypedLaunch({}, {}, (), ()), Typed({}, {}, operands, ()))


def _wrong(by: str = SLURM_SAYS, value: str | None = None) -> WrongFact:
    return WrongFact("memory.mem", "9G", by, "8G", bundled("lumi").origin("memory.policy"), value)


@pytest.mark.parametrize(
    ("keys", "named"),
    [(["a.b", "a.c"], "a.b, a.c"), (["a.b", "a.c", "d.e", "a.f"], "a (3), d.e"), (["a"], "a")],
)
def test_a_table_of_many_keys_is_named_once(keys: list[str], named: str) -> None:
    assert site._by_table(keys) == named


@pytest.mark.parametrize(("text", "ok"), [(None, True), ("www.example.org", True), ("a b", False), ("", False)])
def test_a_host_to_reach_has_a_name(text: str | None, ok: bool) -> None:
    with nullcontext() if ok else pytest.raises(RequestError, match="is not the name of a host"):
        assert site._host(text) == text


_REFUSED = {CLUSTER: "no answer"}


@pytest.mark.parametrize(
    ("refused", "findings", "unproved", "status", "told"),
    [
        ({}, 0, "", 0, ""),
        ({}, 1, "", 1, ""),
        (_REFUSED, 0, "", 3, "did not answer all"),
        (_REFUSED, 1, "", 1, ""),
        ({"sdiag": "x"}, 0, "", 0, ""),
        ({}, 0, "two compute nodes", 3, "--srun=FLAG gives"),
    ],
)
def test_the_status_of_a_check_says_whether_a_fact_is_wrong_or_not_known(
    capsys: pytest.CaptureFixture[str], refused: dict[str, str], findings: int, unproved: str, status: int, told: str
) -> None:
    survey = Survey("2026-11-28", "login", refused={key: text for key, text in refused.items() if key != "sdiag"})
    assert site._status(survey, [_wrong()] * findings, unproved=unproved) == status
    said = capsys.readouterr().err
    assert (told in said) if told else not said


_CLUSTER = cluster([partition_line("batch", Default="YES")], [])


@pytest.mark.parametrize(
    ("survey", "words", "asked", "told"),
    [
        ({}, {}, None, "Slurm answers nothing here"),
        ({"answers": {"place": "x"}}, {}, None, "Slurm answers nothing here"),
        ({"answers": {"place": "x", CLUSTER: "y"}}, {}, None, "the login node alone was asked"),
        ({"cluster": _CLUSTER}, {}, None, "the login node alone was asked"),
        ({"cluster": _CLUSTER, "node": {"a": "b"}}, {}, None, ""),
        ({"cluster": _CLUSTER, "refused": {"node": "x"}}, {}, None, "not answered: "),
        ({"cluster": _CLUSTER, "refused": {"modules": "x"}}, {}, None, "the login node alone was asked"),
        ({"cluster": _CLUSTER, "node": {"a": "b"}}, {"job": True}, (), ""),
        ({"cluster": _CLUSTER, "node": {"a": "b"}}, {"srun": ("-Ax",)}, ("-Ax",), ""),
        ({"cluster": _CLUSTER, "node": {"a": "b"}}, {"reach": "www.example.org"}, (), ""),
    ],
)
def test_a_cluster_is_asked_as_far_as_was_typed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    survey: dict[str, Any], words: dict[str, Any], asked: tuple[str, ...] | None, told: str,
) -> None:  # fmt: skip
    seen: list[Any] = []

    def answer(_: object, *, job: Any, reach: Any) -> Survey:
        seen.append(job)
        return Survey("2026-11-28", "login", **survey)

    monkeypatch.setattr(ask_cluster, "survey", answer)
    with pytest.raises(SiteError, match=told) if told.startswith("Slurm") else nullcontext():
        assert site._survey(_words(**words)).host == "login"
        said = capsys.readouterr().err
        assert (told in said) if told else not said
        assert told != "not answered: " or "login node alone" not in said
    assert seen == [asked]


@pytest.mark.parametrize(
    ("findings", "words", "status", "lines", "said", "unsaid"),
    [
        ([], {}, 0, [], "what could be asked of lumi holds", "if the site has changed"),
        ([_wrong()], {}, 1, ["memory.mem"], "1 fact does not hold at lumi", "for one command"),
        ([_wrong()], {}, 1, ["memory.mem"], "plans here follow Slurm already", ""),
        ([_wrong("a node shows")], {}, 1, ["memory.mem"], "if the site has changed, tell us", "follow Slurm already"),
        ([_wrong(value="8G")] * 2, {}, 1, ["for one command: --site-set memory.mem=8G"], "2 facts do not hold", ""),
        ([], {"job": True}, 1, ["launch"], "1 fact does not hold", ""),
        ([], {"srun": ("-Ax",)}, 1, ["launch"], "1 fact does not hold", ""),
    ],
)
def test_a_check_of_a_site_tells_each_fact_that_does_not_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    findings: list[WrongFact], words: dict[str, Any], status: int, lines: list[str], said: str, unsaid: str,
) -> None:  # fmt: skip
    survey = Survey("2026-11-28", "login", cluster=_CLUSTER, node={"a": "b"})
    proved: list[tuple[str, Any]] = []

    def prove(_: object, name: str, flags: Any) -> tuple[str, list[WrongFact]]:
        proved.append((name, flags))
        return "", [WrongFact("launch", "right", "the launch shows", "wrong", bundled("lumi").origin("launch"))]

    monkeypatch.setattr(site, "_survey", lambda _: survey)
    monkeypatch.setattr(site, "_prove", prove)
    monkeypatch.setattr(verify, "verify", lambda *_: list(findings))
    assert site._check(_words("lumi", **words)) == status
    out, err = capsys.readouterr()
    assert all(line in out for line in lines)
    assert said in err
    assert not unsaid or unsaid not in out + err
    assert proved == ([("lumi", words.get("srun", ()))] if words else [])
    assert not findings or f"if it is broken: {bundled('lumi').profile.help.support}" in err
    assert site._check(_words("lumi", **{**words, "json": True})) == status
    assert len(json.loads(capsys.readouterr().out)["findings"]) == len(findings) + bool(words)


@pytest.mark.parametrize("words", [{}, {"job": True}, {"srun": ("-Ax",)}])
def test_a_report_holds_what_a_job_proved(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: dict[str, Any]
) -> None:
    monkeypatch.setattr(site, "_survey", lambda _: Survey("2026-11-28", "login", cluster=_CLUSTER, node={"a": "b"}))
    names: list[str] = []

    def prove(_: object, name: str, __: object) -> tuple[str, list[WrongFact]]:
        names.append(name)
        return "two compute nodes", []

    monkeypatch.setattr(site, "_prove", prove)
    for typed in (("lumi",), ()):
        assert site._report(_words(*typed, **words)) == (3 if words else site._status(Survey("d", "h")))
        assert "attach it to an issue" in capsys.readouterr().err
        site._check(_words(*typed, **words))
        capsys.readouterr()
    assert names == (["lumi", "lumi", "generic", "generic"] if words else [])


@pytest.mark.parametrize("answers", [{}, {"n1": {}}])
def test_two_nodes_that_did_not_answer_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answers: dict[str, Any]
) -> None:
    monkeypatch.setattr(ask_cluster, "ask_two_nodes", lambda *_: (answers, "no room"))
    monkeypatch.setattr(nodes, "findings_of_nodes", lambda *_: [_wrong()])
    monkeypatch.setattr(site, "_launched", lambda *_: [_wrong(), _wrong()])
    unproved, wrong = site._prove(bundled("lumi"), "lumi", ())
    assert (unproved, len(wrong)) == (("", 3) if answers else ("two compute nodes", 0))
    assert ("no room" in capsys.readouterr().err) is not bool(answers)


@pytest.mark.parametrize(
    ("answers", "stderr", "seen"),
    [
        ([], "", ["status 1"]),
        ([], "srun: error: no such account\n\n", ["srun: error: no such account"]),
        ([SimpleNamespace()], "noise\n", ["wrong"]),
    ],
)
def test_a_launch_of_two_nodes_shows_what_is_wrong(
    monkeypatch: pytest.MonkeyPatch, answers: list[Any], stderr: str, seen: list[str]
) -> None:
    from muster.probe import judge, text

    monkeypatch.setattr("muster.runner.run", lambda argv, **_: ProgramResult(tuple(argv), 1, "", stderr))
    monkeypatch.setattr(text, "parse", lambda _: answers)
    monkeypatch.setattr(judge, "stopped_at", lambda *_: None)
    monkeypatch.setattr(judge, "judge", lambda *_: [Point(ok=True, text="fine"), Point(ok=False, text="wrong")])
    wrong = site._launched(bundled("generic"), "generic", ())
    assert [fact.seen for fact in wrong] == seen


@pytest.mark.parametrize(
    ("rank", "programs", "message"),
    [
        (None, [], "no rank was found"),
        (3, [], "rank 3 was not found"),
        (None, [ProgramOfRank(0, 1, "n1", "a.out")], "there is no stack to show"),
    ],
)
def test_why_there_is_no_stack_is_said(rank: int | None, programs: list[ProgramOfRank], message: str) -> None:
    error = stacks._no_stack(rank, programs, "on n1: ")
    assert message in str(error)
    assert str(error).endswith(" 3") is (rank == 3)


@pytest.mark.parametrize(
    ("trouble", "hint"), [(FORBIDDEN, "--stacks-ready"), (NO_SPY, "py-spy"), ("it has ended", None), (None, None)]
)
def test_what_keeps_a_stack_from_being_seen_has_its_hint(
    capsys: pytest.CaptureFixture[str], trouble: str | None, hint: str | None
) -> None:
    stacks._warn([RankStack(0, 1, "n1", 7, "S", trouble=trouble)] * 2)
    said = capsys.readouterr().err
    assert said.count("warning: ") == bool(trouble)
    assert ("hint: " in said) is bool(hint)
    assert not hint or hint in said


@pytest.mark.parametrize("jobs", [[], ["a", "b"]])
def test_all_that_runs_here_is_asked(monkeypatch: pytest.MonkeyPatch, jobs: list[str]) -> None:
    monkeypatch.setattr(ask_stacks, "jobs_here", lambda: jobs)
    monkeypatch.setattr(ask_stacks, "find_spy", lambda _: None)
    monkeypatch.setattr(ask_stacks, "ask_here", lambda job, question: f"{job}{question.records};")
    with nullcontext() if jobs else pytest.raises(RequestError, match="nothing that muster run has started"):
        assert stacks._ask_here(None, ()) == "aTrue;bTrue;"


@pytest.mark.parametrize(
    ("out", "typed", "every", "rounds", "gap"),
    [(True, True, None, 1_000_000, 10), (True, True, 3, 1_000_000, 3), (True, False, 3, 2, 1), (False, True, 3, 2, 1)],
)
def test_top_is_live_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, out: bool, typed: bool, every: int | None, rounds: int, gap: int
) -> None:
    job = SlurmJob("7", "7", "train", state_of("RUNNING"), reason_of("None"), node_list="n1")
    asked: list[Any] = []
    ended: list[bool] = []

    class _Watch:
        def __init__(self, job: str, nodes: Any, environment: Any, question: Any) -> None:
            asked.append(question)

        def end(self) -> None:
            ended.append(True)

    monkeypatch.setattr(stream, "StepWatch", _Watch)
    monkeypatch.setattr(top, "ids_or_newest", lambda _: ["7"])
    monkeypatch.setattr(top, "ask", lambda _: None)
    monkeypatch.setattr(top, "cases", lambda *_: [JobCase("7", job, None)])
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(isatty=lambda: out))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: typed))
    monkeypatch.setattr(top, "_live", lambda *_: 5)
    monkeypatch.setattr(top, "_once", lambda *_: 6)
    assert top.main(_words("7", every=every)) == (5 if rounds > 2 else 6)
    assert ([each.rounds for each in asked], [each.gap_s for each in asked], ended) == ([rounds], [gap], [True])


def test_keys_that_are_typed_fast_are_taken_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(fileno=lambda: theirs))
    monkeypatch.setattr(top, "_KEY_S", 0.01)
    with top._keys() as keys:
        assert keys() == ""
        os.write(ours, b"j\x1b[Aq")
        assert [keys(), keys(), keys(), keys()] == ["j", "\x1b[A", "q", ""]
    os.close(ours)
    os.close(theirs)


@pytest.mark.parametrize(("nodes", "hosts"), [("n[1-2]", ("n1", "n2")), (None, ())])
def test_the_hosts_of_a_job_are_asked_for_its_stacks_with_their_records(
    monkeypatch: pytest.MonkeyPatch, nodes: str | None, hosts: tuple[str, ...]
) -> None:
    job = SlurmJob("7", "7", "train", state_of("RUNNING"), reason_of("None"), node_list=nodes)
    asked: list[Any] = []

    def ask_job(job_id: str, nodes: Any, environment: Any, question: Any) -> str:
        asked.append(question)
        return "answer"

    monkeypatch.setattr(stacks, "ask", lambda _: None)
    monkeypatch.setattr(stacks, "cases", lambda *_: [JobCase("7", job, None)])
    monkeypatch.setattr(ask_stacks, "ask_job", ask_job)
    assert stacks._ask_job(["7"], 3, ["--native"]) == ("answer", hosts)
    assert [(each.records, each.rank, each.options) for each in asked] == [(True, 3, ("--native",))]


_QUIET = {"quiet": False, "picture": False, "variables": False}


@pytest.mark.parametrize(
    ("nodes", "broken", "start", "status", "says", "says_not"),
    [
        (2, False, False, 0, "8 ranks on 2 hosts: nothing wrong was found", "looks at two compute nodes"),
        (1, False, False, 0, "4 ranks on 1 host: nothing wrong", "hint:"),
        (0, False, False, 0, "this node: nothing wrong was found\nmuster: muster check -N 2 looks at", "hint:"),
        (2, True, False, 1, "broken: meeting: 1 of 8 ranks did not report", "nothing wrong"),
        (2, True, True, 1, "broken: start: no\n    hint: yes", "broken: meeting"),
    ],
)
def test_a_look_is_told_by_what_it_found(
    capsys: pytest.CaptureFixture[str], nodes: int, broken: bool, start: bool, status: int, says: str, says_not: str
) -> None:
    ranks, login, expected = healthy(nodes)
    world = world_of(ranks[: -1 if broken else None], login, expected)
    begun = [Finding("start", BROKEN, "no", "yes")] * start
    for more in ({}, {"picture": True, "variables": True}):
        assert check._tell(world, begun, _words(**{**_QUIET, **more})) == status
        told = "".join(capsys.readouterr())
        assert says in told
        assert says_not not in told
    assert check._tell(world_of([]), [], _words(**{**_QUIET, "picture": True})) == 0
    assert "nothing is known of any node" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("ranks", "looked", "size", "chosen", "sentence"),
    [
        ([], [], 0, "", "the first look …"),
        ([(0, "", 4), (1, "", 4)], [1.0], 4, "0", "the first look …"),
        ([(0, "", 4), (1, "", 4)], [1.0, 1.0], 4, "0", "the first look …"),
        ([(2, "", 4), (1, "", 5)], [1.0, 2.0], 5, "2", "judged of n1,n2"),
        ([(0, "a", 4), (0, "b", 3), (1, "b", 2)], [1.0, 2.0], 7, "a.0", "judged of n1,n2"),
    ],
)
@pytest.mark.parametrize("page", ["", "s", "l"])
def test_the_screen_of_top_tells_of_the_ranks_that_were_found(
    monkeypatch: pytest.MonkeyPatch, ranks: list[tuple[int, str, int]], looked: list[float], size: int, chosen: str,
    sentence: str, page: str,
) -> None:  # fmt: skip
    job = SlurmJob("7", "7", "train", state_of("RUNNING"), reason_of("None"), node_list="n[1-2]")
    found = [SimpleNamespace(stack=RankStack(rank, of_size, "n1", 7, "S", role=role)) for rank, role, of_size in ranks]
    looks = SimpleNamespace(movements=lambda: found, rounds=lambda: [SimpleNamespace(at_s=at_s) for at_s in looked])
    screen = top._Top(JobCase("7", job, None), SimpleNamespace(looks=looks))  # type: ignore[arg-type]
    monkeypatch.setattr(
        "muster_check.stacks.judge.judge_job",
        lambda _, nodes: SimpleNamespace(sentence=f"judged of {','.join(nodes)}"),
    )
    monkeypatch.setattr(screen, "_lines", lambda *_: ["one", "two"])
    screen.page = page
    shown = screen.screen()
    assert (shown.size, shown.chosen, shown.sentence, len(shown.ranks)) == (
        max((of_size for _, _, of_size in ranks), default=0), chosen, sentence, len(ranks),
    )  # fmt: skip
    assert f"{len(ranks)} of {size} ranks on " in shown.title
    assert shown.last_line == "last output: two"
    screen.case = JobCase("7", SlurmJob("7", "7", "train", job.state, job.reason), None)
    assert screen.screen().sentence == sentence.replace("n1,n2", "")
    pages = {"": "", "l": f"rank {chosen}: its last lines", "s": f"rank {chosen}"}
    assert "\n".join(shown.page).startswith(pages[page])
    assert bool(shown.page) is bool(page)
