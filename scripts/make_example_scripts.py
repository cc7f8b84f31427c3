"""Write the batch script that `muster plan` makes beside each example; `--check` says whether they are current.

The scripts hold no path of the machine they were made on: they run where they are submitted, with the environment in
`.venv` there, and `import muster` comes from that environment or from a copy of the library beside the example.
"""

from __future__ import annotations

import sys
from pathlib import Path

from muster.facts import Facts
from muster.job.options import parse, request_from
from muster.plan.build import make_plan
from muster.render.script import job_script
from muster.sites.load import load

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
SIZES = {
    "hello": ("-N", "2", "--ntasks-per-node", "2"),
    "pi": ("-N", "2", "--ntasks-per-node", "2"),
    "train_single": ("-N", "1", "--ntasks-per-node", "1"),
    "train_ddp": ("-N", "2", "--ntasks-per-node", "2"),
    "train_env": ("-N", "2", "--ntasks-per-node", "2"),
}


def script(name: str) -> str:
    """The batch script of one example."""
    typed = ["--site", "generic", *SIZES[name], "-t", "10", "-J", name, "--venv", ".venv", "--", "python", f"{name}.py"]
    values, origins, command = parse(typed)
    request = request_from({}, values, origins, command)
    here = Facts(working_directory=".", home="/")
    return job_script(make_plan(request, load("generic"), here, typed=typed))


def main() -> int:
    """Write the scripts, or with --check compare them."""
    if "--check" in sys.argv[1:]:
        return int(any((EXAMPLES / f"{name}.sh").read_text(encoding="utf-8") != script(name) for name in SIZES))
    for name in SIZES:
        (EXAMPLES / f"{name}.sh").write_text(script(name), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
