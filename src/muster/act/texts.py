"""The folder of the large texts that scripts read: written once for each version of the texts, and never changed."""

from __future__ import annotations

import os

from muster.facts import Facts, data_home
from muster.look.programs import has_slurm_clients
from muster.ownership import Trust
from muster.render.folder import folder_name, texts_of_folder


def place_texts(facts: Facts) -> str | None:
    """Return the folder, with all its files; None where it cannot be made, or no job is queued from here."""
    if not has_slurm_clients(facts.environment):
        return None
    texts = texts_of_folder()
    folder = f"{data_home(facts.environment, facts.home)}/muster/texts/{folder_name(texts)}"
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        for name, text in texts.items():
            path = f"{folder}/{name}"
            if not _holds(path, text.encode()):
                from pathlib import Path

                from muster.act.record import write_whole  # the first launch of a version writes

                write_whole(Path(path), text)
        real_folder, trust = os.path.realpath(folder), Trust()
        if any(map(trust.refusal_of_place, (folder, real_folder, *(f"{real_folder}/{name}" for name in texts)))):
            return None
        os.utime(folder)  # `muster clean` removes what nobody used for long
    except OSError:
        return None
    return folder


def _holds(path: str, data: bytes) -> bool:
    try:
        with open(path, "rb") as stream:
            return stream.read() == data
    except FileNotFoundError:
        return False
