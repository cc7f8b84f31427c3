"""What a site's profile, a command and a host make of each other: one line for each condition that decides something.

Of two lines beside each other the second mostly lacks one thing that the first has.
"""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from msgspec.structs import replace

from launch.plans import FACTS, plan
from muster.errors import MusterError
from muster.facts import Facts, ImageFacts, ScriptFacts, VenvFacts
from muster.job.options import parse, request_from
from muster.model.plan import Shape
from muster.plan.interactive import for_a_shell
from muster.plan.nested import nested_launcher, refuse_launcher
from muster.plan.secret import passed_by_name
from muster.plan.staging import advice
from muster.sites.load import load
from sites.profiles import written

_HEAD = 'muster_site = 1\nname = "mine"\ntitle = "t"\n'
_NODE = "[nodes.a]\ngpus = 4\ncores = 64\nthreads_per_core = 1\nmemory_mib = 262144\n"
_QUEUE = '[[queue_rules]]\npartition = "q"\nreason = "r"\n[partitions.q]\nnode = "a"\n'
_CPUS = "[nodes.a]\ngpus = 0\ncores = 64\n[nodes.b]\ngpus = 0\n"
_BOTH = '[partitions.p]\nnode = "a"\nother_nodes = ["b"]\nsharing = "exclusive"\n'
_FILES = "[filesystems.a]\nuse = 'all'\npath = '/home'\nscope = 'shared'\n"
_RATED = "[filesystems.b]\nuse = 'all'\npath = '/b'\nscope = 'shared'\noperations_per_s = 5\n"
_VENV_OF_ADA = "--venv /home/ada/env"
_A = '[[environment]]\nname = "A"\nreason = "r"\n'
_STACKS = "".join(
    f'[[environment]]\nname = "S"\nvalue = "{stack}"\nreason = "r"\nwhen = {{ stacks = ["{stack}"] }}\n'
    for stack in ("one", "two")
)
_IMAGES = '[images.a]\npath = "/i/x.sif"\nstack = "one"\nreason = "r"\n[images.b]\npath = "/i/x.sif"\nstack = "two"\n'
_CONTAINERS = (
    '[containers.mine]\nengine = "apptainer"\nstack = "one"\n'
    '[containers.other]\nengine = "singularity"\nstack = "two"\npreferred = true\n'
)


def said(site: str, words: str, facts: Facts = FACTS) -> str:
    """What a plan says: directives, flags, variables, commands before the ranks, notes; or why it is refused."""
    try:
        made = plan(*shlex.split(words), "--", "python", "t.py", site=site, facts=facts)
    except MusterError as error:
        return f"refused: {error} | {error.hint}"
    rows = [f"{each.name}={each.value}" for each in made.directives]
    rows += [f"{each.word}" for each in made.step_flags]
    rows += [f"{each.name}={getattr(each.value, 'text', each.value)}" for each in made.variables]
    rows += [" ".join(map(str, each.words)) for each in made.prelude]
    rows += [f"{'warning: ' * each.warning}{each.text}" for each in made.notes]
    return "\n".join(["", *rows, ""])


@pytest.mark.parametrize(
    ("profile", "words", "part", "there"),
    [
        (f'{_A}value = "1"\nrequired = true\n', "--env A=2", "warning: --env A=2: mine needs A=1", True),
        (f'{_A}value = "1"\nrequired = true\n', "--env A=1", "mine needs", False),
        (f'{_A}value = "1"\nrequired = true\n', "--unset-env A", "--unset-env A: mine needs A=1", True),
        (f'{_A}value = "1"\n', "--env A=2", "mine needs", False),
        (f'{_A}value = "1"\nconflicts = ["B"]\n', "--env B=2", "warning: --env B=2 goes against A=1", True),
        (f'{_A}value = "1"\nconflicts = ["B"]\n', "--env C=2", "goes against", False),
        (f'{_A}value = "1"\nconflicts = ["B"]\n', "--env B=2 --unset-env A", "goes against", False),
        (f'{_A}unset = true\nconflicts = ["B"]\n', "--env B=2", "goes against", False),
        (f'{_A}value = "1"\n', "", "\nA=1\n", True),
        (f'{_A}value_of = "C"\n', "", '\nA="${C-}"\n', True),
        (f'{_A}value = "/a"\nprepended = true\n', "", '\nA="/a${A:+:$A}"\n', True),
        (f'{_A}value_of = "C"\nprepended = true\n', "", '\nA="${C-}${C:+${A:+:}}${A-}"\n', True),
        ('[modules]\nload = ["m"]\n', "", "muster_modules /etc/profile", True),
        ('[modules]\nload = ["m"]\ninit = ["/opt/init"]\n', "", "muster_modules /opt/init\n", True),
        ('[modules]\nload = ["m"]\nuse = ["/opt/m"]\n', "", "/opt/m", True),
        (f'{_NODE}{_QUEUE}[memory]\npolicy = "explicit"\nmem = "9G"\n', "-g 4", "\nmem=9G\n", True),
        (f'{_NODE}{_QUEUE}[memory]\npolicy = "explicit"\nmem = "9G"\n', "-g 2", "\nmem=9G\n", False),
        (f'{_NODE}mem_per_gpu = "2G"\n{_QUEUE}[memory]\npolicy = "explicit"\nmem = "9G"\n', "-g 4", "mem=9G", False),
        (f'{_NODE}{_QUEUE}[memory]\npolicy = "explicit"\n', "-g 4", "\nmem", False),
        (f'{_NODE}{_QUEUE}[memory]\npolicy = "free"\nmem = "9G"\n', "-g 4", "\nmem", False),
        (f'{_NODE}{_QUEUE}[memory]\npolicy = "forbidden"\ndefault_per_cpu = "9M"\n', "-g 2 -c 4", "\nmem", False),
        (f'{_NODE}{_QUEUE}[memory]\npolicy = "whole-node"\ndefault_per_cpu = "9M"\n', "-g 2 -c 4", "\nmem", False),
        (f'{_NODE}{_QUEUE}[memory]\npolicy = "per-gpu"\nmem_per_gpu = "2G"\n', "-g 2", "\nmem-per-gpu=2G\n", True),
        (f'{_NODE}{_QUEUE}[memory]\npolicy = "whole-node"\nmem_per_gpu = "2G"\n', "-g 2", "mem-per-gpu", False),
        (f'{_NODE}{_QUEUE}[memory]\npolicy = "per-gpu"\nmem_per_gpu = "2G"\n', "-g 0", "mem-per-gpu", False),
        (f"{_STACKS}{_IMAGES}", "--image site:a", "\nS=one\n", True),
        (f"{_STACKS}{_IMAGES}", "--image site:b", "\nS=two\n", True),
        (f"{_STACKS}{_IMAGES}", "--image /i/x.sif", "\nS=one\n", True),
        (f"{_STACKS}{_IMAGES}", "--image /i/y.sif", "\nS=", False),
        (f"{_STACKS}{_IMAGES}", "--image site:c", "known: a, b", True),
        (
            f"{_STACKS}{_IMAGES.replace('reason', 'gone = true@reason').replace('@', chr(10))}",
            "--image site:c",
            "known: b",
            True,
        ),
        (_IMAGES.replace("reason", "gone = true\nreason", 1), "--image /i/x.sif", "the image /i/x.sif is gone", True),
        (f"{_STACKS}{_CONTAINERS}", "--image y.sif --engine apptainer", "\nS=one\n", True),
        (f"{_STACKS}{_CONTAINERS}", "--image y.sif --engine mine", "\nS=one\n", True),
        (f"{_STACKS}{_CONTAINERS}", "--image y.sif --engine singularity", "\nS=two\n", True),
        (f"{_STACKS}{_CONTAINERS}", "--image y.sif", "\nS=two\n", True),
        (f"{_NODE}{_QUEUE}[memory]\ndefault_per_cpu = '9M'\n", "-g 2 -c 4", "\nmem=131072M\n", True),
        (f"{_NODE}{_QUEUE}[memory]\ndefault_per_cpu = '9M'\n", "-g 0 -c 4", "\nmem-per-cpu=4096M\n", True),
        (f"{_NODE}{_QUEUE}[memory]\ndefault_per_cpu = '9G'\n", "-g 0 -c 4", "\nmem-per-cpu=", False),
        (f"{_NODE}{_QUEUE}[memory]\ndefault_per_cpu = '9G'\n", "-g 0 -c 64", "\nmem-per-cpu=", True),
        (f"{_NODE.replace('cores', '#')}{_QUEUE}[memory]\ndefault_per_cpu = '9M'\n", "-g 2 -c 4", "\nmem", False),
        (f"{_NODE.replace('gpus', '#')}{_QUEUE}[memory]\ndefault_per_cpu = '9M'\n", "-g 2 -c 4", "mem-per-cpu", True),
        ('[request]\nrequeue = "never"\n', "", "\nno-requeue=", True),
        ('[request]\nrequeue = "never"\n', "--requeue", "no job of this site is run again", True),
        ('[request]\nrequeue = "never"\n', "-t 60 --until-done", "\nrequeue=", False),
        ('[request]\nrequeue = "never"\n', "-t 60 --until-done", "\nopen-mode=append\n", True),
        ('[request]\nrequeue = "never"\n', "", "\nopen-mode=", False),
        ('[request]\nrequeue = "asked"\n', "--requeue", "\nopen-mode=append\n", True),
        ('[request]\nrequeue = "asked"\n', "-t 60 --until-done", "\nrequeue=", True),
        (f'{_NODE}{_QUEUE}preempted = "requeue"\n', "-g 4", "\nrequeue=", True),
        (f'{_NODE}{_QUEUE}preempted = "requeue"\n', "-g 4 --sbatch=--no-requeue", "\nrequeue=", False),
        (f'{_NODE}{_QUEUE}preempted = "requeue"\n', "-g 4 --sbatch=--hint=x", "\nrequeue=", True),
        (f'{_NODE}{_QUEUE}preempted = "requeue"\n', "-g 4 --requeue --sbatch=--no-requeue", "contradict", True),
        (f"{_NODE}{_QUEUE}[partitions.c]\ngpus = 0\n", "-g 0", "-p c has nodes without", True),
        (f"{_NODE}{_QUEUE}[partitions.c]\ngpus = 0\nopen = false\n", "-g 0", "lists no queue without", True),
        (f"{_NODE}{_QUEUE}[partitions.c]\ngpus = 0\n", "-p c", "c has no GPUs", True),
        (f"{_NODE}{_QUEUE}[partitions.c]\ngpus = 0\n", "-p c --gres gpu:2", "refused: c has no GPUs", True),
        (f"{_NODE}{_QUEUE}[launch]\nqueues_from_jobs = false\n", "-t 60 --restart 1", "ahead", False),
        (f"{_NODE}{_QUEUE}[request]\nconstraint = {{ a = 'fast' }}\n", "-g 4", "\nconstraint=fast\n", True),
        (f"{_NODE}{_QUEUE}[request]\nconstraint = {{ a = 'fast' }}\n", "-g 0", "\nconstraint=", False),
        (f"{_CPUS}cores = 64\n{_BOTH}", "-p p", "\ncpus-per-task=64\n", True),
        (f"{_CPUS}cores = 32\n{_BOTH}", "-p p", "\ncpus-per-task=", False),
        (f"{_FILES}operations_per_s = 5\n", _VENV_OF_ADA, "--stage-env takes", True),
        (f"{_FILES}{_RATED}", _VENV_OF_ADA, "--stage-env takes", False),
        ("[[queue_rules]]\nreason = 'r'\n", "--trial", "names no queue for trials", True),
        ("[[queue_rules]]\nreason = 'r'\nwhen = { trial = true }\n", "--trial", "names no queue for trials", False),
    ],
)
def test_a_profile_decides(tmp_path: Path, profile: str, words: str, part: str, there: bool) -> None:
    site = str(written(tmp_path, _HEAD + profile))
    text = said(site, f"-N 2 {words}", replace(FACTS, environment={"A": "0"}))
    assert (part in text) is there, text
    assert there or not text.startswith("refused"), text


@pytest.mark.parametrize(
    ("words", "command", "part"),
    [
        ("", "srun -N 2 -n 7 python x.py", "it: -N 2 --launcher srun"),
        ("", "srun -N 2 -n 8 -N 4 python x.py", "it: -N 4 --ntasks-per-node 2 --launcher"),
        ("", "srun -N 2", "-- COMMAND"),
        ("-N 2", "mpirun -np 7 ./a.out", "it: --launcher mpirun"),
        ("-N 2", "mpirun -np 8 ./a.out", "it: -N 2 --ntasks-per-node 4 --launcher mpirun"),
        ("", "tune run --nproc_per_node 2", "--launcher torchrun -- COMMAND"),
        ("", "torchrun --nproc-per-node 2", "--launcher torchrun -- COMMAND"),
    ],
)
def test_a_launcher_in_the_command_is_put_into_musters_words(words: str, command: str, part: str) -> None:
    with pytest.raises(MusterError) as refused:
        plan(*shlex.split(words), "--", *shlex.split(command))
    assert part in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("typed", "file", "part"),
    [
        ("", "num_processes: 8\nnum_machines: 2\n", "-N 2 --ntasks-per-node 4 "),
        ("", "num_processes: 8\nnum_machines: 1\n", "it: --ntasks-per-node 8 "),
        ("", "num_processes: 8\n", "it: --ntasks-per-node 8 "),
        ("--num_machines 4", "num_processes: 8\nnum_machines: 2\n", "-N 4 --ntasks-per-node 2 "),
        ("--num_processes 16", "num_processes: 8\nnum_machines: 2\n", "-N 2 --ntasks-per-node 8 "),
    ],
)
def test_what_is_typed_comes_before_the_file_of_accelerate(typed: str, file: str, part: str) -> None:
    nested = nested_launcher(shlex.split(f"accelerate launch --config_file a.yaml {typed} x.py"))
    assert nested is not None
    assert part in (
        refuse_launcher(nested, launcher_file=("a.yaml", f"distributed_type: MULTI_GPU\n{file}")).hint or ""
    )


_OLD = ScriptFacts(path="t.py", modules=frozenset({"torch"}), local_rank_argument=True)


@pytest.mark.parametrize(
    ("words", "warned"),
    [
        ("python t.py", True),
        ("python t.py --local_rank=0", False),
        ("python t.py --local-rank 0", False),
        ("python t.py --local", True),
        ("python t.py --rank 0", True),
    ],
)
def test_a_script_that_takes_its_local_rank_is_given_one(words: str, warned: bool) -> None:
    made = plan("-N", "2", "-g", "2", "--", *words.split(), facts=replace(FACTS, script=_OLD))
    assert any("takes --local_rank" in note.text for note in made.notes) is warned


_SEEN = ImageFacts(
    kind="sif",
    arch="x86_64",
    machine="x86_64",
    looked_inside=True,
    has_sh=True,
    project="/home/ada/project",
    programs={"apptainer": "/usr/bin/apptainer", "podman-hpc": "/usr/bin/podman-hpc"},
    real_paths={each: each for each in ("/home/ada", "/home/ada/project", "/opt")},
    glibc=(2, 31),
)
_VENV = VenvFacts(folder="/home/ada/env", version="3.11", base="/opt/python", glibc=(2, 28))


def _with(**venv: object) -> ImageFacts:
    return replace(_SEEN, venv=replace(_VENV, **venv))


@pytest.mark.parametrize(
    ("image", "words", "refused"),
    [
        (_SEEN, "-g 4", None),
        (replace(_SEEN, made_for="cuda"), "-g 4", None),
        (replace(_SEEN, has_sh=False), "--launcher srun", None),
        (replace(_SEEN, has_sh=False), "--launcher torchrun", "has no sh, but"),
        (_with(in_image=True), "--venv /home/ada/env", None),
        (replace(_with(), looked_inside=False), "--venv /home/ada/env", None),
        (_with(), "--venv /home/ada/env --bind /opt", None),
        (_with(), "--venv /home/ada/env", "stands on /opt/python of Python 3.11"),
        (_with(base_in_image=True), "--venv /home/ada/env", None),
        (_with(version=None), "--venv /home/ada/env --bind /opt", "there is no Python in /home/ada/env"),
        (_with(base=None), "--venv /home/ada/env --bind /opt", "there is no Python in /home/ada/env"),
        (_with(glibc=None), "--venv /home/ada/env --bind /opt", None),
        (_with(glibc=(2, 31)), "--venv /home/ada/env --bind /opt", None),
        (_with(glibc=(2, 32)), "--venv /home/ada/env --bind /opt", "has glibc 2.31, but packages"),
        (replace(_with(glibc=(2, 32)), glibc=None), "--venv /home/ada/env --bind /opt", None),
    ],
)
def test_an_image_has_what_the_launch_needs_of_it(image: ImageFacts, words: str, refused: str | None) -> None:
    text = said("generic", f"-N 2 --image /i/x.sif {words}", replace(FACTS, image=image))
    assert (refused in text) if refused else not text.startswith("refused"), text


_HERE = replace(_SEEN, package="/opt/muster")


@pytest.mark.parametrize(
    ("image", "words", "ready", "mounts", "flags"),
    [
        (_HERE, "-g 0", False, True, False),
        (_HERE, "-g 0 --stacks-ready", True, True, False),
        (replace(_HERE, has_rank_library=True), "-g 0 --stacks-ready", True, True, False),
        (replace(_HERE, has_rank_library=True), "-g 0", False, False, False),
        (replace(_HERE, package=None), "-g 0 --stacks-ready", False, False, False),
        (_HERE, "-g 4", False, True, True),
    ],
)
def test_an_image_gets_what_the_ranks_need_in_it(
    tmp_path: Path, image: ImageFacts, words: str, ready: bool, mounts: bool, flags: bool
) -> None:
    site = written(tmp_path, f"{_HEAD}{_NODE}gpu_kind = 'cuda'\n{_QUEUE}[containers.apptainer]\nengine = 'apptainer'\n")
    facts = replace(FACTS, image=image, ready_folder="/r")
    made = plan("-N", "2", "--image", "/i/x.sif", *words.split(), "--", "x", site=str(site), facts=facts)
    assert (made.image.ready is not None, made.ready) == (ready, None)
    assert any(mount.target.endswith("/muster") for mount in made.image.mounts) is mounts
    assert bool(made.image.flags) is flags


@pytest.mark.parametrize(
    ("where", "step", "overlaps"), [({"within": True}, "0", True), ({"within": True}, "", False), ({}, "0", False)]
)
def test_a_step_over_an_allocation_shares_it_with_the_step_that_it_was_typed_in(
    where: dict[str, bool], step: str, overlaps: bool
) -> None:
    facts = replace(FACTS, environment={"SLURM_STEP_ID": step})
    assert plan("-N", "2", "--", "x", facts=facts, **where).overlap is overlaps  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["--env", "A_TOKEN=secretvalue"], {"A_TOKEN": "secretvalue"}),
        (["--env=A_TOKEN=secretvalue"], {"A_TOKEN": "secretvalue"}),
        (["--job-name", "A_TOKEN=secretvalue"], {}),
        (["--", "--env=A_TOKEN=secretvalue"], {}),
    ],
)
def test_a_secret_is_passed_by_its_name_where_it_is_the_value_of_a_variable(
    words: list[str], values: dict[str, str]
) -> None:
    kept, passed = passed_by_name(words)
    assert passed == values
    assert (kept == words) is not bool(values)


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        ("-g 2 --gres gpu:2", None),
        ("-g 2 --gres gpu:3", "contradict each other"),
        ("--env http_proxy", "has no http_proxy"),
        ("--env http_proxy=h:3128", None),
    ],
)
def test_what_is_said_twice_has_to_be_the_same(words: str, refused: str | None) -> None:
    text = said("generic", f"-N 2 {words}")
    assert (refused in text) if refused else not text.startswith("refused"), text


@pytest.mark.parametrize(
    ("queue", "words", "partition"),
    [
        ("", "", "p"),
        ("", "-p q", "q"),
        ("", "-q long", None),
        ("open = false\n", "", None),
    ],
)
def test_a_shell_gets_the_open_queue_for_interactive_work(
    tmp_path: Path, queue: str, words: str, partition: str | None
) -> None:
    site = written(tmp_path, f"{_HEAD}[partitions.p]\npurpose = 'interactive'\n{queue}[partitions.q]\n")
    values, origins, command = parse(words.split())
    request = for_a_shell(request_from({}, values, origins, command), load(str(site)), "bash")
    assert request.partition == partition


@pytest.mark.parametrize(("visibility", "said_so"), [("", "all"), ("visibility = 'one'\n", "one")])
def test_which_gpus_a_rank_sees_is_the_site_s_to_say(tmp_path: Path, visibility: str, said_so: str) -> None:
    site = written(tmp_path, f"{_HEAD}[devices]\n{visibility}")
    assert plan("-N", "2", "--", "x", site=str(site)).visibility == said_so
    assert plan("-N", "2", "--visibility", "all", "--", "x", site=str(site)).visibility == "all"


@pytest.mark.parametrize(
    ("files", "counted"),
    [
        ("scope = 'shared'\noperations_per_s = 5\n", True),
        ("scope = 'shared'\n", False),
        ("scope = 'node'\noperations_per_s = 5\n", False),
    ],
)
def test_the_time_of_imports_is_that_of_a_shared_file_system_whose_rate_is_known(
    tmp_path: Path, files: str, counted: bool
) -> None:
    site = load(str(written(tmp_path, f"{_HEAD}[filesystems.a]\nuse = 'all'\npath = '/a'\n{files}")))
    ((text, _),) = advice(site, Shape(2, 4, 4, 8), [])
    assert ("importing torch from a takes" in text) is counted
