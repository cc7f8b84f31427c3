"""What the tests of this room share: the bundled profiles, and profiles written for one test."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from muster.sites.heads import BUNDLED, SearchPath
from muster.sites.load import load
from muster.sites.site import Site

NAMES = tuple(sorted(path.stem for path in Path(BUNDLED).glob("*.toml")))
SITES = (
    "clariden",
    "daint",
    "frontier",
    "horeka",
    "jean-zay",
    "jupiter",
    "juwels-booster",
    "karolina",
    "leonardo",
    "lumi",
    "marenostrum5",
    "meluxina",
    "perlmutter",
    "snellius",
    "supercloud",
    "vega",
    "alvis",
    "hyperpod",
    "cyclecloud",
    "delta",
    "fir",
    "clustertoolkit",
    "isambard-ai",
    "kempner",
    "lonestar6",
    "mila",
    "narval",
    "nibi",
    "olivia",
    "roihu",
    "rorqual",
    "soperator",
    "trillium",
    "vista",
    "stampede3",
    "vulcan",
    "killarney",
    "tamia",
)
"""In the order in which they came: a text that several golden scripts share is called by the first site that has it."""

COMPLETE = ("clariden", "daint")
"""Every key has a value or a dated absence, and the sources are the site's own and recent."""

FILLED = ("clariden", "daint", "horeka", "lumi", "marenostrum5", "supercloud")
"""Every key has a value or a dated absence, whoever said it."""

HEAD = 'name = "mine"\ntitle = "a site for a test"\n'


@cache
def bundled(name: str) -> Site:
    """A profile as it is shipped, whatever the machine of the test has in /etc."""
    return load(name, SearchPath(site_wide=None))


def written(folder: Path, text: str, name: str = "mine") -> Path:
    """A profile file with this text."""
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path
