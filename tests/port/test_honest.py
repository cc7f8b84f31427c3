"""What the table says of a part is what becomes of it, and the exit status says where a person has to read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.cli.app import main
from muster.render.script import job_script
from muster_lint.port.values import Fate, PortRow, line_of

from .scripts import carried, read

_HEAD = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=4 --time=10\n"
_KEY = "0123456789abcdef"


def _row(text: str, what: str) -> PortRow:
    _, draft = read(text)
    return next(row for row in draft.rows if what in row.what)


def _port(tmp_path: Path, text: str, *words: str) -> int:
    (tmp_path / "job.sh").write_text(text)
    return main(["port", str(tmp_path / "job.sh"), *words])


@pytest.mark.parametrize(
    "body",
    [
        f"export WANDB_API_KEY={_KEY}\nsrun python a.py\n",
        f'export WANDB_API_KEY="{_KEY}"\nsrun python a.py\n',
        f"WANDB_API_KEY={_KEY}\nexport WANDB_API_KEY\nsrun python a.py\n",
        f"WANDB_API_KEY={_KEY} srun python a.py\n",
        f"srun --export=ALL,WANDB_API_KEY={_KEY} python a.py\n",
        f"srun env WANDB_API_KEY={_KEY} python a.py\n",
        f"KEY={_KEY}\nsrun python a.py --key $KEY\n",
        f"wandb login {_KEY}\nsrun python a.py\n",
        f"export URL=https://ada:{_KEY}@example.org\nsrun python a.py\n",
    ],
)
@pytest.mark.parametrize("words", [(), ("--json",), ("--site", "generic"), ("--site", "generic", "--as", "script")])
def test_a_secret_is_printed_nowhere(
    body: str, words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = _port(tmp_path, _HEAD + body, *words)

    said = "".join(capsys.readouterr())
    assert _KEY not in said
    assert status == 1, said


def test_a_secret_reaches_the_ranks_by_its_name() -> None:
    row = _row(_HEAD + "export HF_TOKEN=hf_abc\nsrun python a.py\n", "HF_TOKEN")

    assert (row.verdict, row.now) == (Fate.ASKED, "--env HF_TOKEN")
    assert "hf_abc" not in row.what
    assert "export HF_TOKEN where you type the line" in row.why


def test_a_secret_that_the_batch_host_reads_is_passed_on_by_name() -> None:
    row = _row(_HEAD + "export HF_TOKEN=$(cat ~/.hf)\nsrun python a.py\n", "HF_TOKEN")

    assert (row.verdict, row.now) == (Fate.ASKED, "--env HF_TOKEN")


@pytest.mark.parametrize("setting", ["MAX_TOKEN=2048", "USE_AUTH=true", "PWD=/x"])
def test_a_number_or_a_switch_is_no_secret(setting: str) -> None:
    assert _row(_HEAD + f"export {setting}\nsrun python a.py\n", setting).verdict is Fate.KEPT


@pytest.mark.parametrize(
    "size",
    ["--nodes=two", "--nodes=2-x", "--gres=gpu:", "--ntasks-per-node=4x", "--gpus=a100", "-c 4,2", "--gpus-per-node="],
)
def test_a_size_that_is_none_is_asked(size: str) -> None:
    row = _row(f"#!/bin/bash\n#SBATCH {size}\nsrun python a.py\n", size.partition("=")[0].partition(" ")[0].rstrip("="))

    assert row.verdict is Fate.ASKED, row


def test_a_type_of_gpu_stays_at_home_and_is_told_elsewhere() -> None:
    text = _HEAD.replace("--gpus-per-node=4", "--gres=gpu:a100:4") + "srun python a.py\n"

    home, away = carried(text, "generic", "generic"), carried(text, "lumi", "generic")

    assert home.plan is not None
    assert "--gres=gpu:a100:4" in job_script(home.plan)
    row = next(row for row in away.draft.rows if "gpu:a100" in row.what)
    assert (row.verdict, row.now) == (Fate.CHANGED, "-g 4")
    assert "a100" in row.why


def test_a_type_of_gpu_in_the_command_is_the_programs_own() -> None:
    text = _HEAD.replace("--gpus-per-node=4", "--gres=gpu:a100:4") + "srun python a.py --like gpu:a100:4\n"

    row = next(row for row in carried(text, "lumi", "generic").draft.rows if row.field == "command")

    assert (row.verdict, row.now) == (Fate.KEPT, "python a.py --like gpu:a100:4")


def test_agents_without_a_line_of_gpus_never_mean_a_cpu_queue() -> None:
    made = carried(
        "#!/bin/bash\n#SBATCH -N 2 -t 10\nsrun torchrun --nnodes 2 --nproc-per-node 4 a.py\n", "lumi", "generic"
    )

    assert made.draft.values["gpus_per_node"] == ["4"]
    assert [row.now for row in made.draft.rows if row.what == "(no GPUs)" and row.verdict is Fate.ASKED] == ["-g 4"]
    assert made.plan is not None
    assert made.plan.shape.gpus_per_node == 4


def test_srun_is_kept_where_the_site_prefers_torchrun() -> None:
    made = carried(_HEAD + "srun python a.py\n", "leonardo", "generic")

    assert made.plan is not None, made.refusal
    row = next(row for row in made.draft.rows if row.what == "srun")
    assert made.plan.launcher == "srun"
    assert (row.verdict, row.now) == (Fate.KEPT, "--launcher srun")
    assert "--launcher srun" in line_of(made.draft.words(), made.draft.command)


def test_srun_needs_no_word_where_the_site_takes_it_anyway() -> None:
    made = carried(_HEAD + "srun python a.py\n", "lumi", "generic")

    assert made.plan is not None, made.refusal
    assert (made.plan.launcher, "launcher" in made.draft.values) == ("srun", False)


def test_a_repair_that_changes_the_ranks_is_asked() -> None:
    """Any cluster: more ranks than GPUs on a node are refused, and the hint names two ways out."""
    made = carried("#!/bin/bash\n#SBATCH -N 1 -n 8 --gpus-per-node=4\nsrun python a.py\n", "generic", "generic")
    started = made.plan.shape.nodes * made.plan.shape.ntasks_per_node if made.plan else 8

    assert started == 8 or [row for row in made.draft.rows if row.verdict is Fate.ASKED and "8 ranks" in row.why]


@pytest.mark.parametrize(
    ("body", "what", "verdict"),
    [
        ("cat > c.json <<EOF\n{}\nEOF\n", "cat", Fate.NOT_CARRIED),
        ("echo x >> hosts\n", "echo", Fate.NOT_CARRIED),
        ("echo x > /dev/null\n", "echo", Fate.DROPPED),
        ("echo x >&2\n", "echo", Fate.DROPPED),
        ("{ echo x; } > hosts\n", "echo", Fate.NOT_CARRIED),
        ("mkdir out\n", "mkdir", Fate.NOT_CARRIED),
        ("f() { echo x; }\nf\n", "f", Fate.NOT_CARRIED),
    ],
)
def test_what_writes_is_not_carried(body: str, what: str, verdict: Fate) -> None:
    _, draft = read(_HEAD + body + "srun python a.py\n")

    assert verdict in [row.verdict for row in draft.rows if row.what.startswith(what)], draft.rows


def test_the_status_says_whether_the_line_does_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    same, other = _HEAD + "srun python a.py\n", _HEAD + 'srun python a.py "$1"\n'

    assert _port(tmp_path, same) == 0
    assert _port(tmp_path, other) == 1
    capsys.readouterr()
    assert _port(tmp_path, other, "--json") == 1
    assert {"asked"} <= {row["verdict"] for row in json.loads(capsys.readouterr().out)["rows"]}
    assert _port(tmp_path, same, "--site", "generic", "--json") == 0
    assert "--site generic --" in json.loads(capsys.readouterr().out)["line"]
    assert _port(tmp_path, other, "--as", "line") == 1
    assert "1 is asked" in capsys.readouterr().err


def test_a_part_that_reads_what_is_not_there_is_asked() -> None:
    assert _row(_HEAD + "srun python a.py < in.txt\n", "< …").verdict is Fate.ASKED


_ZERO3 = """\
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  deepspeed_config_file: configs/ds.json
  zero3_init_flag: true
mixed_precision: bf16
num_machines: 2
num_processes: 8
"""
_AGENTS = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4 --time=10\n"


@pytest.mark.parametrize("folder", [".", "elsewhere"])
def test_a_configuration_of_accelerate_becomes_its_variables(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / folder)
    (tmp_path / "z3.yaml").write_text(_ZERO3)

    status = _port(tmp_path, _AGENTS + "srun accelerate launch --config_file z3.yaml train.py\n", "--as", "line")

    said = capsys.readouterr()
    assert status == 0, said
    assert said.out == (
        "muster submit -N 2 -g 4 -t 10 --launcher torchrun --env ACCELERATE_MIXED_PRECISION=bf16"
        " --env ACCELERATE_CONFIG_DS_FIELDS=deepspeed_config_file,zero3_init_flag,mixed_precision"
        " --env ACCELERATE_USE_DEEPSPEED=true --env ACCELERATE_DEEPSPEED_CONFIG_FILE=configs/ds.json"
        " --env ACCELERATE_DEEPSPEED_ZERO3_INIT=true -- python train.py\n"
    )


def test_a_flag_beside_the_configuration_wins(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "z3.yaml").write_text(_ZERO3)
    flags = "--mixed_precision fp16 --zero_stage 2 --num_processes 4"

    status = _port(
        tmp_path, _AGENTS + f"srun accelerate launch --config_file z3.yaml {flags} train.py\n", "--as", "line"
    )

    said = capsys.readouterr().out
    assert status == 0
    assert "--ntasks-per-node 2" in said
    assert said.count("MIXED_PRECISION=fp16") == said.count("ZERO_STAGE=2") == 1
    assert "bf16" not in said


@pytest.mark.parametrize("text", [None, "- a\n", "distributed_type: XLA\n"])
def test_a_configuration_that_cannot_be_read_is_asked(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "c.yaml").write_text(text)

    assert _port(tmp_path, _AGENTS + "srun accelerate launch --config_file c.yaml --num_machines 2 a.py\n") == 1
    assert "asked" in capsys.readouterr().out


def test_a_value_that_is_set_twice_stands_in_the_command() -> None:
    made = _row(_HEAD + "A=1\nA=1\nsrun python a.py --a $A\n", "python …")

    assert (made.verdict, made.now) == (Fate.KEPT, "python a.py --a 1")


def test_a_variable_in_the_folder_of_an_environment_is_asked_for() -> None:
    made = carried("#!/bin/bash\n#SBATCH -N 1\nsource activate /s/$USER/e\npython a.py\n", "generic", "lumi")

    assert "write its value in the place of $USER" in next(r.why for r in made.draft.rows if r.field == "conda")


@pytest.mark.parametrize(
    ("header", "lines", "folder", "rows"),
    [
        ("", "cd /v\nsrun python a.py", "/v", {"cd /v": "kept"}),
        ("#SBATCH -D /w\n", "cd /v\nsrun python a.py", "/v", {"#SBATCH -D /w": "dropped", "cd /v": "kept"}),
        ("", "cd /v\ncd b\nsrun python a.py", "/v/b", {"cd /v": "dropped", "cd b": "kept"}),
        ("", "cd /v\nsrun -D /x python a.py", "/x", {"cd /v": "dropped", "srun -D /x": "kept"}),
        (
            "#SBATCH -D /w\n",
            "cd /v\nsrun -D /x apptainer exec --pwd /u a.sif python a.py",
            "/u",
            {"#SBATCH -D /w": "dropped", "cd /v": "dropped", "srun -D /x": "dropped", "apptainer --pwd /u": "changed"},
        ),
        ("", "[ -d /v ] && cd /v\nsrun -D /x python a.py", "/x", {"cd /v": "asked", "srun -D /x": "kept"}),
    ],
)
def test_the_folder_of_the_ranks_is_the_one_that_counts(
    header: str, lines: str, folder: str, rows: dict[str, str]
) -> None:
    """The last line that says it counts, then the step, then the image; no other row claims a folder."""
    _, draft = read(_HEAD + header + lines + "\n")

    assert draft.values["chdir"] == [folder]
    assert {row.what: str(row.verdict) for row in draft.rows if row.field == "chdir"} == rows


def test_a_command_that_reads_its_cpus_is_asked_where_they_are_others() -> None:
    text = _HEAD + "#SBATCH -c 16\nexport MAX_JOBS=$SLURM_CPUS_PER_TASK\nsrun python a.py\n"

    away, home = (carried(text, site, "generic").draft.rows for site in ("lumi", "generic"))

    assert [row.why for row in away if row.what.startswith("$SLURM_CPUS_PER_TASK")] == [
        "SLURM_CPUS_PER_TASK is 16 in the script, and 7 in the job"
    ]
    assert not [row for row in home if row.what.startswith("$SLURM_CPUS_PER_TASK")]


def test_a_question_stays_where_the_site_changes_the_answer() -> None:
    """Seen in a public script: how many GPUs it uses was asked, until a site of whole nodes had a number of its own."""
    text = "#!/bin/bash\n#SBATCH -N 4\n#SBATCH -t 60\ndeepspeed a.py\n"

    row = next(row for row in carried(text, "clariden", "frontier").draft.rows if row.what == "(no GPUs)")

    assert (row.verdict, row.now) == (Fate.ASKED, "-g 4")
    assert "are they as many as the ranks?" in row.why
    assert "1 × 4 of Clariden" in row.why


@pytest.mark.parametrize(
    ("lines", "exported"),
    [
        ("set -a\nA=1\nset +a\nB=2", ["A=1"]),
        ("set -eao pipefail\nA=1", ["A=1"]),
        ("set -o allexport\nA=1\nset +o allexport\nB=2", ["A=1"]),
        ("set -e\nA=1", []),
        ("set -- -a b\nA=1", []),
        ("A=1\nset -a\nB=2", ["B=2"]),
    ],
)
def test_what_set_exports_reaches_the_ranks(lines: str, exported: list[str]) -> None:
    _, draft = read(f"{_HEAD}{lines}\nsrun python a.py\n")

    assert draft.values.get("env", []) == exported


@pytest.mark.parametrize(
    ("line", "use", "verdict"),
    [
        ("A=/data/x", "cp -r $A .", Fate.DROPPED),
        ("A=$(date +%F | tr -d -)", "echo $A", Fate.DROPPED),
        ("A=$(basename $PWD)_`date`", 'cd "$A"', Fate.DROPPED),
        ("A=$(mkworkspace -q)", 'cd "$A"', Fate.ASKED),
        ("A=/x/`mkworkspace -q`", 'cd "$A"', Fate.ASKED),
        ("A=$(srun -w ${B[0]} hostname)", "echo $A", Fate.ASKED),
        ("A=${B}_x", "srun python b.py $A", Fate.KEPT),
        ("A=/data/x", "cd $A", Fate.KEPT),
        ("A=/data/x", "srun python b.py $A", Fate.KEPT),
        ("A=$(mkworkspace -q)", "srun python b.py $A", Fate.KEPT),
        ("A=$(python b.py --version)", "echo $A; srun python b.py", Fate.ASKED),
        ("A=`python b.py --version`", "echo $A; srun python b.py", Fate.ASKED),
        ("A='--lr 1 --seed 2'", "srun python b.py $A", Fate.KEPT),
        ("A=1", "cp x$A .\nsrun python b.py --epochs 21", Fate.DROPPED),
        ("A=/d", "export B=$A/x\nsrun python b.py", Fate.KEPT),
        ("A=4", "srun -n $A python b.py", Fate.KEPT),
    ],
)
def test_a_value_is_kept_where_the_job_has_it(line: str, use: str, verdict: Fate) -> None:
    row = _row(f"{_HEAD}{line}\n{use}\nsrun python a.py\n" if "srun" not in use else f"{_HEAD}{line}\n{use}\n", "A=")

    assert row.verdict == verdict, row


@pytest.mark.parametrize(
    ("lines", "command"),
    [
        ('run() { echo "+ $*"; "$@"; }\nrun python a.py --lr 1', ("python", "a.py", "--lr", "1")),
        ('run() { echo "$@"; eval "$@"; }\nrun "python a.py --lr 1"', ("python", "a.py", "--lr", "1")),
        ("run() { cp $1 /x; }\nrun b.py\npython a.py", ("python", "a.py")),
        ("run() { python b.py --one $1; }\nrun a.py", ("bash", "-c", 'exec python b.py --one "$1"')),
    ],
)
def test_a_function_is_read_for_the_command_that_it_starts(lines: str, command: tuple[str, ...]) -> None:
    _, draft = read(f"{_HEAD}{lines}\n")

    assert draft.command == command


@pytest.mark.parametrize(
    "lines",
    [
        "RANK=$SLURM_ARRAY_TASK_ID python a.py",
        "export WORLD_SIZE=$SLURM_ARRAY_TASK_COUNT\npython a.py",
        "srun env RANK=${SLURM_ARRAY_TASK_ID} python a.py",
    ],
)
def test_the_number_of_an_array_s_task_is_no_rank(lines: str) -> None:
    _, draft = read(f"{_HEAD}#SBATCH --array=0-3\n{lines}\n")

    assert [row.verdict for row in draft.rows if "SLURM_ARRAY" in row.what] == [Fate.ASKED]
