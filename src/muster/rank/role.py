"""The programs of a job with several, as a rank finds them: `muster.role("serve").url`. Reads variables only."""

import os
from typing import Mapping, NamedTuple, Optional, Tuple

from . import contract
from .errors import MusterError


class RoleAddress(NamedTuple):
    """One program of the job, and where it is."""

    name: str
    host: str
    """The host of its first rank."""

    hosts: Tuple[str, ...]
    port: int
    url: str


def role(name: Optional[str] = None, environment: Optional[Mapping[str, str]] = None) -> RoleAddress:
    """Return where a role of this job is; without a name, the role of this rank."""
    variables = os.environ if environment is None else environment
    own_name = variables.get(contract.ROLE)
    if own_name is None:
        raise MusterError("this job has no roles", "muster submit --role NAME … starts one: muster docs roles")
    role_name = name or own_name
    prefix = "MUSTER_{}_".format(role_name.upper())
    if prefix + "URL" not in variables:
        urls = (text for text in variables if text.startswith("MUSTER_") and text.endswith("_URL"))
        names = ", ".join(sorted(text[len("MUSTER_") : -len("_URL")].lower() for text in urls))
        message = "this job has no role named {!r}".format(role_name)
        raise MusterError(message, "its roles: " + names)
    hosts = tuple(variables[prefix + "HOSTS"].split(","))
    return RoleAddress(role_name, hosts[0], hosts, int(variables[prefix + "PORT"]), variables[prefix + "URL"])
