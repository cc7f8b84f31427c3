"""The batch script: golden files, shellcheck, and executed with stub tools.

The golden files show the job that `muster submit` queues: whole for srun, torchrun and mpirun; of the others the job,
and the names of the parts below it. `pytest --update-golden` writes the files anew, prints the difference, fails once.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from launch.plans import FACTS, JOB_FACTS, plan
from muster.facts import ImageFacts, StagingFacts
from muster.model.plan import Plan
from muster.model.words import fold
from muster.render.document import plan_as_json
from muster.render.explain import explain, plan_as_text
from muster.render.functions import functions_in, without_unused
from muster.render.script import RULE, job_part, job_script, job_shown, lines_of_job
from muster.runner import run
from plugins.wide import sampled

from .outlines import outline, without_digests

GOLDEN = Path(__file__).parent.parent / "golden"

STAGING = StagingFacts(
    kinds={"/scratch/it's data": "tree", "/home/ada/project": "tree", "out": "missing", "/images/x.sif": "file"},
    real_paths={
        "/scratch/it's data": "/pfs/it's data",
        "/home/ada/project": "/home/ada/project",
        "out": "/home/ada/project/out",
        "/images/x.sif": "/images/x.sif",
    },
    environment=("/home/ada/env", "/apps/python/bin/python3.11", "/apps/python/lib"),
    leave_out=("/apps/python/lib/python3.11/site-packages",),
    signs=("/home/ada/env", "/home/ada/env/lib/python3.11/site-packages"),
    script=("train.py", "/home/ada/project/train.py"),
)


def submitted(*words: str, **how: Any) -> Plan:
    """The plan that `muster submit` makes of these words."""
    return plan(*words, **{"facts": JOB_FACTS, **how})


SCRIPTS: dict[str, Plan] = {
    "srun": submitted("-N", "2", "-g", "4", "-c", "8", "-t", "1:30:00", "-A", "science", "--", "python", "train.py"),
    "srun-hostile": submitted(
        *("-N", "2", "--env", "A=$(touch canary) 'x'", "--env", "OUT={run_dir}/{job_id}", "--unset-env", "LD_PRELOAD"),
        *(
            "--node-prologue",
            "echo 'warm; up'",
            "--chdir",
            "a'; echo foo",
            "-J",
            "my job",
            "--venv",
            "/home/ada/my env",
        ),
        *("--master-port", "23456", "--", "python", "train.py", "a  b", "$(touch canary)", "it's", "new\nline", "*"),
    ),
    "torchrun": submitted("-N", "4", "-g", "4", "--", "python", "train.py", launcher="torchrun"),
    "mpirun": submitted("-N", "2", "--ntasks-per-node", "4", "--", "python", "train.py", launcher="mpirun"),
    "mpirun+torchrun": submitted("-N", "2", "-g", "4", "--", "python", "train.py", launcher="mpirun+torchrun"),
    "moved-output": submitted(
        *("-N", "1", "-o", "out/%x-%j.txt", "--sbatch=--requeue", "--srun=--unbuffered", "--", "hostname"),
        facts=replace(JOB_FACTS, script=None),
    ),
    "within": submitted(
        *("-N", "2", "--ntasks-per-node", "3", "--", "hostname"),
        facts=replace(JOB_FACTS, script=None),
        within=True,
        stream=True,
    ),
    "apptainer": submitted(
        *("-N", "2", "-g", "4", "--image", "/images/it's.sif", "--bind", "/data:/set:ro", "--env", "A=$x"),
        *("--", "python", "train.py"),
        facts=replace(JOB_FACTS, image=ImageFacts(kind="sif", project="/home/ada", package="/opt/venv/muster")),
    ),
    "pyxis": submitted(
        *("-N", "2", "--image", "docker://nvcr.io/nvidia/pytorch:26.02-py3", "--engine", "pyxis", "--env", "A=$x"),
        *("--", "python", "train.py"),
        facts=replace(JOB_FACTS, image=ImageFacts(project="/home/ada", package="/opt/venv/muster")),
    ),
    "edf": submitted(
        *("-N", "2", "--engine", "cscs", "--image", "my-edf", "--env", "OUT={run_dir}/$x", "--", "python", "train.py"),
        facts=replace(JOB_FACTS, image=ImageFacts(project="/home/ada", package="/opt/venv/muster")),
    ),
    "srun-check": submitted("-N", "2", "-g", "4", "--check", "--chdir", "/scratch/it's", "--", "python", "train.py"),
    "torchrun-check": submitted("-N", "2", "-g", "4", "--check", "--", "python", "train.py", launcher="torchrun"),
    "srun-stage": submitted(
        *("-N", "2", "-g", "4", "--venv", "/home/ada/env", "--stage-env", "--stage", "/scratch/it's data"),
        *("--stage-out", "out", "--", "python", "train.py"),
        facts=replace(JOB_FACTS, staging=STAGING),
    ),
    "apptainer-stage": submitted(
        *("-N", "2", "--image", "/images/x.sif", "--stage-env", "--stage", "/scratch/it's data"),
        *("--", "python", "train.py"),
        launcher="torchrun",
        facts=replace(JOB_FACTS, image=ImageFacts(kind="sif", package="/opt/venv/muster"), staging=STAGING),
    ),
    "local": submitted("--ntasks-per-node", "2", "--", "python", "train.py", launcher="local"),
}
each_script = pytest.mark.parametrize("name", sorted(SCRIPTS))


# Muster's own text of one launcher each: what the others have of it is the same parts.
_WHOLE = {"srun", "torchrun", "mpirun"}


@each_script
def test_the_script_is_the_golden_one(name: str, golden: Callable[[Path, str], None]) -> None:
    script = job_script(SCRIPTS[name])

    golden(GOLDEN / f"{name}.sh", without_digests(script) if name in _WHOLE else outline(script))


def test_no_golden_script_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.glob("*.sh")} == set(SCRIPTS)


@each_script
@pytest.mark.programs
def test_the_script_passes_shellcheck(name: str, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text(job_script(SCRIPTS[name]))

    # SC1090/SC1091: the environment's own activate is not ours to follow.
    result = run(["shellcheck", "-e", "SC1090,SC1091", str(script)])

    assert result.ok, result.stdout


@pytest.mark.parametrize("within", [False, True], ids=["allocates", "within"])
@pytest.mark.parametrize("launcher", sampled(["mpirun+torchrun", "srun", "torchrun", "mpirun"], keep=4))
@pytest.mark.programs
def test_the_form_that_streams_to_a_terminal_passes_shellcheck(launcher: str, within: bool, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    made = plan("-N", "2", "--ntasks-per-node", "2", "--", "a b", launcher=launcher, within=within, stream=True)
    script.write_text(job_script(made))

    result = run(["shellcheck", str(script)])

    assert result.ok, result.stdout


@each_script
def test_rendering_twice_gives_the_same_bytes(name: str) -> None:
    assert job_script(SCRIPTS[name]) == job_script(SCRIPTS[name])


@each_script
def test_every_header_line_and_every_flag_has_its_reason(name: str) -> None:
    lines = list(explain(SCRIPTS[name]))
    told = {text for _, text, _ in lines}

    for directive in SCRIPTS[name].directives:
        shown = f"--{directive.name}" + (f"={directive.value}" if directive.value is not None else "")
        assert f"#SBATCH {shown}" in told
    assert all(reason.text and reason.origin for _, _, reason in lines)
    assert plan_as_text(SCRIPTS[name]).count("[") >= len(lines)


@each_script
def test_the_job_stands_above_the_dashes_and_each_function_once_below(name: str) -> None:
    script = job_script(SCRIPTS[name])
    job, _, own = script.partition(f"{RULE}\n")
    outside = re.sub(r"<<'MUSTER_TEXT'\n.*?\nMUSTER_TEXT\n", "", own, flags=re.DOTALL)
    functions = [function for function, _ in functions_in(outside)]

    assert job.splitlines()[-3:] == ["    muster_finish", "}", ""]
    staged = "muster_stage_begin" in job
    assert len(job.splitlines()) <= (60 if staged else 40)
    assert script.endswith("\njob\n")
    assert re.match(r"# Below is Muster's own text \([^ ]+, sha256 [0-9a-f]{8}\)", own)
    assert len(set(functions)) == len(functions)
    assert own.count("muster_stop() {") == 1


@each_script
def test_no_line_of_the_job_is_wider_than_a_page(name: str) -> None:
    job = job_script(SCRIPTS[name]).partition(RULE)[0]

    assert [line for line in job.splitlines() if len(line) > 120] == []


def test_a_long_list_of_mounts_stands_on_several_lines_and_is_one_word(tmp_path: Path) -> None:
    mounts = [f"/data/{'x' * 30}/{number}:/sets/{number}" for number in range(9)]
    facts = replace(FACTS, image=ImageFacts(project="/home/ada", package="/opt/venv/muster"))
    image = ("--image", "docker://quay.io/ada/torch:2", "--engine", "pyxis")
    binds = [word for mount in mounts for word in ("--bind", mount)]
    made = plan(*image, *binds, "--chdir", str(tmp_path), "--", "x", facts=facts)

    status, argv, _, stderr = execute(made, tmp_path)

    assert status == 0, stderr
    found = next(word for word in argv if word.startswith("--container-mounts="))
    assert all(mount in found.split(",") for mount in mounts)
    assert max(len(line) for line in job_script(made).partition(RULE)[0].splitlines()) <= 120


@pytest.mark.parametrize("text", ["a  b " * 60, f" {'x' * 300} ", "no,spaces" * 30, "it's " * 50, "tab\t" * 60])
def test_a_long_word_on_several_lines_is_one_word_for_the_shell(text: str) -> None:
    assert run(["bash", "-c", fold(("printf", "%s", text))]).stdout == text


@each_script
def test_on_a_terminal_the_job_is_shown_and_the_rest_is_counted(name: str) -> None:
    script, shown = job_script(SCRIPTS[name]), job_shown(SCRIPTS[name])
    job, _, own = script.partition(f"{RULE}\n")

    assert shown.startswith(job)
    assert f"\n# … {len(own.splitlines()) - 1} lines of Muster's own text" in shown
    assert len(shown.splitlines()) == len(job.splitlines()) + 2


@each_script
def test_each_line_of_the_job_is_explained(name: str) -> None:
    made = SCRIPTS[name]
    explained = [text for section, text, reason in explain(made) if section == "job, line by line" and reason.text]

    assert len(explained) == len(lines_of_job(made))
    assert all(any(line.strip().startswith(text) for line in job_part(made).splitlines()) for text in explained)


@each_script
def test_the_plan_is_json_that_names_its_schema(name: str) -> None:
    document = json.loads(plan_as_json(SCRIPTS[name]))

    assert document["schema"] == 1
    assert document["launcher"] == SCRIPTS[name].launcher
    assert document["shape"]["nodes"] == SCRIPTS[name].shape.nodes


def stub_tools(folder: Path) -> None:
    """srun and mpirun that write down what they were given; scontrol that knows two hosts."""
    record = '#!/bin/sh\nprintf "%s\\0" "$0" "$@" >"$RECORD"\nenv -0 >"$RECORD.env"\nexit "${STUB_STATUS:-0}"\n'
    tools = {
        "srun": record,
        "mpirun": '#!/bin/sh\n[ "$1" = --version ] && { echo "mpirun (Open MPI) 4.1.4"; exit; }\n' + record[10:],
        "scontrol": "#!/bin/sh\nprintf 'node1\\nnode2\\n'\n",
    }
    for name, text in tools.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)


def execute(made: Plan, folder: Path, **more: str) -> tuple[int, list[str], dict[str, str], str]:
    """Run the script as sbatch would, with stub tools: (status, the launcher's words, its environment, stderr)."""
    stub_tools(folder)
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "RECORD": str(folder / "record"),
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_JOB_NODELIST": "node[1-2]",
        "SLURM_NTASKS_PER_NODE": str(made.shape.ntasks_per_node),
        "SLURM_SUBMIT_DIR": str(folder),
        **more,
    }
    (folder / "job.sh").write_bytes(job_script(made).encode())
    result = run(["bash", str(folder / "job.sh")], env=environment, cwd=folder)
    words = (folder / "record").read_bytes().decode().split("\0")[:-1] if (folder / "record").exists() else []
    told = (folder / "record.env").read_bytes().decode() if words else ""
    seen = dict(item.split("=", 1) for item in told.split("\0") if "=" in item)
    return result.status, words, seen, result.stderr


WORD = st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=12)


@settings(max_examples=30, deadline=None)
@given(words=st.lists(WORD, max_size=5), value=WORD)
def test_any_argument_and_any_value_arrive_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, words: list[str], value: str
) -> None:
    folder = tmp_path_factory.mktemp("job")
    made = plan("--chdir", str(folder), "--env", f"VALUE={value}", "--", "program", *words)

    status, argv, seen, stderr = execute(made, folder)

    assert status == 0, stderr
    assert argv[-len(words) - 1 :] == ["program", *words]
    if "{" not in value:
        assert seen["VALUE"] == value
    assert not (folder / "canary").exists()


@pytest.mark.parametrize(("path", "first"), [("/only/this one", "/only/this one:"), ("", "")])
def test_the_launcher_is_found_whatever_path_the_command_is_to_have(path: str, first: str, tmp_path: Path) -> None:
    made = plan("--chdir", str(tmp_path), "--env", f"PATH={path}", "--", "x")

    status, argv, seen, stderr = execute(made, tmp_path)

    assert (status, stderr) == (0, "")
    assert seen["PATH"].startswith(f"{first}{tmp_path}:"), "the job's programs are found behind it"
    assert f""" sh {shlex.quote(path)} "$@"
""" in argv[argv.index("-c") + 1], "the command has it alone"


@pytest.mark.parametrize("launcher", ["srun", "torchrun", "mpirun", "mpirun+torchrun"])
def test_what_an_outer_job_left_behind_does_not_reach_the_launcher(launcher: str, tmp_path: Path) -> None:
    stale = {"RANK": "9", "WORLD_SIZE": "99", "MASTER_ADDR": "elsewhere:1", "SLURM_CPUS_PER_TASK": "4", "PMI_RANK": "3"}
    stale |= {
        "MUSTER_ATTEMPT": "7",
        "MUSTER_ROLE": "serve",
        "MUSTER_ADDRESS": "elsewhere",
        "MUSTER_SAVE_SIGNAL": "USR1",
    }
    stale["MUSTER_PYTHON"] = "/of/another/job"
    made = plan("-N", "2", "--ntasks-per-node", "2", "--chdir", str(tmp_path), "--", "x", launcher=launcher)

    status, _, seen, stderr = execute(made, tmp_path, **stale)

    assert status == 0, stderr
    assert not set(stale) & set(seen)
    assert seen["MUSTER_NTASKS"] == "4"


def test_the_sizes_are_slurms_and_not_literals(tmp_path: Path) -> None:
    made = plan("-N", "2", "-g", "4", "--chdir", str(tmp_path), "--", "x")

    _, argv, seen, _ = execute(made, tmp_path, SLURM_JOB_NUM_NODES="8")

    assert "--nodes=8" in argv
    assert "--ntasks=32" in argv
    assert seen["MUSTER_NTASKS"] == "32"


def test_where_no_node_answers_nothing_is_staged_and_the_ranks_start(tmp_path: Path) -> None:
    seen = StagingFacts(kinds={"data": "tree"}, real_paths={"data": str(tmp_path / "data")})
    for launcher in ("srun", "mpirun"):
        made = plan(
            *("--stage", "data", "--chdir", str(tmp_path), "--", "x"),
            launcher=launcher,
            facts=replace(FACTS, staging=seen),
        )

        status, argv, told, stderr = execute(made, tmp_path)

        assert status == 0
        assert argv[-1] == "x"
        assert "MUSTER_STAGE" not in told
        assert "muster: warning: nothing is staged: a node does not answer; all ranks use the shared files" in stderr


@pytest.mark.parametrize(
    ("nodes", "granted", "sentence"),
    [
        ("2", {"SLURM_JOB_NUM_NODES": "2000"}, "the partition standard-g takes jobs of at most 1024 nodes"),
        ("2", {"SLURM_NTASKS_PER_NODE": "4"}, "the CPU masks are for 8 ranks on each node"),
        ("2", {"SLURM_JOB_NUM_NODES": "1"}, "NCCL_SOCKET_IFNAME and one more were decided for 2 nodes or more"),
        ("2", {"SLURM_JOB_NUM_NODES": "4"}, None),
    ],
)
def test_a_size_for_which_a_line_does_not_hold_stops_with_one_sentence(
    tmp_path: Path, nodes: str, granted: dict[str, str], sentence: str | None
) -> None:
    """`sbatch -N 2000 job.sh`, or an edited header: the script was written for another size."""
    asked = ("-N", nodes, "-g", "8", "-t", "30", "-A", "project_465000000", "--chdir", str(tmp_path), "--", "x")
    status, argv, _, stderr = execute(plan(*asked, site="lumi"), tmp_path, **granted)

    if sentence is None:
        assert argv
        return
    assert (status, argv) == (2, [])
    assert f"muster: error: {sentence}\n\nhint: " in stderr
    assert stderr.count("muster: error:") == 1


def test_the_status_of_the_launcher_is_the_scripts(tmp_path: Path) -> None:
    for launcher in ("srun", "mpirun"):
        made = plan("--chdir", str(tmp_path), "--", "x", launcher=launcher)
        assert execute(made, tmp_path, STUB_STATUS="7")[0] == 7


def test_a_missing_working_directory_is_a_sentence(tmp_path: Path) -> None:
    status, argv, _, stderr = execute(plan("--chdir", "/not/there", "--", "x"), tmp_path)

    assert (status, argv) == (2, [])
    assert "muster: error: the working directory /not/there does not exist" in stderr
    assert "\n\nhint: " in stderr


def test_outside_a_job_the_script_says_so(tmp_path: Path) -> None:
    status, argv, _, stderr = execute(plan("--chdir", str(tmp_path), "--", "x"), tmp_path, SLURM_JOB_ID="")

    assert (status, argv) == (2, [])
    assert "there is no Slurm job here" in stderr


def test_mpirun_carries_the_wire_up_to_every_host(tmp_path: Path) -> None:
    made = plan(
        "-N", "2", "--ntasks-per-node", "2", "--env", "MINE=1", "--chdir", str(tmp_path), "--", "x", launcher="mpirun"
    )

    _, argv, seen, _ = execute(made, tmp_path)

    carried = {argv[index + 1] for index, word in enumerate(argv) if word == "-x"}
    assert {"MINE", "MUSTER_NODES", "MUSTER_NTASKS", "PATH"} <= carried
    assert argv[argv.index("--host") + 1] == "node1:2,node2:2"
    assert seen["MUSTER_NODES"] == "node1 node2"


@pytest.mark.parametrize("name", ["srun-stage", "apptainer-stage"])
def test_a_script_that_stages_has_the_functions_that_it_needs_and_no_other(name: str) -> None:
    script = re.sub(r"^ *#.*$", "", job_script(replace(SCRIPTS[name], texts=None)), flags=re.MULTILINE)
    own_text, node_text = script.split("muster_stage_node=$(")
    functions = re.findall(r"^(muster_\w+)\(\)", own_text, re.MULTILINE)
    orders = set(re.findall(r"printf '(muster_\w+)\\", own_text))

    unused = {function for function in functions if len(re.findall(rf"\b{function}\b", own_text)) == 1}
    assert not {function for function in unused if "muster_stage" in function or "muster_image" in function}
    assert {"muster_look", "muster_fetch", "muster_end"} <= orders
    assert orders <= set(re.findall(r"^(muster_\w+)\(\)", node_text, re.MULTILINE))
    assert ("muster_hold()" in node_text) == (name == "srun-stage"), "an image is told where the copies are"


def test_a_function_that_only_another_one_calls_stays_and_goes_with_it() -> None:
    text = "# One.\nmuster_one() {\n    muster_two\n}\n\n# muster_three is named here alone.\nmuster_two() { :; }\n"
    text += "muster_three() {\n    muster_three\n}\nmuster_four=4\n"

    assert without_unused(text, "muster_one a") == text.replace("muster_three() {\n    muster_three\n}\n", "")
    assert without_unused(text, "muster_once") == "muster_four=4\n"
