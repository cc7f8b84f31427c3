"""A command that is itself a launcher, whatever stands before it; and its settings in our words. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from posixpath import basename
from typing import TYPE_CHECKING

import msgspec

from muster.errors import RequestError
from muster.words.chain import StartedProgram, is_script, read_launcher, split_wrappers
from muster.words.programs import KnownProgram
from muster.words.shell_text import commands_in_shell, commands_of

if TYPE_CHECKING:
    from muster.plan.accelerate import AccelerateConfig

# Their command is a recipe of their own, which the program itself starts.
_OWN_COMMANDS = {"llamafactory-cli": "llamafactory.launcher", "axolotl": "axolotl.cli.train"}
_PER_NODE = {"nproc_per_node", "nproc", "ntasks_per_node", "n_proc_per_node", "npernode", "ppn", "ranks_per_node"}
_NODES = {"nnodes", "num_machines", "num_nodes", "nodes", "N"}
_IN_ALL = {"num_processes", "np", "n", "ntasks", "world_size"}
# What Muster does by itself.
_DONE = {
    *("node_rank", "machine_rank", "master_addr", "master_port", "main_process_ip", "main_process_port", "local_addr"),
    *("rdzv_id", "rdzv_backend", "rdzv_endpoint", "rdzv_conf", "standalone", "no_python", "multi_gpu", "module", "m"),
    *("use_env", "same_network", "hostfile", "H", "host", "hosts", "machinefile", "label", "l", "kill_on_bad_exit"),
}
_ACCELERATES = {
    "mixed_precision": "ACCELERATE_MIXED_PRECISION",
    "use_fsdp": "ACCELERATE_USE_FSDP",
    "use_deepspeed": "ACCELERATE_USE_DEEPSPEED",
    "deepspeed_config_file": "ACCELERATE_DEEPSPEED_CONFIG_FILE",
    "zero_stage": "ACCELERATE_DEEPSPEED_ZERO_STAGE",
    "gradient_accumulation_steps": "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
    "gradient_clipping": "ACCELERATE_GRADIENT_CLIPPING",
    "dynamo_backend": "ACCELERATE_DYNAMO_BACKEND",
    "cpu": "ACCELERATE_USE_CPU",
    "use_cpu": "ACCELERATE_USE_CPU",
    "debug": "ACCELERATE_DEBUG_MODE",
    "fsdp_transformer_layer_cls_to_wrap": "FSDP_TRANSFORMER_CLS_TO_WRAP",
    "num_cpu_threads_per_process": "OMP_NUM_THREADS",
}
_ADVICE = {
    "config_file": "what stands in it has to be given with --env: muster port of a script with this line prints it",
}
_VARIABLE = r"\$(?:[A-Za-z_]|\{)"
_AWARE = r"\$\{?(?:LOCAL_RANK|RANK|WORLD_SIZE|MUSTER_\w+|SLURM_PROCID)\b"


class Nested(msgspec.Struct, frozen=True):
    """The launcher that stands in a command."""

    ours: str
    """The launcher of Muster that does the same."""

    name: str
    """As a sentence calls it."""

    before: tuple[str, ...]
    """What stands before it: env, uv run."""

    options: tuple[tuple[str, str, str], ...]
    """Name, spelling and value of each of its options."""

    command: tuple[str, ...]
    """The command of its ranks, as each rank runs it."""

    recipe: str | None = None
    """The name of one of torchtune's own recipes, where the command is none of the user's files."""


def nested_launcher(words: Sequence[str]) -> Nested | None:
    """Return the launcher that these words start, directly or behind others; None: none."""
    wrapper_words, rest = split_wrappers(words)
    if not rest:
        return None
    for command in commands_in_shell(rest):
        inner = nested_launcher(command)
        if inner is not None:
            return inner
    read = read_launcher(rest)
    if read is None:
        return None
    link, program = read
    is_one_process = link.name == "tune" and not any(
        option.name.startswith(("--nproc", "--nnodes", "--standalone")) for option in link.options
    )
    if program.launcher is None or is_one_process:
        return None
    python = basename(rest[0])
    if link.first:
        name = f"{python} -m {link.name}" if rest[link.first - 1] == "-m" else f"{python} {link.name}"
    else:
        name = python
        wrapper_words = tuple(word for word in wrapper_words if word not in {"exec", "command"})
    command = _command(link, program, rest)
    recipe = rest[link.end] if link.name == "tune" and command and not rest[link.end].endswith(".py") else None
    return Nested(program.launcher, name, wrapper_words, tuple(_options(link, rest)), command, recipe)


def launcher_in_text(text: str) -> Nested | None:
    """Return the launcher that a shell script starts; None where it looks at its rank and so knows of being started."""
    if re.search(_AWARE, text):
        return None
    return next(filter(None, map(nested_launcher, commands_of(text))), None)


def file_of_launcher(words: Sequence[str]) -> str | None:
    """Return the file that accelerate in these words reads its settings from."""
    nested = nested_launcher(words)
    if nested is None or nested.name != "accelerate":
        return None
    return next((value for name, _, value in nested.options if name == "config_file"), None)


def refuse_launcher(
    nested: Nested,
    place: str = "the command",
    *,
    nodes: int | None = None,
    launcher_file: tuple[str, str] | None = None,
) -> RequestError:
    """Return the refusal, with the same start in our words and what they cannot say.

    `nodes`: what was typed before the command; a count of all ranks is divided by it.
    """
    command = nested.command
    words: list[str] = []
    rest: list[str] = []
    sizes = _Sizes(nodes)
    config, in_config = _configured(nested.options, launcher_file)
    for name, text, value in nested.options:
        if name in in_config:
            continue
        if not sizes.take(name, value) and name not in _DONE and (name, value) != ("max_restarts", "0"):
            option_text = _as_ours(nested.name, name, value)
            (words if option_text else rest).append(option_text or text)
    if config is not None:
        words += [f"--env {shlex.quote(f'{name}={value}')}" for name, value in config.variables.items()]
        sizes.in_all = sizes.in_all or (str(config.processes) if config.processes else None)
        sizes.nodes = sizes.nodes or (str(config.machines) if (config.machines or 1) > 1 else None)
    if nested.name in _OWN_COMMANDS:
        module_words = f"--launcher torchrun -- python -m {_OWN_COMMANDS[nested.name]} FILE"
        return RequestError(_sentence(nested, place), hint=f"let Muster start its module: {module_words}")
    before_words = "let Muster start it"
    if nested.recipe:
        before_words = f"copy the recipe, tune cp {nested.recipe} {nested.recipe}.py, and let Muster start it"
    typed_command = " ".join(map(_as_typed, (*nested.before, *command)))
    muster_words = " ".join([*sizes.words(), *words, "--launcher", nested.ours, "--", typed_command or "COMMAND"])
    rest_note = f"; Muster has no word for {', '.join(rest)}" if rest else ""
    advice = [_ADVICE[name] for name, _, _ in nested.options if name in _ADVICE and name not in in_config]
    return RequestError(
        _sentence(nested, place),
        hint=f"{before_words}: {muster_words}{rest_note}{''.join(f' ({sentence})' for sentence in advice)}",
    )


def _as_typed(word: str) -> str:
    """Return a word as a person types it: a shell's variable stays one, and a script's own arguments have a name."""
    if word in {"$@", "$*"}:
        return "ARGUMENTS"
    return f'"{word}"' if re.search(_VARIABLE, word) and not set(word) & set('"`\\') else shlex.quote(word)


def _configured(
    options: Sequence[tuple[str, str, str]], launcher_file: tuple[str, str] | None
) -> tuple[AccelerateConfig | None, frozenset[str]]:
    """Return what accelerate's file means, and the options that stand in it; nothing where that is not certain."""
    if launcher_file is None:
        return None, frozenset()
    from muster.plan.accelerate import TYPED, read_accelerate_config

    typed = {name: value or "true" for name, _, value in options if name in TYPED}
    config = read_accelerate_config(launcher_file[1], launcher_file[0], typed)
    return (None, frozenset()) if config.question else (config, frozenset({"config_file", *typed}))


def _sentence(nested: Nested, place: str) -> str:
    return f"{place} starts with a launcher of its own ({nested.name}): every rank would start ranks again"


def _command(link: StartedProgram, program: KnownProgram, words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that a launcher's ranks run, from its script or program on."""
    rest = words[link.end :]
    if program.launcher != "torchrun" or not rest:
        return ("python", *rest) if rest and rest[0].endswith(".py") else rest
    if link.name == "tune":
        return ("python", rest[0] if rest[0].endswith(".py") else f"{rest[0]}.py", *rest[1:])
    if any(option.name in {"-m", "--module"} for option in link.options):
        return ("python", "-m", *rest)
    # Behind words that are not known (torchx run dist.ddp --script), the script is the first word that looks like one.
    start = next((index for index, word in enumerate(rest) if is_script(word)), None)
    if start is None:
        return ()
    return ("python", *rest[start:]) if rest[start].endswith(".py") else rest[start:]


def _options(link: StartedProgram, words: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield name, spelling and value of each option."""
    for option in link.options:
        word = words[option.at]
        is_one_word = (
            option.value is None or word.startswith(f"{option.name}=") or word == f"{option.name}{option.value}"
        )
        name = option.name.lstrip("-").replace("-", "_")
        if name == "n" and link.name.startswith("composer"):
            name = "nproc"  # the ranks of a node, which for all others is the number of all
        yield name, word if is_one_word else f"{option.name} {option.value}", option.value or ""


def _as_ours(launcher: str, name: str, value: str) -> str | None:
    """Return the option of Muster, or the variable, that means the same."""
    if name == "max_restarts" and value.isdigit():
        return f"--restart {value}"
    if "accelerate" in launcher:
        variable = _ACCELERATES.get(name) or (name.upper() if name.startswith("fsdp_") else None)
        return variable and f"--env {variable}={value or 'true'}"
    if launcher == "deepspeed" and name == "num_gpus" and value.isdigit():
        return f"-g {value}"
    if launcher.startswith("mpi") and name == "x":
        return f"--env {value}"
    if launcher == "srun":
        option = {"c": "-c", "cpus_per_task": "-c", "G": "-g", "gpus_per_node": "-g"}.get(name)
        return option and f"{option} {value}"
    return None


class _Sizes:
    """Nodes and ranks per node, out of what other launchers count."""

    def __init__(self, typed: int | None) -> None:
        self.typed = typed
        self.nodes: str | None = None
        self.per_node: str | None = None
        self.in_all: str | None = None

    def take(self, name: str, value: str) -> bool:
        """Return whether this option was a size."""
        if not value.isdigit():
            return False
        for field, names in (("nodes", _NODES), ("per_node", _PER_NODE), ("in_all", _IN_ALL)):
            if name in names:
                setattr(self, field, value)  # of two the last counts, for all these programs
                return True
        return False

    def words(self) -> list[str]:
        """Return the sizes in our options."""
        nodes = int(self.nodes or self.typed or 1)
        if self.per_node is None and self.in_all is not None and int(self.in_all) % nodes == 0:
            self.per_node = str(int(self.in_all) // nodes)
        if self.nodes is None and self.per_node and self.in_all and int(self.in_all) > int(self.per_node) > 0:
            self.nodes = str(int(self.in_all) // int(self.per_node))
        words = [f"-N {self.nodes}"] if self.nodes else []
        return [*words, f"--ntasks-per-node {self.per_node}"] if self.per_node else words
