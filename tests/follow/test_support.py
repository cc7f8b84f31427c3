"""Guards muster report: bounded, private, without secrets, whole where the record is damaged."""

from __future__ import annotations

import json
import os
import stat
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from launch.plans import FACTS, plan
from muster.act.record import Run, record_of
from muster.cli import report
from muster.cli.command_line import read_command
from muster.errors import NoSlurm, RequestError, SchedulerSilent
from muster.follow.cases import JobCase
from muster.follow.redact import Redactor
from muster.follow.scheduler import Scheduler
from muster.follow.support import ReportFile, log_parts, record_parts, redactor_for, torch_of, write_report
from muster.render.document import plan_as_json
from muster.render.script import job_script

VALUE = "s3cr3t-V4lue"


class Silent(Scheduler, frozen=True):
    """A Slurm that tells nothing."""

    def version(self) -> str | None:
        return None

    def details(self, job: str) -> str:
        return ""


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A run directory as `submit` makes it, with hidden values and logs of two attempts."""
    folder = tmp_path / "boom-1"
    (folder / "logs" / "attempt-2").mkdir(parents=True)
    facts = replace(FACTS, environment={"HF_TOKEN": VALUE, "DATA": f"{VALUE}-2"})
    typed = ("-N", "2", "--env", "HF_TOKEN", "--env", "DATA", "--", "train", "--api-key", f"{VALUE}-3")
    made = plan(*typed, facts=facts)
    record, _ = record_of(made.typed, {"NCCL_KEY": VALUE, "OMP_PLACES": "cores"}, str(tmp_path))
    (folder / "plan.json").write_text(plan_as_json(made))
    (folder / "job.sh").write_text(job_script(made))
    (folder / "record.json").write_text(json.dumps(record))
    (folder / "passed").write_text(f"HF_TOKEN={VALUE}\0DATA={VALUE}-2\0")
    (folder / "changes.diff").write_text("+ a line of the source\n")
    (folder / "attempts").write_text("1\t10\tnode[1-2]\t\n2\t20\tnode[1-2]\tnode2\n")
    (folder / "logs" / "node1.log").write_text(f"0: begins with {VALUE}\n0: data {VALUE}-2\n")
    (folder / "logs" / "attempt-2" / "node1.log").write_text(f"0: step 1\n0: WANDB_API_KEY={VALUE}-4\n")
    return Run("7", folder, "boom", cluster="c")


def _report(case: JobCase) -> tuple[dict[str, ReportFile], list[str]]:
    parts, missing = report._parts(case, Silent({}))
    return {part.name: part for part in parts}, missing


def test_no_secret_stands_in_any_part(run: Run) -> None:
    parts, missing = _report(JobCase("7", None, run))

    assert missing == []
    assert {"why.txt", "why.json", "attempts.json", "slurm.txt", "versions.json", "site.json"} <= set(parts)
    assert {"job.sh", "plan.json", "record.json"} <= set(parts)
    assert {"logs/attempt-1/node1.log", "logs/attempt-2/node1.log"} <= set(parts)
    assert not any(VALUE in part.text or "line of the source" in part.text for part in parts.values())
    assert parts["logs/attempt-1/node1.log"].omitted == 2
    assert "0: step 1" in parts["logs/attempt-2/node1.log"].text
    assert json.loads(parts["plan.json"].text)["command"]
    assert "reason" in parts["plan.json"].text
    assert json.loads(parts["record.json"].text)["environment"] == {"OMP_PLACES": "cores"}
    summary = "\n".join(report._summary("7", list(parts.values()), missing))
    assert "in it" not in summary.partition("omitted:")[0]
    assert "; 2 secrets omitted" in summary


@pytest.mark.parametrize(
    "damaged",
    [
        {"plan.json": b"{"},
        {"plan.json": b"[1]", "record.json": b"[]"},
        {"plan.json": b'{"variables": 3, "directives": "x", "site": 4, "shape": []}'},
        {"plan.json": b"\xff\xfe\x00", "record.json": b"[" * 100_000},
        {"record.json": b'{"environment": 1}', "attempts": "²\t1\n9".encode() * 50},
        {"ends": b"1\t\xff", "passed": b"=\0x\0", "job.sh": b"\x00\xff"},
    ],
)
def test_a_damaged_record_is_packed_as_far_as_it_goes(run: Run, damaged: dict[str, bytes]) -> None:
    for name, content in damaged.items():
        (run.directory / name).write_bytes(content)

    parts, missing = _report(JobCase("7", None, run))

    assert "why.txt" in parts
    assert (
        any("damaged" in text for text in missing) == any(name.endswith(".json") for name in damaged) or missing == []
    )


def test_the_files_of_each_role_have_a_folder_of_their_own(run: Run) -> None:
    document = json.loads((run.directory / "plan.json").read_text())
    (run.directory / "plan.json").write_text(json.dumps({**document, "roles": [{"name": "serve"}, {"name": "train"}]}))
    for name in ("serve", "train"):
        (run.directory / "roles" / name / "logs").mkdir(parents=True)
        (run.directory / "roles" / name / "plan.json").write_text(json.dumps(document))
        (run.directory / "roles" / name / "logs" / "batch.log").write_text(f"of {name}\n")
    places = {"serve": {"nodes": ["n1"], "ranks": 1, "port": 1, "url": ""}}
    (run.directory / "roles" / "events").write_text('{"role": "serve", "what": "ready"}\n')
    (run.directory / "roles" / "roles.json").write_text(json.dumps(places))
    parts, missing = _report(JobCase("7", None, run))

    assert [parts[f"logs/attempt-1/{name}/batch.log"].text for name in ("serve", "train")] == [
        "of serve\n",
        "of train\n",
    ]
    assert "ready" in parts["roles/events"].text
    assert not [sentence for sentence in missing if "roles" in sentence]


def test_a_run_directory_that_is_gone_is_a_sentence_for_each_part(tmp_path: Path) -> None:
    parts, missing = _report(JobCase("7", None, Run("7", tmp_path / "gone", "boom", cluster="c")))

    assert "job.sh" not in parts
    assert sum("cannot be read" in text for text in missing) == 3
    assert any("no log" in text for text in missing)


def test_a_job_that_is_not_of_muster_has_neither_script_nor_plan() -> None:
    parts, missing = _report(JobCase("7", None, None))

    assert "plan.json" not in parts
    assert any("no record" in text for text in missing)


def test_links_pipes_and_long_lines_of_the_logs_do_no_harm(run: Run, tmp_path: Path) -> None:
    outside = tmp_path / "id_rsa"
    outside.write_text("private\n")
    logs = run.directory / "logs" / "attempt-2"
    (logs / "link.log").symlink_to(outside)
    os.mkfifo(logs / "pipe.log")
    (logs / "..\n\x1b[31m.log").write_text("0: hostile name\n")
    (logs / "long.log").write_text("x" * 3_000_000 + "\n" + "".join(f"line {number}\n" for number in range(900)))

    parts = {part.name: part for part in log_parts(None, run, "7", Redactor()) if isinstance(part, ReportFile)}

    assert not any("private" in part.text for part in parts.values())
    assert all(name.isprintable() and ".." not in name for name in parts)
    assert any("hostile name" in part.text for part in parts.values())
    assert max(len(part.text) for part in parts.values()) < 500_000
    assert parts["logs/attempt-2/long.log"].text.endswith("line 899\n")


def test_the_archive_is_private_and_not_written_over(tmp_path: Path) -> None:
    target = tmp_path / "a.tar.gz"
    write_report(target, [ReportFile("x", "one", ""), ReportFile("x", "two", "")], 5)

    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    with tarfile.open(target) as archive:
        assert [(each.name, each.mode) for each in archive] == [("a/x", 0o600), ("a/x-2", 0o600)]
    with pytest.raises(RequestError, match="already there"):
        write_report(target, [], 5)
    with pytest.raises(RequestError, match="cannot be written"):
        write_report(tmp_path / "none" / "a.tar.gz", [], 5)


def test_a_folder_is_private_too(tmp_path: Path) -> None:
    write_report(tmp_path / "folder", [ReportFile(f"logs/attempt-1/{name}", "one", "") for name in "xy"], 5)

    assert stat.S_IMODE((tmp_path / "folder").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "folder" / "logs" / "attempt-1" / "x").stat().st_mode) == 0o600


def test_the_list_writes_nothing_and_the_default_name_is_free(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(report, "scheduler", lambda: Silent({}))
    monkeypatch.setattr(report, "_case", lambda *_: (JobCase("7", None, run), False))

    assert report.main(read_command(report.COMMAND, ["7", "--list"])) == 0
    assert not list(tmp_path.glob("*.tar.gz"))
    shown = capsys.readouterr().out
    assert "plan.json" in shown
    assert "changes.diff" in shown.partition("omitted:")[2]
    for _ in range(2):
        assert report.main(read_command(report.COMMAND, ["7"])) == 0
    named = ["7", "-o", "muster-report-7.tar.gz"]
    assert report.main(read_command(report.COMMAND, [*named, "--list"])) == 0
    with pytest.raises(RequestError, match="is already there"):
        report.main(read_command(report.COMMAND, named))
    assert report.main(read_command(report.COMMAND, ["7", "-o", "other.tar.gz"])) == 0
    (tmp_path / "other.tar.gz").unlink()
    assert sorted(path.name for path in tmp_path.glob("*.tar.gz")) == [
        "muster-report-7-2.tar.gz",
        "muster-report-7.tar.gz",
    ]


def test_a_job_without_record_and_a_silent_slurm_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises((NoSlurm, SchedulerSilent)):
        report.main(read_command(report.COMMAND, ["7"]))


@pytest.mark.parametrize(
    "line",
    [
        "export HF_TOKEN={}",
        "export HF_TOKEN='{} and more words'",
        "'MY_PASSWORD={} and more words'",
        '"hf_token": "{}"',
        "{{'password': '{}'}}",
        r"{{\"token\": \"{}\"}}",
        "password=b'{}'",
        "password   :   {}",
        "--env=AWS_SECRET_ACCESS_KEY={}",
        "--hf-token {} --lr 3",
        '"--api-key", "{}"',
        "--api-key \\\n  {}",
        "https_proxy=http://ada:{}@proxy:3128",
        "Authorization: Bearer {}",
        "Authorization: token {}",
        "Cookie: a=b; session={}",
        "GET /x?key={}&y=1",
        "trainer.api_key={}",
        "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----",
        "--env MYPW={}",
        "dbpw={}",
    ],
)
def test_forms_in_which_programs_print_secrets(line: str) -> None:
    clean = Redactor()

    assert VALUE not in clean.text(line.format(VALUE))
    assert clean.count >= 1


TOKENS = pytest.mark.parametrize(
    "token",
    [
        "hf_" + "a1B2" * 8,
        "ghp_" + "a1B2" * 9,
        "github_pat_" + "a1B2" * 9,
        "glpat-" + "a1B2" * 5,
        "sk-" + "a1B2" * 9,
        "AKIA" + "A1B2" * 4,
        "eyJhbGciOi" + "J9" * 4 + ".eyJzdWIiOiIx" + ".c2ln",
    ],
)


@pytest.mark.parametrize(
    "before", ["wandb: api key ", "0: wandb: Appending key for api.wandb.ai to netrc: ", "the secret of ada is "]
)
def test_a_number_that_a_sentence_calls_a_key(before: str) -> None:
    assert Redactor().text(f"{before}{'0a1b2c3d' * 5}") == f"{before}…"
    assert Redactor().text(f"commit {'0a1b2c3d' * 5}") == f"commit {'0a1b2c3d' * 5}"


@TOKENS
def test_tokens_of_services_in_a_line(token: str) -> None:
    assert Redactor().text(f"0: logged in with {token}, go on") == "0: logged in with …, go on"


@pytest.mark.parametrize(
    "line",
    [
        "KeyError: 'loss'",
        "Missing key: layer.1.weight",
        "PWD=/home/ada",
        "TOKENIZERS_PARALLELISM=false",
        "tokens: 4096 loss=1.2",
        "Basic configuration is done",
        "NCCL_DEBUG=INFO --tokenizer bert",
        "0: torch.distributed.DistBackendError: NCCL error in: a.cpp:12",
    ],
)
def test_what_helps_the_support_stays(line: str) -> None:
    assert Redactor().text(line) == line


@given(st.text(max_size=300), st.sampled_from(["", "--token ", "KEY=", "a=" * 3000, "-----BEGIN PRIVATE KEY-----\n"]))
def test_any_text_is_taken(text: str, before: str) -> None:
    clean = Redactor(values=["abcdef"])
    assert "abcdef" not in clean.text(f"{before}{text}abcdef")


def test_an_older_record_with_plain_values_is_cleaned() -> None:
    old = {"variables": [{"name": "MY_TOKEN", "value": VALUE}], "environment": {"A_SECRET": VALUE}, "key": "partition"}
    shown = Redactor().json(json.dumps(old))

    assert VALUE not in shown
    assert json.loads(shown)["key"] == "partition"
    assert VALUE not in Redactor().json(json.dumps(old)[:-1])  # damaged: read as text


def test_values_of_this_shell_are_known(run: Run) -> None:
    (run.directory / "passed").unlink()
    clean = redactor_for(run, {"DATA": "from-the-shell", "OTHER_TOKEN": "another-one", "PLAIN": "plain-words"})

    assert clean.text("from-the-shell another-one plain-words") == "… … plain-words"
    assert all(VALUE not in part.text for part in record_parts(run, clean) if isinstance(part, ReportFile))


def test_torch_is_named_where_the_environment_has_a_record(run: Run, tmp_path: Path) -> None:
    (tmp_path / "venv").mkdir()
    (tmp_path / "venv" / "muster.json").write_text('{"torch": "2.9.0", "modules": []}')
    (run.directory / "record.json").write_text(json.dumps({"environment": {"VIRTUAL_ENV": str(tmp_path / "venv")}}))

    assert torch_of(run) == {"torch": "2.9.0"}
