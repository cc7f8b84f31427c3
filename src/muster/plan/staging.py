"""(request, site, facts) → what lies on the nodes' own disks while the ranks run, and whether that pays. Pure."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from pathlib import PurePosixPath

from muster.errors import RequestError
from muster.facts import Facts, StagingFacts
from muster.images import engine_named
from muster.job.request import Request
from muster.model.plan import Engine, ImageUse, Note, Reason, Shape, Staged, Staging
from muster.model.words import Fragment, Word
from muster.plan.mounts import lies_in
from muster.plan.python_environment import environment_of
from muster.plan.site_values import reason_for
from muster.sites.site import Site

IMPORT_OPERATIONS = 20_000
"""What one rank asks of the file system to import torch: 1,318 files opened, 18,485 looked at (torch 2.13, strace)."""

_OPTIONS = ("stage_env", "stage", "stage_out")


def make_staging(
    request: Request, site: Site, facts: Facts, shape: Shape, image: ImageUse, engine: Engine, directory: str
) -> Staging | None:
    """Return what was asked for, or the reason why that cannot be; None: on this machine nothing is copied."""
    if engine is Engine.HERE:
        return None
    bind_variable = engine_named(image.engine).bind_variable
    if image.image is not None and not bind_variable:
        raise RequestError(
            f"staged copies are mounted into an image by the script, but {image.engine} cannot be told of them there",
            hint="omit --stage…, or use --engine apptainer",
        )
    staging_facts = facts.staging or StagingFacts()
    things = [*(_environment(request, facts, staging_facts, image, directory) if request.stage_env else ())]
    things += [_data(name, staging_facts, directory) for name in dict.fromkeys(request.stage)]
    out_folder = _out(request, facts, staging_facts)
    for path in [thing.paths[0] for thing in things if thing.role == "data"] + ([out_folder] if out_folder else []):
        if bind_variable and set(path) & set(",:"):
            raise RequestError(
                f"{image.engine} cannot bind {path}: its name holds a colon or a comma",
                hint="rename it",
            )
    folder, reason = _folder(site)
    return Staging(
        folder=folder,
        folder_reason=reason,
        # Those that hold others first.
        things=tuple(sorted(things, key=lambda thing: (thing.role == "data", thing.paths[0]))),
        script=staging_facts.script,
        out=out_folder,
        word=_word(request, staging_facts, image),
        advice=tuple(advice(site, shape, things)),
    )


def _packed(directory: str, path: str) -> str:
    """Return the folder of packed copies beside a project's runs: compute nodes see it, and data may be read-only."""
    name = PurePosixPath(path).name.strip(".") or "root"
    return f"{directory}/muster-runs/stage/{name}-{zlib.crc32(path.encode(errors='surrogateescape')):08x}"


def _environment(
    request: Request, facts: Facts, staging_facts: StagingFacts, image: ImageUse, directory: str
) -> Iterator[Staged]:
    reason = Reason("every rank reads it from its node's own disk", request.origin("stage_env"))
    if image.image is not None:
        if image.kind not in {"sif", "squashfs", "sandbox"}:
            raise RequestError(
                f"--stage-env: the image {image.image} is not a file or folder on this host",
                hint="muster build image --from … -o X.sif, then --image X.sif",
            )
        real = staging_facts.real_paths.get(str(request.image), image.image)
        yield Staged(f"the image {image.image}", "image", (real,), _packed(directory, real), (real,), reason)
        return
    environment = environment_of(request, facts)
    if environment is None:
        raise RequestError(
            "--stage-env stages the ranks' environment, but they have none of their own",
            hint="name it with --venv, --conda or --image; --stage PATH copies any folder",
        )
    if not staging_facts.environment:
        raise RequestError(
            f"--stage-env: there is no folder {environment.folder} on this host", hint="name one with --venv or --conda"
        )
    paths = staging_facts.environment
    yield Staged(
        f"the environment {environment.folder}",
        "environment",
        paths,
        _packed(directory, paths[0]),
        staging_facts.signs,
        reason,
        staging_facts.leave_out,
    )


def _data(name: str, staging_facts: StagingFacts, directory: str) -> Staged:
    kind, path = staging_facts.kinds.get(name, "missing"), staging_facts.real_paths.get(name, name)
    if kind == "missing":
        raise RequestError(f"--stage {name}: there is no such folder or file", hint="name one that this host sees")
    if directory in staging_facts.real_paths and lies_in(staging_facts.real_paths[directory], path):
        raise RequestError(
            f"--stage {name} contains the working directory: what ranks write there would stay on the nodes",
            hint="stage the folder of the data alone",
        )
    reason = Reason("every rank reads it from its node's own disk", f"--stage {name}")
    return Staged(name, "data", (path,), _packed(directory, path), (path,), reason)


def _out(request: Request, facts: Facts, staging_facts: StagingFacts) -> str | None:
    name = request.stage_out
    if name is None:
        return None
    path = staging_facts.real_paths.get(name, name)
    if staging_facts.kinds.get(name) == "file":
        raise RequestError(f"--stage-out {name} is a file", hint="name a folder")
    for candidate in (facts.working_directory, request.chdir or ""):
        real = staging_facts.real_paths.get(candidate)
        if real is not None and lies_in(real, path):
            raise RequestError(
                f"--stage-out {name} contains the working directory, where Muster makes the run directories",
                hint="name a folder of its own: --stage-out out",
            )
    for data in request.stage:
        if lies_in(path, staging_facts.real_paths.get(data, data)):
            raise RequestError(
                f"--stage-out {name} lies in --stage {data}, which is packed as it is now",
                hint="name a folder beside it: --stage-out out",
            )
    return path


def _word(request: Request, staging_facts: StagingFacts, image: ImageUse) -> str | None:
    if not request.stage_env:
        return None
    if image.image is not None:
        return image.image
    return staging_facts.environment[0] if staging_facts.relocatable and staging_facts.environment else None


def _folder(site: Site) -> tuple[Word, Reason]:
    """Return the nodes' own disk, by the profile: one that outlives the job is better than one that ends with it."""
    own_filesystems = [
        (name, filesystem)
        for name, filesystem in site.profile.filesystems.items()
        if filesystem.scope in {"node", "job"}
    ]
    for name, filesystem in sorted(
        own_filesystems, key=lambda item: (bool(item[1].counts_as_memory), item[1].scope != "node")
    ):
        text = "the node's memory: staged copies count against it" if filesystem.counts_as_memory else filesystem.use
        return _path(filesystem.path), reason_for(site, f"filesystems.{name}.path", text)
    return "/tmp", Reason("no profile names a local disk of the nodes")  # noqa: S108  # what POSIX names


_EXPANDED = re.compile(r"[/A-Za-z0-9_.-]|\$USER\b|\$SLURM_JOB_ID\b")


def _path(path: str) -> Word:
    """Return a profile's path, in which $USER and $SLURM_JOB_ID are expanded, and nothing else."""
    return path if _EXPANDED.sub("", path) else Fragment(f'"{path}"')


def staging_notes(request: Request, engine: Engine, staging: Staging | None, facts: Facts) -> Iterator[Note]:
    """Yield what to know before pressing return."""
    if engine is Engine.HERE:
        asked_option = next(name for name in _OPTIONS if getattr(request, name))
        yield Note(
            f"--{asked_option.replace('_', '-')}: without Slurm nothing is copied: all files are on this machine"
        )
    staging_facts = facts.staging
    if staging is not None and staging_facts is not None and staging_facts.kinds.get(request.stage_out or "") == "tree":
        yield Note(f"--stage-out {request.stage_out}: the ranks see an empty folder at the start")


_PAYS_S = 60
"""Packing, sending and unpacking took a site 71 s where importing torch took 51 s: below this it is not proposed."""


def proposal(request: Request, site: Site, facts: Facts, shape: Shape) -> Iterator[Note]:
    """Yield a proposal of --stage-env where it pays, by what the profile knows of the environment's file system."""
    environment = environment_of(request, facts)
    for name, filesystem in site.profile.filesystems.items():
        top = filesystem.path.partition("$")[0].rstrip("/")
        if environment is None or not filesystem.operations_per_s or not lies_in(environment.folder, top):
            continue
        seconds = shape.ntasks * IMPORT_OPERATIONS / filesystem.operations_per_s
        if seconds >= _PAYS_S:
            yield Note(
                f"importing torch takes about {seconds:.0f} s here: {shape.ntasks} ranks × {IMPORT_OPERATIONS:,}"
                f" operations ÷ {filesystem.operations_per_s:,} a second of {name}; --stage-env takes about a "
                "minute instead"
            )


def advice(site: Site, shape: Shape, things: list[Staged]) -> Iterator[tuple[str, Reason]]:
    """Yield what staging saves, ranks × operations ÷ the file system's rate, where the profile knows the rate."""
    operation_count = shape.ntasks * IMPORT_OPERATIONS
    product = f"{shape.ntasks} ranks × {IMPORT_OPERATIONS:,} operations = {operation_count:,}"
    saved = any(thing.role == "environment" for thing in things)
    shared = {
        name: filesystem.operations_per_s
        for name, filesystem in site.profile.filesystems.items()
        if filesystem.scope == "shared" and filesystem.operations_per_s
    }
    if not shared:
        yield (
            f"importing torch from the shared file system: {product}",
            Reason("how many operations a second this site's file system answers is unknown, so no time is computed"),
        )
        return
    for name, rate in shared.items():
        seconds = operation_count / rate
        verb = "would take" if saved else "takes"
        reason = f"the file system answers {rate:,} operations a second; packing 1 GB takes about 10 s, once"
        yield (
            f"importing torch from {name} {verb} {seconds:.0f} s: {product}",
            reason_for(site, f"filesystems.{name}.operations_per_s", reason),
        )
