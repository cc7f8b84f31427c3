"""`muster stage`: data or an environment onto the own disk of every node of the allocation, and where it lies there."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

from muster.cli.output import print_json, say
from muster.errors import RequestError

_DESCRIPTION = """\
Bring a folder or file to the nodes of the allocation this is typed in, and print where it lies there.

  data=$(muster stage /work/me/dataset)
  muster run -- python train.py --data "$data"

It is packed once; each node sends its share of it to the others, verifies what it gets by its hash and unpacks it while
it comes. It stays there: the next job on that node finds it, unless the original has changed. Where a node cannot take
it, the place that is printed is the shared one, for all nodes, and the reason is said. `muster run` and `muster submit`
do the same with --stage DATA and --stage-env, and show the copy to the ranks under the name of the original.
"""


class _Parser(argparse.ArgumentParser):
    """An argparse parser whose complaints are ours."""

    def error(self, message: str) -> NoReturn:
        raise RequestError(message, hint=f"{self.prog} --help")


def main(words: list[str]) -> int:
    """Stage; print the place."""
    options = _parser().parse_args(words)
    from muster.model.plan import Reason, Staged
    from muster.stage.nodes import clean, need_allocation, stage
    from muster.stage.pack import place

    folder = options.to or Path("/tmp")  # noqa: S108  # the nodes' own
    if options.clean is not None:
        count = clean(folder, options.clean, os.environ)
        say(f"{count} nodes keep what was used in the last {options.clean} days", quiet=options.quiet)
        return 0
    if options.path is None:
        raise RequestError("there is nothing to stage", hint="muster stage PATH")
    need_allocation(os.environ)
    source = options.path.resolve()
    cache = (options.cache or source.parent / ".muster-stage") / source.name
    thing = Staged(str(options.path), "data", (str(source),), str(cache), (), Reason("set by you"))
    place(thing, lambda text: say(text, quiet=options.quiet))
    staged = stage(thing, folder, os.environ)
    for text in staged.news if not options.quiet else ():
        print(text, file=sys.stderr)
    for text in staged.trouble:
        say(f"warning: {text}")
    if options.json:
        print_json({"path": str(staged.path), "local": staged.is_local, "trouble": list(staged.trouble)})
    else:
        print(staged.path)
    return 0


def _parser() -> argparse.ArgumentParser:
    layout = argparse.RawDescriptionHelpFormatter
    page = _Parser(prog="muster stage", description=_DESCRIPTION, formatter_class=layout, allow_abbrev=False)
    page.add_argument("path", nargs="?", type=Path, metavar="PATH", help="the folder or file")
    page.add_argument("--to", type=Path, metavar="DIR", help="a folder of the nodes' own (default: one in /tmp)")
    page.add_argument(
        "--cache", type=Path, metavar="DIR", help="where the archive is kept (default: .muster-stage beside PATH)"
    )
    page.add_argument(
        "--clean", type=int, metavar="DAYS", help="instead: remove from the nodes what no job has used for so long"
    )
    page.add_argument("--json", action="store_true", help="as one JSON document")
    page.add_argument("--quiet", action="store_true", help="no progress")
    return page
