"""Which Python environment the ranks have: a virtual or conda environment, an image, or modules only. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from muster.errors import RequestError
from muster.facts import Facts
from muster.job.request import Request
from muster.model.plan import Prelude, PreludeKind, Reason, Variable

_NOTHING = {"venv": "none", "conda": None, "image": None}
_IN_WORDS = {"image": "image", "venv": "virtual environment", "conda": "conda environment"}


class PythonEnvironment(msgspec.Struct, frozen=True):
    """A folder with bin/python in it."""

    kind: str
    """venv or conda."""

    folder: str
    origin: str

    @property
    def python(self) -> str:
        return f"{self.folder}/bin/python"


def chosen(request: Request) -> Request:
    """Return the request with one environment: `--with` decides, else what was typed precedes what a file says."""
    kind = request.environment
    if kind is None:
        return _typed_before_found(request)
    kinds = set(kind.split("+")) - {"modules"}
    for name in sorted(kinds):
        if getattr(request, name) in {None, "none"}:
            hint = f"--{name}, or {name} = … in muster.toml"
            raise RequestError(f"--with {kind}, but no {_IN_WORDS[name]} is named", hint=hint)
    return replace(request, **{name: value for name, value in _NOTHING.items() if name not in kinds})


def _typed_before_found(request: Request) -> Request:
    given_names = [name for name in _IN_WORDS if getattr(request, name) not in {None, "none"}]
    typed_names = [name for name in given_names if request.typed(name)]
    if len(given_names) < 2 or typed_names == ["image", "venv"]:
        return replace(request, conda=None) if typed_names == ["image", "venv"] else request
    if len(typed_names) == 1:
        return replace(request, **{name: value for name, value in _NOTHING.items() if name not in typed_names})
    first, second = (typed_names if len(typed_names) == 2 else given_names)[:2]
    both_note = ", or --with image+venv for both" if {first, second} == {"image", "venv"} else ""
    raise RequestError(
        f"{_with_article(first)} and {_with_article(second)} are both named",
        hint=f"--with {first}, or --with {second}{both_note}",
    )


def _with_article(name: str) -> str:
    return f"{'an' if name == 'image' else 'a'} {_IN_WORDS[name]}"


def venv_in_image(request: Request, facts: Facts) -> str | None:
    """Return the folder of a virtual environment that the command is to have in its image; None: the image's own."""
    if not request.image or request.venv in {None, "none"}:
        return None
    from pathlib import PurePosixPath

    return str(PurePosixPath(facts.working_directory) / request.venv)


def environment_of(request: Request, facts: Facts) -> PythonEnvironment | None:
    """Return the folder of the ranks' Python; None: an image, modules, or what the host has."""
    if request.image:
        return None
    if request.conda:
        return PythonEnvironment("conda", request.conda.rstrip("/"), request.origin("conda"))
    if request.venv is not None:
        folder, origin = request.venv, request.origin("venv")
    else:
        folder, origin = facts.environment.get("VIRTUAL_ENV", ""), "your active environment"
    return PythonEnvironment("venv", folder.rstrip("/"), origin) if folder and folder != "none" else None


def refuse_missing_python(request: Request, facts: Facts) -> None:
    """Refuse an environment that is not there: on this host another Python would run and report nothing."""
    environment = environment_of(request, facts) if facts.python_is_missing else None
    if environment is not None:
        raise RequestError(f"there is no Python in {environment.folder}", hint="name the folder that holds bin/python")


def activation(environment: PythonEnvironment | None) -> Iterator[Prelude]:
    """Yield the command of the script that makes it the ranks' own."""
    if environment is None:
        return
    name = _IN_WORDS[environment.kind]
    is_venv = environment.kind == "venv"
    yield Prelude(
        PreludeKind.VENV if is_venv else PreludeKind.CONDA,
        (".", f"{environment.folder}/bin/activate") if is_venv else ("muster_conda", environment.folder),
        Reason(f"the ranks run in this {name}", environment.origin),
        f"the {name} {environment.folder} is not there",
        "is it on a file system that the compute nodes see?",
        folder=environment.folder,
    )


def as_variables(environment: PythonEnvironment | None, facts: Facts) -> Iterator[Variable]:
    """Yield the environment's variables for this machine, where no script stands before the ranks."""
    if environment is None:
        return
    reason = Reason(f"the ranks run in this {_IN_WORDS[environment.kind]}", environment.origin)
    home = "VIRTUAL_ENV" if environment.kind == "venv" else "CONDA_PREFIX"
    yield Variable("PATH", f"{environment.folder}/bin:{facts.environment.get('PATH', '')}", reason)
    yield Variable(home, environment.folder, reason)
