"""What to say of a script that forks beside a network card that must not meet a forked process. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from muster.facts import Facts
from muster.model.plan import Note
from muster.sites.site import Site
from muster.sites.when import workloads_of


def fork_notes(site: Site, facts: Facts) -> Iterator[Note]:
    """Yield a warning that names the first data loader whose workers are forked, and the two lines that fix it."""
    loaders = facts.forking_loaders
    if not loaders:
        return
    rest = f" and {len(loaders) - 1} more" if len(loaders) > 1 else ""
    unchanged = "; the script unchanged: --workload fork" if "fork" in workloads_of(site.profile) else ""
    text = (
        f"{loaders[0]}{rest}: its workers are forked (before Python 3.14), and beside an open Slingshot card a forked "
        "worker may crash (pytorch #119845)\n\n"
        "hint: two lines fix it, first under if __name__ == '__main__': import torch.multiprocessing and "
        f"torch.multiprocessing.set_start_method('forkserver'); world.loader() does it by itself{unchanged}"
    )
    yield Note(text, warning=True)
