"""Which Python environment the ranks have: a virtual or conda environment, an image, or modules only. Pure."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec.structs import replace

from muster.errors import RequestError
from muster.facts import Facts
from muster.job.request import Request
from muster.plan.model import Prelude, Reason, Variable

__all__ = ["PythonEnvironment", "activation", "as_variables", "chosen", "environment_of"]

_NOTHING = {"venv": "none", "conda": None, "image": None}


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
    """The request with one environment: `--with` says which, else what was typed stands before what a file says."""
    kind = request.environment
    if kind is None:
        return _typed_before_found(request)
    if kind != "modules" and getattr(request, kind) in {None, "none"}:
        what = {"image": "image", "venv": "virtual environment", "conda": "conda environment"}[kind]
        raise RequestError(f"--with {kind}, and no {what} is named", hint=f"--{kind}, or {kind} = … in muster.toml")
    return replace(request, **{name: value for name, value in _NOTHING.items() if name != kind})


def _typed_before_found(request: Request) -> Request:
    venv = None if request.venv == "none" else request.venv
    if not (request.conda and venv):
        return request
    typed = [name for name in ("venv", "conda") if request.origin(name).startswith("--")]
    if len(typed) == 1:
        return replace(request, **({"venv": "none"} if typed == ["conda"] else {"conda": None}))
    raise RequestError(
        "a virtual environment and a conda environment are both named", hint="--with venv, or --with conda"
    )


def environment_of(request: Request, facts: Facts) -> PythonEnvironment | None:
    """The folder of the ranks' Python; None: an image, modules, or what the host has."""
    if request.image:
        return None
    if request.conda:
        return PythonEnvironment("conda", request.conda.rstrip("/"), request.origin("conda"))
    if request.venv is not None:
        folder, origin = request.venv, request.origin("venv")
    else:
        folder, origin = facts.environment.get("VIRTUAL_ENV", ""), "your active environment"
    return PythonEnvironment("venv", folder.rstrip("/"), origin) if folder and folder != "none" else None


_IN_WORDS = {"venv": "virtual environment", "conda": "conda environment"}


def activation(environment: PythonEnvironment | None) -> Iterator[Prelude]:
    """The command of the script that makes it the ranks' own."""
    if environment is None:
        return
    name = _IN_WORDS[environment.kind]
    by = (".", f"{environment.folder}/bin/activate")
    yield Prelude(
        by if environment.kind == "venv" else ("muster_conda", environment.folder),
        Reason(f"the ranks run in this {name}", environment.origin),
        f"the {name} {environment.folder} is not there",
        "is it on a file system that the compute nodes see?",
    )


def as_variables(environment: PythonEnvironment | None, facts: Facts) -> Iterator[Variable]:
    """The same on this machine, where no script stands before the ranks."""
    if environment is None:
        return
    reason = Reason(f"the ranks run in this {_IN_WORDS[environment.kind]}", environment.origin)
    home = "VIRTUAL_ENV" if environment.kind == "venv" else "CONDA_PREFIX"
    yield Variable("PATH", f"{environment.folder}/bin:{facts.environment.get('PATH', '')}", reason)
    yield Variable(home, environment.folder, reason)
