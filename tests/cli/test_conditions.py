"""What a verb does with a job as it is: one row for each condition that decides something."""

from __future__ import annotations

import json
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console

from muster.act import attach as act_attach
from muster.act.record import Run
from muster.cli import asked_jobs, clean, docs, jobs, logs, queues, report, shell, url
from muster.cli.command_line import TypedLaunch, Words
from muster.cli.completion import _answer, candidates
from muster.cli.completion import main as complete
from muster.errors import NoSlurm, RequestError, SchedulerSilent
from muster.follow.cases import JobCase
from muster.follow.scheduler import Answer
from muster.job.options import Typed
from muster.slurm.jobs import SlurmJob
from muster.slurm.partitions import Partition
from muster.slurm.reasons import reason_of
from muster.slurm.states import state_of


def _words(*operands: str, **values: Any) -> Words:
    return Words("verb", values, TypedLaunch({}, {}, (), ()), Typed({}, {}, operands, ()))


def _job(**fields: Any) -> SlurmJob:
    return replace(SlurmJob("7", "7", "train", state_of("RUNNING"), reason_of("None")), **fields)


def _with_roles(folder: Path, *names: str) -> Run:
    (folder / "roles").mkdir(exist_ok=True)
    place = {"ranks": 2, "port": 1, "ready": "joined"}
    roles = {name: {**place, "nodes": [f"{name}1", f"{name}2"], "url": f"http://{name}1:1"} for name in names}
    (folder / "roles/roles.json").write_text(json.dumps(roles))
    events = "".join(f"{json.dumps({'role': name, 'what': 'ready'})}\n" for name in names)
    (folder / "roles/events").write_text(events)
    return Run("7", folder, "train")


@pytest.mark.parametrize(
    ("names", "operands", "printed"),
    [
        (("main",), (), "http://main1:1\n"),
        (("main", "serve"), (), "has several roles"),
        (("main", "serve"), ("serve",), "http://serve1:1\n"),
        (("main", "serve"), ("other",), "other"),
        (None, (), "no record of job 7 is here"),
    ],
)
def test_the_address_of_the_role_that_is_meant_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    names: tuple[str, ...] | None, operands: tuple[str, ...], printed: str,
) -> None:  # fmt: skip
    case = JobCase("7", _job(), None if names is None else _with_roles(tmp_path, *names))
    monkeypatch.setattr(url, "ask", lambda ids: None)
    monkeypatch.setattr(url, "cases", lambda ids, answer, *, records_do: [case] if records_do else [])
    if printed.startswith("http"):
        assert url.main(_words("7", *operands, quiet=True)) == 0
        assert capsys.readouterr().out == printed
    else:
        with pytest.raises(RequestError, match=printed):
            url.main(_words("7", *operands, quiet=True))


@pytest.mark.parametrize(
    ("ready", "phase", "refused"),
    [("joined", "ready", True), ("joined", "starts", False), ("port", "ready", False)],
)
def test_the_address_of_a_role_is_refused_where_nothing_listens_yet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ready: str, phase: str, refused: bool
) -> None:
    run = _with_roles(tmp_path, "serve")
    for file in (tmp_path / "roles").iterdir():
        text = file.read_text().replace("serve1", "127.0.0.1").replace('"what": "ready"', f'"what": "{phase}"')
        file.write_text(text.replace("joined", ready))
    monkeypatch.setattr(url, "ask", lambda ids: None)
    monkeypatch.setattr(url, "cases", lambda *_, **__: [JobCase("7", _job(), run)])
    with pytest.raises(RequestError, match=r"http://127.* refuses a connection") if refused else nullcontext():
        assert url.main(_words("7", quiet=True)) == 0


@pytest.mark.parametrize(
    ("names", "typed", "owner", "uid", "attached"),
    [
        ((), (), "", 5, ("n1", "", 0, None)),
        ((), ("--rank", "1"), "", 5, "where rank 1 runs is not known"),
        (("serve",), ("--role", "serve"), "", 5, ("serve1", "serve", 0, None)),
        (("serve",), ("--role", "serve", "--rank", "2"), "", 5, ("serve2", "serve", 2, None)),
        (("main", "serve"), (), "", 5, "has several roles: main, serve"),
        ((), (), "bob", 5, "belongs to bob"),
        ((), (), "bob", 0, ("n1", "", 0, None)),
        ((), ("--", "nvidia-smi", "-l"), "", 5, ("n1", "", 0, None)),
    ],
)
def test_a_shell_is_opened_beside_the_rank_that_is_meant(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    names: tuple[str, ...], typed: tuple[str, ...], owner: str, uid: int, attached: tuple[Any, ...] | str,
) -> None:  # fmt: skip
    case = JobCase("7", _job(node_list="n[1-2]"), _with_roles(tmp_path, *names) if names else None)
    monkeypatch.setattr(asked_jobs, "ask", lambda ids: None)
    monkeypatch.setattr(asked_jobs, "cases", lambda ids, answer: [case])
    monkeypatch.setattr("muster.cli.job_words.other_owner", lambda job: owner)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setenv("SHELL", "/bin/zsh")
    seen: list[tuple[Any, ...]] = []
    monkeypatch.setattr(act_attach, "attach", lambda *words: seen.append(words))
    with pytest.raises(RequestError, match=attached) if isinstance(attached, str) else nullcontext():
        shell._attach(_words("7", *typed, role=None, rank=None))
        ((shown_id, host, role, rank, command, _, part),) = seen
        assert (shown_id, (host, role, rank, part)) == ("7", attached)
        assert tuple(command) == (("nvidia-smi", "-l") if "--" in typed else ("/bin/zsh", "-i"))


@pytest.mark.parametrize(("host", "part"), [("n1", None), ("x1", 0), ("y2", 1)])
def test_a_shell_in_a_job_of_several_parts_is_in_the_part_of_its_host(
    monkeypatch: pytest.MonkeyPatch, host: str, part: int | None
) -> None:
    parts = tuple(_job(id=job, node_list=nodes) for job, nodes in (("7", "x1"), ("8", "y[1-2]"), ("9", None)))
    monkeypatch.setattr(asked_jobs, "ask", lambda ids: None)
    monkeypatch.setattr(asked_jobs, "cases", lambda ids, answer: [JobCase("7", _job(parts=parts), None)])
    monkeypatch.setattr("muster.cli.job_words.other_owner", lambda job: "")
    monkeypatch.setattr(shell, "_host_of", lambda case, rank: host)
    seen: list[Any] = []
    monkeypatch.setattr(act_attach, "attach", lambda *words: seen.append(words[-1]))
    shell._attach(_words("7", role=None, rank=None))
    assert seen == [part]


@pytest.mark.parametrize(
    ("tty", "suffix", "height", "term", "paged"),
    [
        (False, ".md", 5, "xterm", None),
        (True, ".txt", 5, "xterm", None),
        (True, ".md", 5, "xterm", True),
        (True, ".md", 22, "xterm", True),
        (True, ".md", 23, "xterm", False),
        (True, ".md", 5, "dumb", False),
        (True, ".md", 5, "", False),
    ],
)
def test_a_page_that_is_longer_than_the_screen_is_paged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    tty: bool, suffix: str, height: int, term: str, paged: bool | None,
) -> None:  # fmt: skip
    file = tmp_path / f"a{suffix}"
    file.write_text("# Head\n\n" + "- line\n" * 20)
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("LINES", str(height))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: tty, raising=False)
    pages: list[bool] = []

    def pager(_: Console, *, styles: bool) -> Any:
        pages.append(styles)
        return nullcontext()

    monkeypatch.setattr(Console, "pager", pager)
    docs._show(docs.Page("a", "guides", "A", file))
    assert pages == ([True] if paged else [])
    assert (capsys.readouterr().out == file.read_text()) is (paged is None)


@pytest.mark.parametrize(
    ("asked", "follow", "shown", "job"),
    [
        ("7", False, ("7",), "7"),
        ("7", False, ("7_1", "7_2"), None),
        ("7", False, ("7_1",), None),
        ("7_1", False, ("7_1",), "7_1"),
    ],
)
def test_the_logs_of_a_whole_array_are_of_no_task(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, follow: bool, shown: tuple[str, ...], job: str | None
) -> None:
    found = [JobCase(each, _job(id=each, shown_id=each), Run("7", tmp_path, "train")) for each in shown]
    monkeypatch.setattr("muster.act.record.find_run", lambda *_: None)
    monkeypatch.setattr(logs, "cluster", lambda: "lab")
    monkeypatch.setattr(logs, "with_links", list)
    monkeypatch.setattr(logs, "cases", lambda ids, answer, *, records_do: found if records_do else [])

    class _Slurm:
        def jobs(self, ids: list[str]) -> Answer:
            return Answer((), ())

    case = logs._case(asked, _Slurm(), follow=follow)  # type: ignore[arg-type]
    assert (case.job.shown_id if case.job else None) == job


class _Silent:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def jobs(self, ids: list[str]) -> Answer:
        raise self.error


@pytest.mark.parametrize("error", [SchedulerSilent("x", hint="y"), NoSlurm("squeue", is_installed=False)])
@pytest.mark.parametrize("has_record", [True, False])
def test_of_a_job_of_musters_own_slurm_may_be_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, has_record: bool
) -> None:
    run = Run("7", tmp_path, "train") if has_record else None
    answers: list[Answer] = []

    def cases_of(ids: list[str], answer: Answer, *, records_do: bool) -> list[JobCase]:
        answers.append(answer)
        return [JobCase("7", None, run)] if records_do else []

    monkeypatch.setattr("muster.act.record.find_run", lambda *_: run)
    monkeypatch.setattr(asked_jobs, "cluster", lambda: "lab")
    monkeypatch.setattr(asked_jobs, "with_links", list)
    monkeypatch.setattr(report, "cases", cases_of)
    with nullcontext() if has_record else pytest.raises(type(error)):
        assert report._case("7", _Silent(error)) == (JobCase("7", None, run), True)  # type: ignore[arg-type]
        assert answers[0].silent


@pytest.mark.parametrize(
    ("yes", "as_json", "dry", "agreed", "removed"),
    [
        (False, False, False, True, 1),
        (False, False, False, False, 0),
        (True, False, False, False, 1),
        (True, False, True, True, 0),
        (False, True, False, True, 0),
        (True, True, False, False, 1),
    ],
)
def test_what_is_left_is_removed_once_it_was_agreed_to(
    monkeypatch: pytest.MonkeyPatch, yes: bool, as_json: bool, dry: bool, agreed: bool, removed: int
) -> None:
    from muster.act.clean import Leftover

    left = [Leftover("run", Path("/a"), 1, 2.0, kept) for kept in (None, "it runs")]
    gone: list[Path] = []
    monkeypatch.setattr(clean, "_question", lambda _: type("Q", (), {"living": (), "state": Path("/s")})())
    monkeypatch.setattr("muster.act.clean.find_leftovers", lambda _: left)
    monkeypatch.setattr("muster.act.clean.remove_leftover", lambda each, _: gone.append(each.path))
    monkeypatch.setattr(clean, "_agreed", lambda: agreed)
    assert clean.main(_words(yes=yes, json=as_json, dry_run=dry)) == 0
    assert len(gone) == removed


@pytest.mark.parametrize(
    ("fields", "accounts", "account"), [({"account": "chem"}, True, ["chem"]), ({}, True, ["?"]), ({}, False, [])]
)
def test_the_account_of_a_job_is_shown_where_there_are_several(
    fields: dict[str, str], accounts: bool, account: list[str]
) -> None:
    row = jobs._row(_job(**fields), None, accounts=accounts)
    assert list(row[6:-1]) == account


@pytest.mark.parametrize(("most", "nodes"), [(None, "1 to any"), (4, "1 to 4"), (1, "1")])
def test_the_nodes_of_a_partition_have_bounds(most: int | None, nodes: str) -> None:
    made = Partition("q", True, True, None, None, 1, most, 4, 2, 8, 4, 1024, (), ())
    assert queues._row(made, 0)[3] == nodes


@pytest.mark.parametrize(
    ("earlier", "word", "some", "none"),
    [
        (["completion"], "", "bash", "--for"),
        (["completion", "bash"], "", None, "bash"),
        (["lab", "fault"], "", "cut-link", "bash"),
        (["lab", "fault", "cut-link"], "", None, "cut-link"),
        (["site", "show"], "", "lumi", "--json"),
        (["site", "show", "lumi"], "", None, "lumi"),
        (["plan"], "--launcher=", "--launcher=srun", "srun"),
        (["plan"], "--nonsense=", None, "--launcher"),
        (["plan"], "--", "--launcher", "srun"),
        (["run", "python"], "--", None, "--launcher"),
        (["jobs"], "", "--json", None),
    ],
)
def test_what_may_stand_at_the_cursor(earlier: list[str], word: str, some: str | None, none: str | None) -> None:
    words = [candidate.word for candidate in candidates(earlier, word)]
    assert some in words if some else words == []
    assert none not in words


@pytest.mark.parametrize(
    ("shell_name", "line"), [("bash", "--launcher=srun"), ("zsh", "--launcher=srun:"), ("fish", "--launcher=srun\t")]
)
def test_each_shell_reads_candidates_in_its_own_form(shell_name: str, line: str) -> None:
    assert any(each.startswith(line) for each in _answer(shell_name, ["plan", "--launcher=s"]))


@pytest.mark.parametrize(
    ("operands", "refused"),
    [((), "needs a shell's name"), (("bash", "zsh"), "the text of one shell"), (("bash",), None)],
)
def test_the_completion_of_one_shell_is_printed(operands: tuple[str, ...], refused: str | None) -> None:
    with pytest.raises(RequestError, match=refused) if refused else nullcontext():
        assert complete(_words(*operands, **{"for": None})) == 0
