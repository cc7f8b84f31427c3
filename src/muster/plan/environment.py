"""The environment of the ranks, and the commands of the script that make it: modules, a virtual environment. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from muster.errors import RequestError
from muster.facts import Facts
from muster.job.request import Request
from muster.launchers.base import Launcher
from muster.model.finish import Finish
from muster.model.plan import Engine, ImageUse, Note, Prelude, PreludeKind, Reason, Variable
from muster.model.words import Hidden, quote, template
from muster.plan.asked import Asked
from muster.plan.finish import finish_variables
from muster.plan.python_environment import activation, as_variables, environment_of
from muster.plan.script_fit import jax_variables
from muster.plan.secret import hide, shown_assignment
from muster.plan.site_values import node_kind, reason_for
from muster.plan.terms import Terms
from muster.rank import contract
from muster.sites.site import Site

_LEFT_OVER = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RUN_ID"),
    *("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"),
)
# What changes a training, and people set in their shell.
_FELT = (
    *(
        "PYTHONPATH",
        "PYTHONHOME",
        "PYENV_VERSION",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "OMP_NUM_THREADS",
        "XDG_CACHE_HOME",
    ),
    *("HF_", "TRANSFORMERS_", "TOKENIZERS_", "WANDB_", "MLFLOW_", "COMET_", "TORCH_", "PYTORCH_", "TRITON_"),
    *("NCCL_", "RCCL_", "MIOPEN_", "UCX_", "FI_", "OMPI_MCA_", "GLOO_"),
)
_OURS = frozenset({"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK"})


class Environment(msgspec.Struct, frozen=True):
    """What the ranks have around them."""

    variables: tuple[Variable, ...]
    prelude: tuple[Prelude, ...]


def make_environment(
    asked: Asked, facts: Facts, launcher: Launcher, terms: Terms, image: ImageUse, finish: Finish | None
) -> Environment:
    """Return the variables of the ranks, of each name the last, and the commands before the ranks start."""
    request = asked.request
    # Where no script stands before the ranks; an environment that is active is in their PATH already.
    is_here = asked.engine is Engine.HERE and bool(request.conda or request.venv)
    variables = (
        *_kept_outside(image),
        *launcher.variables(),
        *jax_variables(facts.script, asked.engine),
        *_agent_variables(request, launcher),
        *finish_variables(finish),
        *(as_variables(environment_of(request, facts), facts) if is_here else ()),
        *make_variables(request, terms, facts),
    )
    if image.image is not None:
        from muster.plan.image_paths import check_places

        check_places(image, asked.directory, variables)
    last_of_each = {variable.name: variable for variable in variables}
    return Environment(tuple(last_of_each.values()), make_prelude(request, asked.site, terms, facts, image))


def _kept_outside(image: ImageUse) -> Iterable[Variable]:
    if image.image is None:
        return ()
    from muster.plan.image import keep_host_outside

    return keep_host_outside(image)


# Flags of the agents that Muster gives itself: another value would be another job.
_OWN_AGENT_FLAGS = frozenset(
    (
        *("nnodes", "nproc-per-node", "rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "standalone"),
        *("node-rank", "master-addr", "master-port", "local-addr", "log-dir", "redirects", "tee", "no-python"),
        *("module", "run-path"),
    )
)


def _agent_variables(request: Request, launcher: Launcher) -> tuple[Variable, ...]:
    """Return the user's flags for the agents, which stand behind Muster's own."""
    flags = request.torchrun if launcher.agent else ()
    for flag in flags:
        name = flag.lstrip("-").partition("=")[0].replace("_", "-")
        if not flag.startswith("--") or name in _OWN_AGENT_FLAGS:
            raise RequestError(
                f"--torchrun={flag}: Muster sets it, or it is not a flag", hint="--torchrun=--max-restarts=3"
            )
    if not flags:
        return ()
    # Each ends in a line break: the shell takes them apart there.
    value = "".join(f"{flag}\n" for flag in flags)
    return (Variable(contract.AGENT_FLAGS, value, Reason(request.set_by("torchrun"), request.origin("torchrun"))),)


def make_variables(request: Request, terms: Terms, facts: Facts) -> tuple[Variable, ...]:
    """Return the site's variables, then the user's: what the user asks for wins."""
    variables_by_name = {variable.name: variable for variable in terms.variables}
    for name, variable in _resolver():
        variables_by_name.setdefault(name, variable)
    for assignment in request.env:
        name, equals, value = assignment.partition("=")
        reason = Reason("set by you", f"--env {shown_assignment(assignment)}")
        if name in _OURS:
            raise RequestError(f"--env {name}: every rank has its own {name}", hint="omit it: Muster sets it")
        if name in {"MASTER_ADDR", "MASTER_PORT"}:
            option = name.lower().replace("_", "-")
            raise RequestError(
                f"--env {name} would be overwritten by the wire-up", hint=f"--{option} {value or 'VALUE'}"
            )
        if equals:
            variables_by_name[name] = Variable(name, template(value), reason)
        elif name in facts.environment:
            passed_on = Hidden(facts.environment[name])
            variables_by_name[name] = Variable(name, passed_on, Reason("passed on, as you asked", f"--env {name}"))
        else:
            raise RequestError(f"--env {name}: your environment has no {name}", hint=f"--env {name}=VALUE")
    for name in request.unset_env:
        variables_by_name[name] = Variable(name, None, Reason("unset by you", f"--unset-env {name}"))
    return tuple(hide(variable) for variable in variables_by_name.values())


def left_over(request: Request, facts: Facts) -> Iterator[Note]:
    """Yield what another launch left in the environment: none of it reaches the ranks, and nobody has to wonder."""
    left_names = [name for name in _LEFT_OVER if facts.environment.get(name)]
    if left_names:
        verb = "comes" if len(left_names) == 1 else "come"
        yield Note(
            f"{', '.join(left_names)} in your environment {verb} from another launch; every rank gets its own"
            f" (unset {' '.join(left_names)})"
        )
    address = facts.environment.get("MASTER_ADDR", "")
    if not address or request.master_addr:
        return
    host, colon, port = address.partition(":")
    if colon and ":" not in port:
        yield Note(
            f"MASTER_ADDR={address} in your environment holds a port, so it is not used: MASTER_ADDR is a host alone"
            f" (--master-addr {host} --master-port {port})",
            warning=True,
        )
    else:
        yield Note(f"MASTER_ADDR={address} in your environment is not used (--master-addr {address} asks for it)")


def stays_behind(request: Request, facts: Facts, variables: Iterable[Variable]) -> Iterator[Note]:
    """Yield a note on what a run has and a queued job has not.

    Its ranks get the plan's variables, not the typing shell's.
    """
    if request.export != "NONE":
        return
    known_names = {variable.name for variable in variables}
    names = sorted(
        name for name, value in facts.environment.items() if value and name not in known_names and _is_felt(name)
    )
    if names:
        env_options = " ".join(f"--env {name}" for name in names)
        yield Note(
            f"a queued job starts without these of your shell, unless your login files set them: {', '.join(names)} "
            f"({env_options} passes on, --export ALL everything)"
        )
    conda = facts.environment.get("CONDA_PREFIX")
    if conda and "CONDA_PREFIX" not in known_names and not (request.conda or request.venv or request.image):
        yield Note(f"the conda environment {conda} is not activated in a queued job (--conda {quote(conda)} does it)")


def _is_felt(name: str) -> bool:
    """Return whether a rank behaves otherwise for it; the place of mpirun's own files is not such a variable."""
    return not name.endswith("_tmpdir_base") and any(
        name == felt_name or (felt_name.endswith("_") and name.startswith(felt_name)) for felt_name in _FELT
    )


def _resolver() -> Iterator[tuple[str, Variable]]:
    reason = Reason(
        "torch's store looks up the name of every rank that connects: a name server that is silent would cost 10 s; "
        "three tries of a second, for one packet may be lost",
        "muster",
        "omit it with --unset-env RES_OPTIONS",
        short="a silent name server costs little",
    )
    yield "RES_OPTIONS", Variable("RES_OPTIONS", "timeout:1 attempts:3", reason)


def make_prelude(request: Request, site: Site, terms: Terms, facts: Facts, image: ImageUse) -> tuple[Prelude, ...]:
    """Return modules, the site's own commands and the virtual environment, in the order in which they must stand."""
    environment = environment_of(request, facts)
    return (*_modules(request, site, image), *terms.prelude, *activation(environment))


def _modules(request: Request, site: Site, image: ImageUse) -> Iterator[Prelude]:
    """Yield the site's modules, then the user's.

    An image has its own software and wants what its engine needs, no more.
    """
    known_modules = site.profile.modules
    words = [
        *_of_site("use", request, site, image),
        *(("use", folder, "", request.origin("module_use")) for folder in request.module_use),
        *_of_site("load", request, site, image),
        *(("load", name, "", request.origin("module")) for name in request.module),
    ]
    if not words:
        return
    yield _module_command(known_modules.init)
    if known_modules.purge is not False:
        yield Prelude(
            PreludeKind.MODULE,
            ("module", "purge"),
            reason_for(site, "modules.purge", "the modules of the submitting shell are unloaded"),
            "module purge failed",
            "module list shows what is loaded",
        )
    for verb, name, key, origin in words:
        reason = reason_for(site, key, "what a torch job of this site loads") if key else Reason("set by you", origin)
        hint = "is the directory there?" if verb == "use" else "module avail shows which versions are there"
        failure = f"module {verb} {name.replace('|', ' or ')} failed"
        kind = PreludeKind.MODULE_USE if verb == "use" else PreludeKind.MODULE_LOAD
        yield Prelude(kind, (f"muster_{verb}", name), reason, failure, hint, stops_itself=True)


def _of_site(verb: str, request: Request, site: Site, image: ImageUse) -> Iterator[tuple[str, str, str, str]]:
    """Yield (verb, module or folder, key of the profile, nothing) for what the site itself wants."""
    known_modules = site.profile.modules
    if image.image is not None:
        container = site.profile.containers.get(image.container or "")
        names = (container.module_use if verb == "use" else container.modules) if container else ()
        yield from ((verb, name, f"containers.{image.container}", "") for name in names or ())
        return
    if verb == "use":
        yield from ((verb, folder, "modules.use", "") for folder in known_modules.use or ())
        return
    kind, _ = node_kind(site, request)
    yield from ((verb, name, f"modules.by_kind.{kind}", "") for name in known_modules.by_kind.get(kind or "", ()))
    yield from ((verb, name, "modules.load", "") for name in known_modules.load or ())
    if brings_torch(request, site):
        yield from ((verb, name, "modules.torch", "") for name in known_modules.torch or ())


def brings_torch(request: Request, site: Site) -> bool:
    """Return whether the site's own torch is loaded: where the user names no environment, module or image."""
    environment_name = request.venv or request.conda or request.module or request.image
    return bool(site.profile.modules.torch) and not environment_name


def _module_command(init: tuple[str, ...] | None) -> Prelude:
    files = init or ("/etc/profile",)
    return Prelude(
        PreludeKind.MODULES_KNOWN,
        ("muster_modules", *files),
        Reason("a batch shell may not know `module` yet"),
        f"this host has no modules: {' '.join(files)} cannot be read",
        "omit --module, or correct the site profile",
        stops_itself=True,
    )
