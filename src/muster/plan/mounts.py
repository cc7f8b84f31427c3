"""What of the host a command in an image sees: the same paths for every engine, each with its reason. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from muster.errors import RequestError
from muster.facts import Facts, ImageFacts
from muster.job.request import Request
from muster.model.plan import Mount, Reason
from muster.plan.python_environment import venv_in_image
from muster.plan.site_terms import reason_for
from muster.sites.load import Site
from muster.sites.schema import Container
from muster.sites.when import Situation, applies

__all__ = ["LIBRARY", "covered", "make_mounts", "without_tilde"]

# Where an image that has no `muster` of its own finds ours: its own folders stay as they are.
LIBRARY = "/opt/muster-ranks"
_NODE_TMP = "/tmp"  # noqa: S108  # the node's own, under the name that POSIX gives it


def make_mounts(
    request: Request, site: Site, facts: Facts, job: Situation, name: str | None, *, library: bool
) -> tuple[Mount, ...]:
    """Everything that is bound, parents before what lies in them; `name`: the site's container, if it has one."""
    seen = facts.image or ImageFacts()
    wanted = [
        *_places_of_the_run(request, facts, seen),
        *(_of_site(site, name, site.profile.containers[name], job) if name else ()),
        *_asked_for(request, facts),
    ]
    kept = list(_without_repeats([*wanted, *_behind_links(wanted, seen.real_paths)]))
    if library and seen.package is not None:
        why = Reason("`import muster` works in the image: the rank library, last on PYTHONPATH")
        kept.append(Mount(seen.package, f"{LIBRARY}/muster", why, read_only=True))
    return tuple(kept)


def covered(path: str, mounts: Iterable[Mount]) -> bool:
    """Return whether the path of the host is seen in the image under the same name."""
    return any(_lies_in(path, each.target) for each in mounts)


def _lies_in(path: str, folder: str) -> bool:
    return PurePosixPath(path).is_relative_to(folder)


def _places_of_the_run(request: Request, facts: Facts, seen: ImageFacts) -> Iterator[Mount]:
    here = facts.working_directory
    working = str(PurePosixPath(here) / request.chdir) if request.chdir else here
    for path, text in (
        (facts.home, "the home directory: settings and what programs keep there"),
        (seen.project, "the project that the working directory belongs to"),
        (working, "the working directory of the ranks"),
        (here, "run directories are made here"),
        (_venv(request, facts, seen), "the virtual environment of the ranks"),
        (_NODE_TMP, "the node's own temporary files"),
    ):
        if path is not None and path != "/":
            yield Mount(path, path, Reason(text))


def _venv(request: Request, facts: Facts, seen: ImageFacts) -> str | None:
    return None if seen.venv is not None and seen.venv.in_image else venv_in_image(request, facts)


def _of_site(site: Site, name: str, container: Container, job: Situation) -> Iterator[Mount]:
    for bind in container.binds:
        if applies(bind, job):
            why = reason_for(site, f"containers.{name}.binds.{bind.path}", bind.reason)
            yield Mount(bind.path, bind.to or bind.path, why)


def _asked_for(request: Request, facts: Facts) -> Iterator[Mount]:
    for text in request.bind:
        source, target, mode = (*text.split(":"), "", "", "")[:3]
        if text.count(":") > 2 or mode not in {"", "ro", "rw"} or not source:
            raise RequestError(f"--bind {text} is not SRC[:DST[:ro]]", hint="a path with a colon cannot be bound")
        absolute = PurePosixPath(facts.working_directory) / without_tilde(source, facts.home)
        if target and not target.startswith("/"):
            raise RequestError(f"--bind {text}: {target} is not an absolute path", hint=f"--bind {source}:/{target}")
        yield Mount(str(absolute), target or str(absolute), Reason("set by you", f"--bind {text}"), mode == "ro")


def without_tilde(path: str, home: str) -> str:
    """`~` is the home directory, as a shell has it."""
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def _behind_links(mounts: Iterable[Mount], real_paths: Mapping[str, str]) -> Iterator[Mount]:
    """Where a bound path leads through a link, files name the place behind it: it is bound under its own name too."""
    for mount in mounts:
        real = real_paths.get(mount.source, mount.source)
        if real != mount.source and mount.source == mount.target:
            why = Reason(f"{mount.source} is a link to it", mount.reason.origin, mount.reason.source)
            yield Mount(real, real, why, mount.read_only)


def _without_repeats(mounts: Iterable[Mount]) -> Iterator[Mount]:
    """Paths under their own names first, parents before children; a child of one that is bound alike says nothing new.

    What the user typed stays, in the order typed.
    """
    found = list(mounts)
    same = sorted((each for each in found if each.source == each.target), key=lambda each: len(each.source))
    kept: list[Mount] = []
    for mount in same:
        above = next((each for each in kept if _lies_in(mount.source, each.target)), None)
        if above is None or above.read_only != mount.read_only:
            kept.append(mount)
    yield from kept
    yield from (each for each in found if each.source != each.target)
