"""Conda environments in an image, through cotainr: what is asked is read and judged before anything is fetched."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from muster.errors import MachineLacks, RequestError
from muster_build.engine import Builder
from muster_build.lock import notes_on
from muster_build.pins import for_other_gpus, pins_of_conda

Say = Callable[[str], None]

# Base images that bring a conda of their own, into which cotainr's second one does not go.
_HAVE_CONDA = ("continuumio/", "condaforge/", "mambaorg/", "rocm/pytorch", "pytorch/pytorch")


class CondaOrder(msgspec.Struct, frozen=True):
    """A conda environment file, and what goes with it."""

    file: Path
    system: str | None = None
    """cotainr's name of a system, which brings the base image; None: the base image is named."""

    accepts_licenses: bool = False
    gpu_kind: str | None = None


def judge_conda(order: CondaOrder, base: str | None, say: Say) -> None:
    """Refuse what cannot work, and say what is not pinned."""
    if (order.system is None) == (base is None):
        raise RequestError(
            "--conda needs one base image", hint="--from docker://…, or --system NAME (cotainr info lists its systems)"
        )
    try:
        text = order.file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(
            f"{order.file} cannot be read: {error}", hint="give --conda a conda environment file"
        ) from None
    pins = list(pins_of_conda(text))
    if not pins:
        raise RequestError(f"{order.file} lists no packages", hint="list the packages under `dependencies:`")
    clash = for_other_gpus(pins, order.gpu_kind) if order.gpu_kind else []
    if clash:
        raise RequestError(
            f"{order.file} has packages for other GPUs than {order.gpu_kind}: {', '.join(pin.words for pin in clash)}",
            hint="take the builds for this site's GPUs",
        )
    if base is not None and any(name in base for name in _HAVE_CONDA):
        raise RequestError(
            f"the base image {base} has a conda of its own, but cotainr would put a second one beside it",
            hint="use a base image without conda, or install into its conda with --from and --def",
        )
    if not order.accepts_licenses:
        raise RequestError(
            "cotainr installs Miniforge, whose licence is yours to accept", hint="accept it with --accept-licenses"
        )
    for note in notes_on(pins):
        say(note)


def refuse_second_conda(base: str, signs: Iterable[str]) -> None:
    """Refuse to add conda where something in the base shows that it has one."""
    for sign in signs:
        raise RequestError(
            f"the base image {base} has a conda of its own ({sign}), but cotainr would put a second one beside it",
            hint="use a base image without conda, or install into its conda with --from and --def",
        )


def signs_of_conda(environment: Iterable[str], box: Path | None) -> list[str]:
    """Return the signs of conda in the environment that an image sets, or in its directories."""
    signs = [text for text in environment if re.match(r"(?:CONDA_\w+|MAMBA_\w+)=|PATH=.*(?:conda|mamba)", text)]
    places = ("opt/conda", "opt/miniconda3", "opt/miniforge3", "opt/mambaforge", "usr/local")
    if box is not None:
        signs += [f"/{place}/bin/conda" for place in places if (box / place / "bin/conda").exists()]
    return signs


def add_conda(builder: Builder, draft: Path, order: CondaOrder, base: str | None, say: Say) -> None:
    """Build `draft` with cotainr; what it says is passed on."""
    program = shutil.which("cotainr", path=builder.environment.get("PATH"))
    if program is None:
        raise MachineLacks(
            "cotainr",
            "cotainr is not on PATH",
            hint="load the module that has it, or: python -m pip install cotainr",
        )
    base_options = [f"--system={order.system}"] if order.system else [f"--base-image={base}"]
    words = [
        program,
        "build",
        *base_options,
        f"--conda-env={order.file.absolute()}",
        "--accept-licenses",
        "-v",
        str(draft),
    ]
    with tempfile.TemporaryDirectory(prefix="muster-cotainr-") as folder:
        # cotainr starts `singularity`; an Apptainer may come without that name for it.
        link = Path(folder, "singularity")
        link.symlink_to(shutil.which(builder.program, path=builder.environment.get("PATH")) or builder.program)
        path = f"{builder.environment.get('PATH', '')}:{folder}"
        msgspec.structs.replace(builder, environment={**builder.environment, "PATH": path}).follow(words, say)
