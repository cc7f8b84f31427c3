"""`muster build`: environments, made once and proved: images, virtual environments, locks."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from muster.cli.output import say
from muster.errors import RequestError, SiteError

if TYPE_CHECKING:
    from muster.build.cotainr import CondaOrder
    from muster.build.image import ImageOrder
    from muster.build.registry import Login
    from muster.build.source import Source
    from muster.sites.load import Site

_DESCRIPTION = """\
Environments, made once and proved; nothing half-built ever has the finished name.

  muster build image --from docker://python:3.12-slim --pip requirements.txt -o train.sif
  muster build venv --requirements requirements.txt venv
  muster build lock --requirements requirements.txt -o lock.txt --wheelhouse wheels
  muster build shell sandbox/
"""


class _Parser(argparse.ArgumentParser):
    """An argparse parser whose complaints are ours."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**settings, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        raise RequestError(message, hint=f"{self.prog} --help")


def main(words: list[str]) -> int:
    """Run one verb of `muster build`; returns its exit status."""
    options = _parser().parse_args(words)
    if options.given is not None:
        from muster.build.job import take_over

        os.environ.update(take_over(options.given))
    _end_in_order()
    if getattr(options, "job", False):
        return _as_job(options, words)
    verb: Callable[[argparse.Namespace], int] = options.verb
    try:
        return verb(options)
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise SiteError(
            f"no space is left to build: {error.filename or error.strerror}",
            hint="--cache DIR names a roomier place; what is built needs room where it is to be",
        ) from None


def _parser() -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    top = _Parser(prog="muster build", description=_DESCRIPTION, formatter_class=layout)
    top.add_argument("--given", type=Path, help=argparse.SUPPRESS)
    verbs = top.add_subparsers(metavar="VERB", required=True, parser_class=_Parser)

    page = verbs.add_parser("image", help="an image, from a registry, an archive, an image or a definition")
    page.add_argument(
        "--from", dest="source", metavar="IMAGE", help="docker://…, docker-archive:FILE, X.sif, X.sqsh, DIR, site:NAME"
    )
    page.add_argument(
        "--def",
        dest="definition",
        type=Path,
        metavar="FILE",
        help="a definition, on top of --from if both are given; or a simple Containerfile",
    )
    page.add_argument("--pip", dest="requirements", type=Path, metavar="FILE", help="requirements to install in it")
    _packages(page)
    page.add_argument(
        "--copy",
        action="append",
        default=[],
        metavar="SRC:DST",
        help="a file or directory to put into it; may be given again",
    )
    page.add_argument(
        "--conda", type=Path, metavar="FILE", help="a conda environment file to install in it, by cotainr"
    )
    page.add_argument("--system", metavar="NAME", help="with --conda: cotainr's name of a system, for its base image")
    page.add_argument(
        "--gpu-kind", choices=("cpu", "cuda", "rocm"), help="with --conda: packages for others are refused"
    )
    page.add_argument(
        "--accept-licenses", action="store_true", help="you accept the licence of Miniforge, which cotainr installs"
    )
    page.add_argument("--sandbox", action="store_true", help="a directory that can be changed, instead of one file")
    page.add_argument("-o", "--output", type=Path, required=True, metavar="X.sif", help="what is made")
    page.add_argument("--site", metavar="NAME", help="whose image site:NAME is")
    page.add_argument("--login", metavar="USER", help="user of the registry; without it, what docker login has kept")
    page.add_argument("--password-env", metavar="NAME", help="the variable that holds the password")
    page.add_argument("--password-stdin", action="store_true", help="read the password from stdin")
    _common(page, _image)

    page = verbs.add_parser("venv", help="a virtual environment, under the modules it will run with")
    page.add_argument("directory", type=Path, metavar="DIR")
    page.add_argument(
        "--python", default="python3", metavar="P", help="the Python that it is made with (default: python3)"
    )
    page.add_argument(
        "--requirements",
        action="append",
        type=Path,
        default=[],
        metavar="FILE",
        help="what to install; may be given again",
    )
    page.add_argument(
        "--module", action="append", default=[], metavar="NAME", help="a module to load first; may be given again"
    )
    page.add_argument("--module-use", action="append", default=[], metavar="DIR", help="a directory with more modules")
    page.add_argument(
        "--with",
        dest="recipes",
        action="append",
        default=[],
        metavar="NAME",
        help="software that is compiled against what is there: horovod",
    )
    page.add_argument("--nccl", type=Path, metavar="DIR", help="the NCCL to compile against, if not the modules'")
    page.add_argument(
        "--gpu-kind",
        choices=("cpu", "cuda", "rocm"),
        help="its GPUs, if not the site's; others are refused",
    )
    page.add_argument("--site", metavar="NAME", help="whose modules are loaded first; detected if not given")
    _packages(page)
    _common(page, _venv)

    page = verbs.add_parser("lock", help="which wheels a target needs, to the byte; and a wheelhouse that holds them")
    page.add_argument(
        "--requirements",
        type=Path,
        required=True,
        metavar="FILE",
        help="a requirements file; or a conda environment file, to be judged",
    )
    page.add_argument(
        "-o", "--output", type=Path, metavar="LOCK", help="where the lock goes; without it, the file is only judged"
    )
    page.add_argument("--wheelhouse", type=Path, metavar="DIR", help="fetch the wheels too")
    page.add_argument("--site", metavar="NAME", help="the target is a node of this site: its machine and its GPUs")
    page.add_argument("--arch", metavar="A", help="machine of the target: x86_64, aarch64")
    page.add_argument("--glibc", default="2.28", metavar="V", help="its C library (default: 2.28)")
    page.add_argument("--python-version", metavar="V", help="its Python, 3.11")
    page.add_argument("--gpu-kind", choices=("cpu", "cuda", "rocm"), help="its GPUs: packages for others are refused")
    page.add_argument(
        "--conda-prefix", type=Path, metavar="DIR", help="of a conda file: the environment that conda has made of it"
    )
    page.add_argument("--find-links", type=Path, metavar="DIR", help="wheels that are here already")
    page.add_argument("--offline", action="store_true", help="look nowhere but in --find-links")
    page.add_argument("--json", action="store_true", help="the judgement as one JSON document")
    page.set_defaults(verb=_lock)

    page = verbs.add_parser("shell", help="a shell in a sandbox, to change it")
    page.add_argument("sandbox", type=Path, metavar="DIR")
    page.set_defaults(verb=_shell)
    return top


def _packages(page: argparse.ArgumentParser) -> None:
    page.add_argument("--wheelhouse", type=Path, metavar="DIR", help="wheels that build lock has fetched")
    page.add_argument("--offline", action="store_true", help="take packages from the wheelhouse only")


def _common(page: argparse.ArgumentParser, verb: Callable[[argparse.Namespace], int]) -> None:
    page.add_argument("--cache", type=Path, metavar="DIR", help="where what is fetched is kept")
    page.add_argument(
        "--replace", action="store_true", help="put the new one in the place of what is there, once it is proved"
    )
    page.add_argument("--job", action="store_true", help="build in a job of one node, with the site's queue and time")
    page.add_argument(
        "--job-option",
        action="append",
        default=[],
        metavar="FLAG",
        help="an option of muster run for that job: --job-option=-Aphys",
    )
    page.add_argument("--quiet", action="store_true", help="no progress")
    page.set_defaults(verb=verb)


def _as_job(options: argparse.Namespace, words: list[str]) -> int:
    """The same words as the one rank of a job; its output is followed as that of every run."""
    from muster.build.image import check_order
    from muster.build.job import PASSWORD, follow, handed_over, words_for_job
    from muster.cli.launching import start_by_name

    start_by_name("build", words)
    secret = {}
    if options.verb is _image:
        # What a look from here refuses is not worth a place in a queue.
        order = _image_order(options)
        login = _login(options, order)
        check_order(order, lambda _: None)  # the job says it
        if login is not None and options.login is not None:
            secret = {options.password_env or PASSWORD: login.password}
    target: Path = options.output if hasattr(options, "output") else options.directory
    name = ["--job-name", f"build-{target.name}"]
    with handed_over(target.absolute(), os.environ, secret) as file:
        muster = [sys.executable, "-m", "muster"]
        job = [*muster, "run", "-N", "1", "--ntasks-per-node", "1", *name, *options.job_option, "--"]
        return follow([*job, *muster, "build", "--given", str(file), *words_for_job(words)])


def _end_in_order() -> None:
    """Whoever ends us lets us clear up: a cancelled job, a closed terminal."""

    def leave(number: int, frame: object) -> NoReturn:
        del frame
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, leave)


def _image(options: argparse.Namespace) -> int:
    from muster.build.engine import find_builder
    from muster.build.image import build_image

    order = _image_order(options)
    login = _login(options, order)
    engines = ("enroot",) if order.is_squashfs else ("apptainer", "singularity")
    builder = find_builder(os.environ, options.cache and options.cache.absolute(), os.getuid(), names=engines)
    build_image(order, builder, lambda text: say(text, quiet=options.quiet), login=login)
    print(options.output)
    return 0


def _image_order(options: argparse.Namespace) -> ImageOrder:
    from muster.build.definition import parse_copy
    from muster.build.image import ImageOrder

    return ImageOrder(
        output=options.output.absolute(),
        source=_source(options),
        definition=options.definition,
        requirements=options.requirements,
        wheelhouse=options.wheelhouse,
        offline=options.offline,
        copies=tuple(parse_copy(words) for words in options.copy),
        conda=_conda(options),
        sandbox=options.sandbox,
        replace=options.replace,
    )


def _conda(options: argparse.Namespace) -> CondaOrder | None:
    from muster.build.cotainr import CondaOrder

    if options.conda is None:
        if options.system or options.gpu_kind or options.accept_licenses:
            raise RequestError("--system, --gpu-kind and --accept-licenses go with --conda", hint="--conda FILE")
        return None
    return CondaOrder(options.conda, options.system, options.accept_licenses, options.gpu_kind)


def _venv(options: argparse.Namespace) -> int:
    from muster.build.venv import VenvOrder, build_venv
    from muster.look.probe import look
    from muster.sites.load import choose_site

    site = choose_site(options.site, look())
    modules = site.profile.modules  # as the jobs that will run in it load them
    order = VenvOrder(
        directory=options.directory.absolute(),
        python=options.python,
        requirements=tuple(options.requirements),
        modules=(*(modules.load or ()), *options.module),
        module_use=(*(modules.use or ()), *options.module_use),
        recipes=tuple(options.recipes),
        nccl=options.nccl and options.nccl.absolute(),
        wheelhouse=options.wheelhouse,
        offline=options.offline,
        replace=options.replace,
        gpu_kind=options.gpu_kind or _target(site)[1],
    )
    build_venv(order, os.environ, lambda text: say(text, quiet=options.quiet))
    print(options.directory)
    return 0


def _target(site: Site) -> tuple[str | None, str | None]:
    """Machine and GPUs of the nodes that a site's jobs get if they name no partition."""
    from muster.job.request import Request
    from muster.plan.site_terms import node_kind

    node = node_kind(site, Request(command=()))[1]
    return node.arch, node.gpu_kind


def _lock(options: argparse.Namespace) -> int:
    from muster.build.conda_names import conda_has
    from muster.build.lock import LockOrder, build_lock, notes_on, read_pins
    from muster.cli.output import print_json, print_table

    names = (
        "requirements",
        "output",
        "wheelhouse",
        "arch",
        "glibc",
        "python_version",
        "gpu_kind",
        "find_links",
        "offline",
    )
    values = {name: getattr(options, name) for name in names}
    if options.site is not None:
        from muster.look.probe import look
        from muster.sites.load import choose_site

        arch, gpu_kind = _target(choose_site(options.site, look()))
        values |= {"arch": options.arch or arch, "gpu_kind": options.gpu_kind or gpu_kind}
    order = LockOrder(**values, prefix=options.conda_prefix)
    pins = read_pins(order)
    if options.json:
        conda = dict(conda_has(pins))
        print_json(
            [
                {
                    "name": pin.name,
                    "level": pin.level,
                    "from": "pip" if pin.from_pip else "conda",
                    "conda": conda.get(pin),
                }
                for pin in pins
            ]
        )
    else:
        rows = [(pin.name, pin.level, "pip" if pin.from_pip else "conda") for pin in pins]
        print_table("packages", ("package", "pinned", "from"), rows)
        for note in notes_on(pins):
            say(note)
    if options.output is not None:
        count = build_lock(order, Path(sys.executable), os.environ, say)
        say(f"{options.output} holds {count} packages")
    return 0


def _source(options: argparse.Namespace) -> Source | None:
    if options.source is None:
        return None
    from muster.build.source import parse_source

    source = parse_source(options.source)
    if source.site_name is None:
        return source
    from muster.job.request import Request
    from muster.look.probe import look
    from muster.plan.image_engine import reference_of
    from muster.sites.load import choose_site

    facts = look()
    found = reference_of(Request(command=(), image=options.source), choose_site(options.site, facts), facts)
    return parse_source(found.path or found.text) if found else None


def _login(options: argparse.Namespace, order: ImageOrder) -> Login | None:
    from muster.build.podman import first_registry, is_containerfile
    from muster.build.registry import Login, login_from_file

    registry = order.source.registry if order.source else None
    if order.source is None and order.definition and is_containerfile(order.definition) and order.definition.is_file():
        registry = first_registry(order.definition.read_text(errors="replace"))
    if registry is None:
        return None
    if options.login is None:
        if options.password_env or options.password_stdin:
            raise RequestError("a password without a user", hint="--login USER")
        return login_from_file(registry, Path.home())
    if options.password_stdin:
        return Login(options.login, sys.stdin.readline().rstrip("\n"))
    password = os.environ.get(options.password_env or "")
    if not password:
        raise RequestError(
            f"there is no password for {options.login}",
            hint="--password-env NAME (a variable that holds it) or --password-stdin",
        )
    return Login(options.login, password)


def _shell(options: argparse.Namespace) -> int:
    from muster.build.engine import find_builder
    from muster.look.image_facts import look_at_path
    from muster.runner import become

    seen = look_at_path(options.sandbox)
    if seen.kind == "missing":
        raise RequestError(
            f"there is no sandbox {options.sandbox}", hint="look at its name; --sandbox -o DIR makes one"
        )
    if seen.kind != "sandbox":
        raise RequestError(
            f"{options.sandbox} is no sandbox, and only a sandbox can be changed",
            hint=f"muster build image --from {options.sandbox} --sandbox -o DIR makes one of an image",
        )
    builder = find_builder(os.environ, None, os.getuid())
    root = [] if os.getuid() == 0 else ["--fakeroot"]
    become([builder.program, "shell", "--writable", *root, str(options.sandbox.absolute())], os.environ)
