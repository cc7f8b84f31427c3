"""`muster stage`: data or an environment onto the own disk of every node of the allocation, and where it lies there."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from muster.cli.command_line import JSON, QUIET, CommandLine, Words
from muster.cli.output import print_json, say
from muster.errors import RequestError
from muster.job.option import option, parse_count


def main(words: Words) -> int:
    """Stage; print the place."""
    from muster.model.plan import Reason, Staged
    from muster.stage.nodes import clean, copy_to_nodes, need_allocation
    from muster.stage.pack import place

    folder = words.to or Path("/tmp")  # noqa: S108  # the nodes' own
    if words.clean is not None:
        count = clean(folder, words.clean, os.environ)
        say(f"{count} nodes keep what was used in the last {words.clean} days", quiet=words.quiet)
        return 0
    if not words.operands:
        raise RequestError("there is nothing to stage", hint="muster stage PATH")
    need_allocation(os.environ)
    source = Path(words.operands[0]).resolve()
    cache = (words.cache or source.parent / ".muster-stage") / source.name
    thing = Staged(words.operands[0], "data", (str(source),), str(cache), (), Reason("set by you"))
    place(thing, lambda text: say(text, quiet=words.quiet))
    result = copy_to_nodes(thing, folder, os.environ)
    for text in result.news if not words.quiet else ():
        print(text, file=sys.stderr)
    for text in result.trouble:
        say(f"warning: {text}")
    if words.json:
        print_json({"path": str(result.path), "local": result.is_local, "trouble": list(result.trouble)})
    else:
        print(result.path)
    return 0


COMMAND = CommandLine(
    name="stage",
    start=main,
    summary="""\
Copy a folder or file to the nodes of the allocation in which this is typed, and print its path there.

The copy is packed once. Each node sends its share to the others, verifies what it gets by its hash and unpacks it while
it arrives. The copy stays: the next job on that node finds it, unless the original has changed. If one node cannot take
the copy, the printed path is the shared one for all nodes, and a warning gives the reason. `muster run` and
`muster submit` do the same with --stage DATA and --stage-env, and show the copy to the ranks under its own name.""",
    operands="PATH",
    most=1,
    options=(
        option("--to DIR", "folder on the nodes' own disks (default: one in /tmp)", Path),
        option("--cache DIR", "folder where the packed archive is kept (default: .muster-stage beside PATH)", Path),
        option(
            "--clean DAYS",
            "stage nothing; remove copies from the nodes that no job has used for this many days",
            parse_count(0, 36_500),
        ),
        JSON,
        QUIET,
    ),
    examples=("data=$(muster stage /scratch/me/dataset)", 'muster run -- python train.py --data "$data"'),
)
