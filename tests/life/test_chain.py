"""A link queues the next one: what it asks Slurm, with stub programs that write down their words."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from muster.life import asking, machine, told
from muster.life.attempt import RunningAttempt
from muster.life.chain import LinkChain
from muster.life.rules import Rules
from muster.life.saves import Saves
from muster.life.written import RunFiles

_SCRIPT = "#!/bin/bash\n#SBATCH --nodes=2\n{}"


def _program(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of stub programs, the only one on PATH beside the system's."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sbatch", "squeue", "scancel", "scontrol"):
        _program(folder / name, f'echo "$@" >> {tmp_path}/{name}.words; cat {tmp_path}/{name}.says 2>/dev/null')
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


class Chain:
    """A link of a chain whose run directory is `folder`, and what it said."""

    def __init__(self, folder: Path, *words: str, environment: Mapping[str, str] | None = None) -> None:
        self.environment = {"SLURM_JOB_ID": "7", "PATH": os.environ["PATH"], **(environment or {})}
        self.said: list[str] = []
        rules = Rules(["file=job.sh", "links=9", f"run={folder}", *words], self.environment)
        self.chain = LinkChain(rules, RunFiles(str(folder)), self.environment, self.said.append)


def _words(folder: Path, name: str = "sbatch") -> list[str]:
    file = folder / f"{name}.words"
    return file.read_text().splitlines() if file.exists() else []


_BEHIND = "--parsable --dependency=afterany:{} --open-mode=append"


@pytest.mark.parametrize(
    ("script", "task", "link", "own", "more"),
    [
        ("", "", 1, "7", " --output={}/logs/batch.log"),
        ("#SBATCH --output=x\n", "", 1, "7", ""),
        ("echo --output=x\n", "", 3, "7", " --output={}/logs/batch.log"),
        ("", "5", 1, "6_5", " --array=5 --output={}/logs/batch.log"),
    ],
)
def test_the_next_link_is_queued_behind_this_one(
    programs: Path, tmp_path: Path, script: str, task: str, link: int, own: str, more: str
) -> None:
    assert programs
    (tmp_path / "job.sh").write_text(_SCRIPT.format(script))
    (tmp_path / "sbatch.says").write_text("58;cluster\n")
    array = {"SLURM_ARRAY_TASK_ID": task, "SLURM_ARRAY_JOB_ID": "6"} if task else {}
    made = Chain(tmp_path, f"link={link}", environment=array)
    made.chain._queue("new", ())
    words = f"{_BEHIND.format(own)}{more.format(tmp_path)} {tmp_path}/job.sh link {link + 1} {tmp_path}"
    assert _words(tmp_path) == [words]
    assert RunFiles(str(tmp_path)).links() == {link + 1: f"58_{task}" if task else "58"}
    assert made.said == []


def test_the_next_link_begins_with_no_word_of_this_job(programs: Path, tmp_path: Path) -> None:
    _program(programs / "sbatch", f"env > {tmp_path}/seen; pwd >> {tmp_path}/seen; echo 58")
    (tmp_path / "job.sh").write_text(_SCRIPT.format(""))
    more = {"SLURM_CONF": "/c", "SBATCH_X": "1", "MUSTER_RUN_DIR": "/r", "MINE": "1", "SLURM_SUBMIT_DIR": str(tmp_path)}
    Chain(tmp_path, environment=more).chain._queue("new", ())
    seen = (tmp_path / "seen").read_text().splitlines()
    names = {line.partition("=")[0] for line in seen}
    assert {"SLURM_CONF", "MINE"} <= names
    assert not {"SLURM_JOB_ID", "SBATCH_X", "MUSTER_RUN_DIR", "SLURM_SUBMIT_DIR"} & names
    assert seen[-1] == str(tmp_path)


@pytest.mark.parametrize(
    ("answer", "tries", "says"),
    [
        ("sbatch: error: Invalid account", 1, "is not queued: sbatch: error: Invalid account"),
        ("sbatch: error: Unable to contact slurm controller", 3, "is not queued: sbatch: error: Unable to contact"),
        ("", 3, "is not queued: sbatch did not answer"),
    ],
)
def test_what_slurm_refuses_is_said_at_once_and_silence_is_tried_again(
    programs: Path, tmp_path: Path, answer: str, tries: int, says: str
) -> None:
    assert programs
    (tmp_path / "job.sh").write_text(_SCRIPT.format(""))
    (tmp_path / "sbatch.says").write_text(answer)
    made = Chain(tmp_path)
    made.chain._queue("new", (0, 0))
    assert len(_words(tmp_path)) == tries
    assert len(_words(tmp_path, "squeue")) == tries - 1
    assert [says in text for text in made.said] == [True]


@pytest.mark.parametrize(
    ("queue", "found"),
    [
        ("7|7|train|c|(null)\n60|60|train|c|afterany:7(unfulfilled)\n58|58|train|c|afterany:7(unfulfilled)\n", "58"),
        ("7|7|train|c|(null)\n58|58|other|c|afterany:7(unfulfilled)\n", ""),
        ("7|7|train|c|(null)\n58|58|train|d|afterany:7(unfulfilled)\n", ""),
        ("7|7|train|c|(null)\n58|58|train|c|afterany:70(unfulfilled)\n", ""),
        ("7|7|train|c|(null)\nx|x|train|c|afterany:7(unfulfilled)\n58|58|train\n", ""),
        ("slurm_load_jobs error\n", ""),
    ],
)
def test_a_try_without_an_answer_may_have_queued_it(programs: Path, tmp_path: Path, queue: str, found: str) -> None:
    assert programs
    (tmp_path / "job.sh").write_text(_SCRIPT.format(""))
    (tmp_path / "squeue.says").write_text(queue)
    (tmp_path / "sbatch.says").write_text("61\n")
    Chain(tmp_path).chain._queue("look", ())
    assert RunFiles(str(tmp_path)).links() == {2: found or "61"}
    assert len(_words(tmp_path)) == (not found)


def test_a_link_that_is_queued_is_not_queued_again_and_can_be_withdrawn(programs: Path, tmp_path: Path) -> None:
    assert programs
    Chain(tmp_path, "ahead=yes").chain.queue_next()
    made = Chain(tmp_path)
    made.chain.withdraw_next()
    assert _words(tmp_path, "scancel") == []
    RunFiles(str(tmp_path)).note_link(2, "58")
    made.chain.queue_next()
    assert _words(tmp_path) == []
    made.chain.withdraw_next()
    assert _words(tmp_path, "scancel") == ["--quiet 58"]


@pytest.mark.parametrize(
    ("task", "link", "links", "seen"), [("3", 2, 9, True), ("3", 1, 9, False), ("", 2, 9, False), ("3", 2, 0, False)]
)
def test_a_later_link_of_a_task_knows_its_array(tmp_path: Path, task: str, link: int, links: int, seen: bool) -> None:
    array = {"SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_JOB_ID": "6", "SLURM_ARRAY_TASK_COUNT": "8"}
    Chain(tmp_path, environment=array).chain.begin()
    later = Chain(tmp_path, f"link={link}", f"links={links}", environment={"SLURM_ARRAY_TASK_ID": task} if task else {})
    assert later.chain.environment().get("SLURM_ARRAY_TASK_COUNT", "") == ("8" if seen else "")


@pytest.mark.parametrize("state", ["", "TIMEOUT", "COMPLETED", "FAILED", "CANCELLED"])
def test_the_end_of_a_link_that_could_not_write_it_is_written_by_the_next(tmp_path: Path, state: str) -> None:
    (tmp_path / "attempts").write_text("1\t100\tn1\t\t5\n2\t200\tn1\t\t6\n")
    made = Chain(tmp_path, "link=2")
    made.chain.job_before = "6"
    made.chain.note_end_of_link_before(state)
    rows = list(RunFiles(str(tmp_path)).rows("ends"))
    goes_on = state in {"", "TIMEOUT", "COMPLETED"}
    assert [row[:2] for row in rows] == ([["2", "200"]] if goes_on else [])
    made.chain.job_before = "9"
    made.chain.note_end_of_link_before("")
    assert len(list(RunFiles(str(tmp_path)).rows("ends"))) == goes_on


def test_a_link_that_another_job_is_has_nothing_to_do(tmp_path: Path) -> None:
    assert Chain(tmp_path).chain.claim() == ""
    assert Chain(tmp_path, environment={"SLURM_JOB_ID": "8"}).chain.claim() == "link 1 is job 7"
    (tmp_path / "over").write_text("x\n")
    assert Chain(tmp_path, "link=2").chain.claim() != ""


def test_the_script_of_a_job_is_kept_for_its_later_links(tmp_path: Path) -> None:
    (tmp_path / "script").write_text("echo 1\n")
    Chain(tmp_path, f"file={tmp_path}/script", "ahead=yes").chain.begin()
    assert not (tmp_path / "job.sh").exists()
    Chain(tmp_path, f"file={tmp_path}/script").chain.begin()
    assert (tmp_path / "job.sh").read_text() == "echo 1\n"
    (tmp_path / "script").write_text("echo 2\n")
    Chain(tmp_path, f"file={tmp_path}/script").chain.begin()
    assert (tmp_path / "job.sh").read_text() == "echo 1\n"


# --- an attempt, and the end of its time ---


@pytest.mark.parametrize(
    ("keeps", "attempt", "files"),
    [("keeps=1", 1, ["a.log"]), ("keeps=1", 2, ["b.log"]), ("keeps=1", 3, []), ("", 1, [""])],
)
def test_the_logs_of_an_attempt_are_those_of_its_folder(
    tmp_path: Path, keeps: str, attempt: int, files: list[str]
) -> None:
    for name in ("logs/a.log", "logs/other", "logs/attempt-2/b.log", "logs/attempt-1/c.log"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x\n")
    rules = Rules(["file=j", f"run={tmp_path}", *([keeps] if keeps else [])], {"SLURM_JOB_ID": "7"})
    made = RunningAttempt(attempt, ("a",), rules, 0, lambda _: None, lambda *_: None)
    assert [name for name, _ in made._files()] == files


def test_what_the_script_tells_is_heard(tmp_path: Path) -> None:
    rules = Rules(["file=j", f"run={tmp_path}"], {"SLURM_JOB_ID": "7"})
    made = RunningAttempt(1, ("a", "b"), rules, 0, lambda _: None, lambda *_: None)
    for word, rest in (("starter", "44"), ("starter", "x"), ("ends", str(tmp_path)), ("other", "1")):
        assert made.heard(word, rest) == []
    assert made._starters == [44]
    made.heard("unsaid", "b lost its node is gone")
    made.heard("unsaid", "a alive later")
    assert made._unsaid == ("b", True, "its node is gone")
    assert made.heard("signalled", "") == [machine.RanksSave("asked")]
    (hang,) = made.heard("hang", "rank 3 stands")
    assert "rank 3 stands" in str(hang)
    (tmp_path / "1.1").write_text("2 0\n3 7\nx 0\n")
    (left,) = made._left()
    assert left == type(left)((2,), "b")
    made.kill()
    assert told.read_end(str(tmp_path / "gone")) == []


@pytest.mark.parametrize(
    ("clock", "save", "told_at", "end", "known"),
    [
        ("yes", 60, None, 1000, True),
        ("no", 60, None, 1000, False),
        ("yes", 0, None, 1000, False),
        ("yes", 60, 5.0, 1000, False),
        ("yes", 60, None, 0, False),
    ],
)
def test_the_clock_tells_the_ranks_to_save_once(
    clock: str, save: int, told_at: float | None, end: int, known: bool
) -> None:
    rules = Rules(["file=j", f"save={save}", f"clock={clock}"], {"SLURM_JOB_ID": "7"})
    saves = Saves(rules, RunFiles(""), lambda _: None)
    saves._told_at, saves._end = told_at, end
    assert (saves.find_time(0.0) is not None) is known


def test_a_node_list_of_slurm_is_expanded_by_slurm_and_another_is_read(programs: Path, tmp_path: Path) -> None:
    assert programs
    assert [asking.expand(nodes) for nodes in ("", "(null)", "a,b")] == [(), (), ("a", "b")]
    (tmp_path / "scontrol.says").write_text("a1\na2\n")
    assert asking.expand("a[1-2]") == ("a1", "a2")
    assert asking.run(["pwd"], 5.0, cwd=str(tmp_path)).out.strip() == str(tmp_path)
    assert asking.run(["no-such-program"], 5.0).status == 127
