"""`muster build`: environments, made once and proved: images, virtual environments, locks."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from muster.cli.command_line import JSON, QUIET, CommandLine, Words
from muster.cli.output import print_json, print_table, say
from muster.errors import RequestError, SiteError
from muster.images.reference import ImageReference, Scheme
from muster.job.option import option, parse_flag
from muster.rank.vendors import KINDS
from muster.runner import become, own_command

if TYPE_CHECKING:
    from muster.sites.site import Site
    from muster_build.image import ImageOrder
    from muster_build.registry import Login
    from muster_build.source import ImageSource


def _in_order(verb: Callable[[Words], int]) -> Callable[[Words], int]:
    """Return what starts a verb so that it clears up however it ends, and says so where no space is left."""

    def start(words: Words) -> int:
        _end_in_order()
        try:
            return verb(words)
        except OSError as error:
            if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
                raise
            raise SiteError(
                f"no space is left to build: {error.filename or error.strerror}",
                hint="name a cache with more room: --cache DIR; the result needs room in its own folder too",
            ) from None

    return start


def _here_or_as_job(verb: Callable[[Words], int]) -> Callable[[Words], int]:
    """Return what starts a verb here, or with --job in a job."""

    def start(words: Words) -> int:
        if words.given is not None:
            from muster_build.job import take_over

            os.environ.update(take_over(words.given))
        return _as_job(verb, words) if words.job else verb(words)

    return _in_order(start)


def _as_job(verb: Callable[[Words], int], words: Words) -> int:
    """Run the same words as the one rank of a job; its output is followed as that of every run."""
    from muster.cli.launching import start_by_name
    from muster_build.job import PASSWORD, follow, handed_over

    start_by_name("build", [*words.verb.split()[1:], *words.without()])
    secret = {}
    if verb is _image:
        login = _login(words, _image_order(words))
        if login is not None and words.login is not None:
            secret = {words.password_env or PASSWORD: login.password}
    target: Path = words.output if verb is _image else Path(words.operands[0])
    name = ["--job-name", f"build-{target.name}"]
    with handed_over(target.absolute(), os.environ, secret) as file:
        muster = own_command()
        of_site = ["--site", words.site] if words.site else []
        job = [*muster, "run", "-N", "1", "--ntasks-per-node", "1", *name, *of_site, *words.job_option, "--"]
        status = follow([*job, *muster, *words.verb.split(), "--given", str(file), *_words_for_job(words)])
    if status == 0 and not target.exists():
        raise SiteError(
            f"the job ended with status 0, but {target} is not to be seen here",
            hint="its output stands above; name a folder that the compute nodes see too",
        )
    return status


def _words_for_job(words: Words) -> list[str]:
    """Return the words without those that make it a job; a password comes from a variable, for a job has no stdin."""
    from muster_build.job import PASSWORD

    rest = words.without("job", "job_option", "password_stdin", "given")
    return ["--password-env", PASSWORD, *rest] if getattr(words, "password_stdin", False) else rest


def _end_in_order() -> None:
    """Let a signal end the build in order: a cancelled job, a closed terminal."""

    def leave(number: int, frame: object) -> NoReturn:
        del frame
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, leave)


def _image(words: Words) -> int:
    from muster_build.engine import find_builder
    from muster_build.image import build_image

    order = _image_order(words)
    login = _login(words, order)
    engines = ("enroot",) if order.is_squashfs else ("apptainer", "singularity")
    builder = find_builder(os.environ, words.cache and words.cache.absolute(), os.getuid(), names=engines)
    build_image(order, builder, lambda text: say(text, quiet=words.quiet), login=login)
    print(words.output)
    return 0


def _image_order(words: Words) -> ImageOrder:
    """Return what is to be built; what a look refuses needs no engine, and no place in a queue."""
    from muster_build.definition import parse_copy
    from muster_build.image import ImageOrder, check_order

    order = ImageOrder(
        output=words.output.absolute(),
        source=_source(words),
        definition=getattr(words, "def"),
        requirements=words.pip,
        wheelhouse=words.wheelhouse,
        offline=words.offline,
        copies=tuple(parse_copy(text) for text in words.copy),
        sandbox=words.sandbox,
        replace=words.replace,
    )
    check_order(order, lambda _: None)  # who builds it says the warnings
    return order


def _venv(words: Words) -> int:
    from muster.look.probe import look
    from muster.sites.load import choose_site
    from muster_build.venv import VenvOrder, build_venv

    if not words.operands[0]:
        raise RequestError("the name of the folder is empty", hint="muster build venv DIR")
    site = choose_site(words.site, look())
    modules = site.profile.modules  # as the jobs that will run in it load them
    order = VenvOrder(
        directory=Path(words.operands[0]).absolute(),
        python=words.python,
        requirements=words.requirements,
        modules=(*(modules.load or ()), *words.module),
        module_use=(*(modules.use or ()), *words.module_use),
        wheelhouse=words.wheelhouse,
        offline=words.offline,
        replace=words.replace,
        gpu_kind=words.gpu_kind or _target(site)[1],
    )
    build_venv(order, os.environ, lambda text: say(text, quiet=words.quiet))
    print(words.operands[0])
    return 0


def _target(site: Site) -> tuple[str | None, str | None]:
    """Return machine and GPUs of the nodes that a site's jobs get if they name no partition."""
    from muster.job.request import Request
    from muster.plan.site_values import node_kind

    node = node_kind(site, Request(command=()))[1]
    return node.arch, node.gpu_kind


def _lock(words: Words) -> int:
    from muster_build.lock import LockOrder, build_lock, notes_on, read_pins

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
    values = {name: getattr(words, name) for name in names}
    if words.site is not None:
        from muster.look.probe import look
        from muster.sites.load import choose_site

        arch, gpu_kind = _target(choose_site(words.site, look()))
        values |= {"arch": words.arch or arch, "gpu_kind": words.gpu_kind or gpu_kind}
    order = LockOrder(**values)
    pins = read_pins(order)
    rows = [(pin.name, pin.level, "pip" if pin.from_pip else "conda") for pin in pins]
    if words.json:
        print_json([dict(zip(("name", "level", "from"), row)) for row in rows])
    else:
        print_table("packages", ("package", "pinned", "from"), rows)
        for note in notes_on(pins):
            say(note)
    if words.output is not None:
        count = build_lock(order, Path(sys.executable), os.environ, say)
        say(f"{words.output} holds {count} package{'s' * (count != 1)}")
    return 0


def _source(words: Words) -> ImageSource | None:
    if getattr(words, "from") is None:
        return None
    from muster_build.source import parse_source

    source = parse_source(getattr(words, "from"))
    if source.site_name is None:
        return source
    from muster.job.request import Request
    from muster.look.probe import look
    from muster.plan.image_engine import reference_of
    from muster.sites.load import choose_site

    facts = look()
    image = ImageReference(Scheme.SITE, source.site_name)
    reference = reference_of(Request(command=(), image=image), choose_site(words.site, facts), facts)
    return parse_source(reference.path or str(reference.image)) if reference else None


def _login(words: Words, order: ImageOrder) -> Login | None:
    from muster_build.podman import first_registry, is_containerfile
    from muster_build.registry import Login, login_from_file

    registry = order.source.registry if order.source else None
    if order.source is None and is_containerfile(order.definition):
        registry = first_registry(order.definition.read_text(errors="replace"))
    if registry is None:
        return None
    if words.login is None:
        if words.password_env or words.password_stdin:
            raise RequestError("a password is given, but no user", hint="--login USER")
        return login_from_file(registry, os.environ, Path.home())
    if words.password_stdin:
        return Login(words.login, sys.stdin.readline().rstrip("\n"))
    password = os.environ.get(words.password_env or "")
    if not password:
        raise RequestError(
            f"there is no password for {words.login}",
            hint="--password-env NAME (a variable that holds it) or --password-stdin",
        )
    return Login(words.login, password)


def _shell(words: Words) -> int:
    from muster.look.image_facts import look_at_path
    from muster_build.engine import find_builder

    sandbox = Path(words.operands[0])
    image_facts = look_at_path(sandbox)
    if image_facts.kind == "missing":
        raise RequestError(f"there is no sandbox {sandbox}", hint="muster build image --sandbox -o DIR makes one")
    if image_facts.kind != "sandbox":
        raise RequestError(
            f"{sandbox} is not a sandbox, and only a sandbox can be changed",
            hint=f"muster build image --from {sandbox} --sandbox -o DIR makes one of an image",
        )
    builder = find_builder(os.environ, None, os.getuid())
    root = [] if os.getuid() == 0 else ["--fakeroot"]
    become([builder.program, "shell", "--writable", *root, str(sandbox.absolute())], os.environ)


_GIVEN = option("--given FILE", "what a job of --job is handed", Path, group="hidden")
_WHEELHOUSE = option("--wheelhouse DIR", "folder of wheels that build lock has fetched", Path)
_OFFLINE = option("--offline", "take packages only from --wheelhouse")
_GPU_KINDS = ("cpu", *KINDS)
_SAID_KINDS = f"{', '.join(_GPU_KINDS[:-1])} or {_GPU_KINDS[-1]}"
_BUILDING = (
    option("--cache DIR", "folder for fetched files", Path),
    option("--replace", "replace an existing one, once the new one has passed its tests"),
    option("--job", "build in a job of one node, with the site's queue and time"),
    option(
        "--job-option FLAG",
        "add an option of muster run for the job of --job: --job-option=-Aphys",
        parse_flag,
        repeated=True,
        whole_flags=True,
    ),
    QUIET,
    _GIVEN,
)
_IMAGE = CommandLine(
    name="build image",
    start=_here_or_as_job(_image),
    summary="Make an image, from a registry, an archive, an image or a definition.",
    options=(
        option("-o --output X.sif", "image to make: X.sif, X.sqsh or a directory", Path, required=True),
        option("--from IMAGE", "source of the image: docker://…, docker-archive:FILE, X.sif, X.sqsh, DIR or site:NAME"),
        option(
            "--def FILE",
            "definition file, or a simple Containerfile; with --from it is applied on top of that image",
            Path,
        ),
        option("--pip FILE", "requirements file to install in the image", Path),
        _WHEELHOUSE,
        _OFFLINE,
        option("--copy SRC:DST", "copy a file or directory into the image", repeated=True),
        option("--sandbox", "make a directory that can be changed, not one file"),
        option("--site SITE", "site of the image site:NAME"),
        option("--login USER", "user name at the registry (default: the one that docker login has kept)"),
        option("--password-env NAME", "name of the variable that holds the password"),
        option("--password-stdin", "read the password from stdin"),
        *_BUILDING,
    ),
    examples=("muster build image --from docker://python:3.12-slim --pip r.txt -o train.sif",),
)
_VENV = CommandLine(
    name="build venv",
    start=_here_or_as_job(_venv),
    summary="Make a virtual environment, under the modules it will run with.",
    operands="DIR",
    least=1,
    most=1,
    options=(
        option("--python P", "the Python of the environment", default="python3"),
        option("--requirements FILE", "requirements file to install", Path, repeated=True),
        option("--module NAME", "a module to load first", repeated=True),
        option("--module-use DIR", "a directory with more modules", repeated=True),
        option(
            "--gpu-kind KIND", f"{_SAID_KINDS}, if not the site's; packages for others are refused", choices=_GPU_KINDS
        ),
        option("--site SITE", "site whose modules are loaded first (default: the one that is detected)"),
        _WHEELHOUSE,
        _OFFLINE,
        *_BUILDING,
    ),
    examples=("muster build venv --requirements requirements.txt venv",),
)
_LOCK = CommandLine(
    name="build lock",
    start=_in_order(_lock),
    summary="Find the wheels that a target needs, to the byte; and fill a wheelhouse that holds them.",
    options=(
        option(
            "--requirements FILE",
            "requirements file; or a conda environment file, which is only judged",
            Path,
            required=True,
        ),
        option("-o --output LOCK", "file for the lock (default: none; the requirements are only judged)", Path),
        option("--wheelhouse DIR", "fetch the wheels too", Path),
        option("--site SITE", "take the machine and the GPUs of this site's nodes as the target"),
        option("--arch A", "machine of the target: x86_64, aarch64"),
        option("--glibc V", "C library of the target", default="2.28"),
        option("--python-version V", "Python of the target: 3.11"),
        option(
            "--gpu-kind KIND", f"GPUs of the target: {_SAID_KINDS}; packages for others are refused", choices=_GPU_KINDS
        ),
        option("--find-links DIR", "folder of wheels that are here already", Path),
        option("--offline", "look only in --find-links"),
        JSON,
    ),
    examples=("muster build lock --requirements r.txt -o lock.txt --wheelhouse wheels",),
)
_SHELL = CommandLine(
    name="build shell",
    start=_in_order(_shell),
    summary="Open a shell in a sandbox, to change it.",
    operands="DIR",
    least=1,
    most=1,
    examples=("muster build shell sandbox/",),
)
COMMAND = CommandLine(
    name="build",
    summary="""\
Make environments, and prove that they work: images, virtual environments, locks. The name of the result appears only
when it is whole.""",
    verbs=(_IMAGE, _VENV, _LOCK, _SHELL),
)
