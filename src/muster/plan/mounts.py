"""What of the host a command in an image sees: the same paths for every engine, each with its reason. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from msgspec.structs import replace

from muster.errors import RequestError
from muster.facts import Facts, ImageFacts
from muster.job.request import Request
from muster.model.plan import Mount, Reason
from muster.plan.site_values import reason_for
from muster.sites.schema import Container
from muster.sites.site import Site
from muster.sites.when import Situation, applies

# Where an image that has no `muster` of its own finds ours: its own folders stay as they are.
LIBRARY = "/opt/muster-ranks"
_NODE_TMP = "/tmp"  # noqa: S108  # the node's own, under the name that POSIX gives it


def make_mounts(
    request: Request, site: Site, facts: Facts, job: Situation, name: str | None, *, venv: str | None, library: bool
) -> tuple[Mount, ...]:
    """Return everything that is bound, parents before what lies in them.

    `name`: the site's container, if it has one; `venv`: the virtual environment that the command has in the image.
    """
    image_facts = facts.image or ImageFacts()
    wanted_mounts = [
        *_places_of_the_run(request, facts, image_facts, venv),
        *(_of_site(site, name, site.profile.containers[name], job) if name else ()),
        *_asked_for(request, facts),
    ]
    kept_mounts = list(_without_repeats([*wanted_mounts, *_behind_links(wanted_mounts, image_facts.real_paths)]))
    if library and image_facts.package is not None:
        reason = Reason("`import muster` works in the image: the rank library, last on PYTHONPATH")
        kept_mounts.append(Mount(image_facts.package, f"{LIBRARY}/muster", reason, read_only=True))
    return tuple(kept_mounts)


def covered(path: str, mounts: Iterable[Mount]) -> bool:
    """Return whether the path of the host is seen in the image under the same name."""
    return any(lies_in(path, other_mount.target) for other_mount in mounts)


def lies_in(path: str, folder: str) -> bool:
    """Return whether a path is a folder, or lies below it."""
    return PurePosixPath(path).is_relative_to(folder)


def _places_of_the_run(request: Request, facts: Facts, image_facts: ImageFacts, venv: str | None) -> Iterator[Mount]:
    working_directory = facts.working_directory
    working = str(PurePosixPath(working_directory) / request.chdir) if request.chdir else working_directory
    for path, text in (
        (facts.home, "the home directory: settings and what programs keep there"),
        (image_facts.project, "the project that the working directory belongs to"),
        (working, "the working directory of the ranks"),
        (working_directory, "run directories are made here"),
        (
            None if image_facts.venv is not None and image_facts.venv.in_image else venv,
            "the virtual environment of the ranks",
        ),
        (_NODE_TMP, "the node's own temporary files"),
    ):
        if path is not None and path != "/":
            yield Mount(path, path, Reason(text))


def _of_site(site: Site, name: str, container: Container, job: Situation) -> Iterator[Mount]:
    for bind in container.binds:
        if applies(bind, job):
            reason = reason_for(site, f"containers.{name}.binds.{bind.path}", bind.reason)
            yield Mount(bind.path, bind.to or bind.path, reason)


def _asked_for(request: Request, facts: Facts) -> Iterator[Mount]:
    for text in request.bind:
        source, target, mode = (*text.split(":"), "", "", "")[:3]
        if text.count(":") > 2 or mode not in {"", "ro", "rw"} or not source:
            raise RequestError(f"--bind {text} is not SRC[:DST[:ro]]", hint="a path with a colon cannot be bound")
        absolute = PurePosixPath(facts.working_directory) / source
        if target and not target.startswith("/"):
            raise RequestError(f"--bind {text}: {target} is not an absolute path", hint=f"--bind {source}:/{target}")
        yield Mount(
            str(absolute), target or str(absolute), Reason("set by you", f"--bind {text}"), mode == "ro", is_asked=True
        )


def _behind_links(mounts: Iterable[Mount], real_paths: Mapping[str, str]) -> Iterator[Mount]:
    """Yield mounts of the places behind links of bound paths: files name those places too."""
    for mount in mounts:
        real = real_paths.get(mount.source, mount.source)
        if real != mount.source and mount.source == mount.target:
            reason = replace(mount.reason, text=f"{mount.source} is a link to it")
            yield Mount(real, real, reason, mount.read_only, mount.is_asked)


def _without_repeats(mounts: Iterable[Mount]) -> Iterator[Mount]:
    """Yield paths under their own names first, parents before children.

    A child of one that is bound alike adds nothing.

    What the user typed stays, in the order typed.
    """
    mount_list = list(mounts)
    same_paths = sorted(
        (mount for mount in mount_list if mount.source == mount.target), key=lambda mount: len(mount.source)
    )
    kept_mounts: list[Mount] = []
    for mount in same_paths:
        parent_mount = next(
            (kept_mount for kept_mount in kept_mounts if lies_in(mount.source, kept_mount.target)), None
        )
        if parent_mount is None or parent_mount.read_only != mount.read_only:
            kept_mounts.append(mount)
    yield from kept_mounts
    yield from (mount for mount in mount_list if mount.source != mount.target)
