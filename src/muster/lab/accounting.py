"""A real slurmdbd on a real MariaDB, with the spec's accounts, users and qualities of service."""

from __future__ import annotations

from muster.lab.spec import LabSpec


def start_database(spec: LabSpec) -> None:
    raise NotImplementedError(spec)
