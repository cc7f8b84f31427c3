"""Secrets: what was passed on by name, or looks like a secret, stands in no text that Muster makes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from launch.plans import FACTS, plan
from muster.act.record import record_of, write_whole
from muster.act.run_folder import hand_over
from muster.errors import RequestError
from muster.model.digest import digest_of
from muster.model.plan import Plan
from muster.plan.secret import is_secret, passed_by_name, variables_to_hand_over
from muster.render.document import plan_as_json
from muster.render.explain import plan_as_text
from muster.render.script import job_script
from muster_build.registry import _keeps_passwords

VALUE = "hf_s3cr3tValue"
FORMS = {"script": job_script, "json": plan_as_json, "why": plan_as_text, "repr": repr}
LAUNCHERS = ("srun", "torchrun", "mpirun", "mpirun+torchrun", "local")


def _plan(*words: str, launcher: str = "srun") -> Plan:
    facts = replace(FACTS, environment={"HF_TOKEN": VALUE, "DATA": VALUE})
    return plan("-N", "2", *words, "--", "train", launcher=launcher, facts=facts)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("launcher", LAUNCHERS)
@pytest.mark.parametrize(
    "typed",
    [
        ("--env", "HF_TOKEN"),
        ("--env", "DATA"),
        ("--env", f"WANDB_API_KEY={VALUE}"),
        (f"--env=AWS_SECRET_ACCESS_KEY={VALUE}",),
        ("--env", f"https_proxy=http://ada:{VALUE}@proxy:3128"),
    ],
    ids=" ".join,
)
def test_no_form_of_the_plan_shows_it_and_the_job_gets_it(form: str, launcher: str, typed: tuple[str, ...]) -> None:
    made = _plan(*typed, launcher=launcher)

    assert VALUE not in FORMS[form](made)
    assert any(VALUE in value for value in variables_to_hand_over(made).values())
    assert digest_of(made) == digest_of(_plan(*typed, launcher=launcher))


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "WANDB_API_KEY", "APIKEY", "MYSQL_PWD", "db_password", "GH_PAT", "SLURM_JWT", "SSH_CREDENTIALS"],
)
def test_names_of_secrets(name: str) -> None:
    assert is_secret(name, "x")


@pytest.mark.parametrize(
    "name", ["TOKENIZERS_PARALLELISM", "PWD", "PATH", "LD_LIBRARY_PATH", "KEYS_PER_NODE", "OMP_PLACES"]
)
def test_names_of_no_secrets(name: str) -> None:
    assert not is_secret(name, "x")


def test_a_value_that_the_job_fills_in_is_made_from_what_everybody_knows() -> None:
    assert " RUN_KEY=" in job_script(_plan("--env", "RUN_KEY={job_id}"))


def test_a_variable_that_is_not_there_is_refused() -> None:
    with pytest.raises(RequestError, match="your environment has no WANDB_API_KEY"):
        _plan("--env", "WANDB_API_KEY")


def _script(made: Plan, folder: Path) -> str:
    """The script up to its step, whose ranks are this shell."""
    body = job_script(made).partition("    muster_step ")[0]
    rest = job_script(made).partition("\n}\n")[2].removesuffix("job\n")
    script = folder / "job.sh"
    script.write_text(
        f"{body}\n    sh -c 'printf %s \"$HF_TOKEN|${{MUSTER_PASSED_HF_TOKEN-gone}}\"'\n}}\n{rest}\njob\n"
    )
    return str(script)


@pytest.fixture
def made(tmp_path: Path) -> Plan:
    return replace(_plan("--env", "HF_TOKEN", "--master-port", "20001"), working_directory=str(tmp_path), prelude=())


_JOB = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_NODELIST": "n[1-2]"}


def _run(script: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    (folder / "logs").mkdir(exist_ok=True)
    with (folder / "logs/batch.log").open("w") as log:
        done = subprocess.run(
            ["bash", script],
            env={**_JOB, **more},
            cwd=folder,
            stdout=log,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    return subprocess.CompletedProcess((), done.returncode, (folder / "logs/batch.log").read_text(), done.stderr)


def test_the_file_of_a_queued_job_is_private_read_and_gone(tmp_path: Path, made: Plan) -> None:
    hand_over(made, tmp_path)
    assert stat.S_IMODE((tmp_path / "passed").stat().st_mode) == 0o600

    done = _run(_script(made, tmp_path), tmp_path)

    assert (done.stdout, done.stderr) == (f"{VALUE}|gone", "")
    assert not (tmp_path / "passed").exists()


def test_values_of_any_bytes_arrive_as_they_are(tmp_path: Path) -> None:
    odd = "a\n$(id) 'x'\"\\ \udcff="
    facts = replace(FACTS, environment={"HF_TOKEN": odd})
    made = plan("--env", "HF_TOKEN", "--master-port", "20001", "--chdir", str(tmp_path), "--", "train", facts=facts)
    made = replace(made, prelude=())
    hand_over(made, tmp_path)
    with_od = Path(_script(made, tmp_path))
    with_od.write_text(with_od.read_text().replace("${MUSTER_PASSED_HF_TOKEN-gone}", ""))

    (tmp_path / "logs").mkdir()
    with (tmp_path / "logs/batch.log").open("wb") as log:
        subprocess.run(["bash", str(with_od)], env=_JOB, cwd=tmp_path, stdout=log, check=True)
    assert (tmp_path / "logs/batch.log").read_bytes() == os.fsencode(odd) + b"|"


def test_a_script_that_nobody_gave_the_value_says_which_is_missing_and_runs(tmp_path: Path, made: Plan) -> None:
    done = _run(_script(made, tmp_path), tmp_path)

    assert (done.returncode, done.stdout) == (0, "|gone")
    assert done.stderr.count("HF_TOKEN") == 1


def test_a_script_takes_what_its_own_environment_has(tmp_path: Path, made: Plan) -> None:
    done = _run(_script(made, tmp_path), tmp_path, **dict.fromkeys(["HF_TOKEN"], "mine"))

    assert (done.stdout, done.stderr) == ("mine|gone", "")


def test_words_for_a_process_of_our_own_hold_names_alone() -> None:
    typed = [
        "-N",
        "2",
        "--env",
        f"API_KEY={VALUE}",
        f"--env=HF_TOKEN={VALUE}",
        "--env",
        "A=1",
        "--",
        "--env",
        "B_KEY=2",
    ]

    kept, needed = passed_by_name(typed)

    assert kept == ["-N", "2", "--env", "API_KEY", "--env=HF_TOKEN", "--env", "A=1", "--", "--env", "B_KEY=2"]
    assert needed == {"API_KEY": VALUE, "HF_TOKEN": VALUE}


def test_the_record_keeps_no_secret_of_slurms() -> None:
    record, _ = record_of((), {"SLURM_JWT": VALUE, "NCCL_DEBUG": "INFO"}, "/nowhere")

    assert record["environment"] == {"NCCL_DEBUG": "INFO"}
    assert VALUE not in json.dumps(record)


@pytest.mark.parametrize(("umask", "mode"), [(0o000, 0o600), (0o022, 0o600), (0o777, 0o000)])
def test_a_file_is_private_and_a_stricter_umask_holds(tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "file", "text")
    finally:
        os.umask(before)

    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


@pytest.mark.parametrize(
    ("realm", "keeps"),
    [
        ("https://auth.docker.io/token", True),
        ("http://localhost:5000/token", True),
        ("http://127.0.0.1/token", True),
        ("http://[::1]:5000/token", True),
        ("http://localhost.attacker.example/", False),
        ("http://127.0.0.1.attacker.example/", False),
        ("http://localhost@attacker.example/", False),
        ("http://[broken/", False),
        ("", False),
    ],
)
def test_a_password_of_a_registry_goes_by_https_or_stays_on_this_machine(realm: str, keeps: bool) -> None:
    assert _keeps_passwords(realm) is keeps
