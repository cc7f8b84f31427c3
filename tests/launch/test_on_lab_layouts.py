"""On a real cluster: the layout of prime-rl's template as the guide has it, with stand-ins for its programs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from plugins.labs import Lab

from .lab_runs import wait_until_ended
from .test_on_lab_roles import said, submit

pytestmark = [pytest.mark.lab, pytest.mark.torch]

GUIDE = Path(__file__).parents[2] / "docs/guides/roles.md"
STEPS = 3

PROGRAMS = {
    "inference": """
import http.server, os, sys
from pathlib import Path
class Server(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        weights = max([path.name for path in Path("out").glob("weights-*")], default="none")
        self.wfile.write(f"{os.uname().nodename}:{weights}".encode())
    def log_message(self, *words):
        pass
http.server.ThreadingHTTPServer(("", int(sys.argv[1])), Server).serve_forever()
""",
    # Rollouts of all servers for each step of the trainer, as soon as its weights are there.
    "orchestrator": f"""
import os, sys, time, urllib.request
from pathlib import Path
out = Path(sys.argv[3])
out.mkdir()
for step in range({STEPS}):
    while step and not (out / f"weights-{{step - 1}}").exists():
        time.sleep(0.05)
    answers = [urllib.request.urlopen(url).read().decode() for url in sys.argv[2].split(",")]
    print("step", step, *answers, "trains at", sys.argv[1], "on", os.uname().nodename, flush=True)
    (out / f"new-{{step}}").touch()
    (out / f"new-{{step}}").rename(out / f"rollouts-{{step}}")
""",
    "train": f"""
import os, sys, time, torch
from pathlib import Path
out = Path(sys.argv[1])
torch.distributed.init_process_group("gloo")
for step in range({STEPS}):
    while not (out / f"rollouts-{{step}}").exists():
        time.sleep(0.05)
    total = torch.ones(1)
    torch.distributed.all_reduce(total)
    if os.environ["RANK"] == "0":
        print("trained step", step, "on", int(total), "ranks", flush=True)
        (out / f"weights-{{step}}").touch()
torch.distributed.destroy_process_group()
""",
}


def test_the_layout_of_prime_rl_runs_as_the_guide_has_it(lab: Lab, shared_directory: Path) -> None:
    for name, text in PROGRAMS.items():
        (shared_directory / f"{name}.py").write_text(text)
    layout = GUIDE.read_text().partition("The layout of prime-rl's")[2].split("```")[1].removeprefix("toml\n")
    (shared_directory / "job.toml").write_text(layout.replace("/path/to/environment", sys.prefix))
    job = submit(lab, shared_directory, "--file", "job.toml")

    assert len(layout.split("\n\n")) == 4
    assert len([line for line in layout.splitlines() if line]) <= 20
    assert wait_until_ended(lab, job) == "COMPLETED", said(lab, "logs", job)
    told, trained = (said(lab, "logs", job, "--role", role) for role in ("orchestrator", "train"))
    for step in range(STEPS):
        weights = f"weights-{step - 1}" if step else "none"
        assert f"step {step} node1:{weights} node2:{weights} trains at node3 on node3" in told
        assert f"trained step {step} on 4 ranks" in trained
    for program in PROGRAMS:
        left = lab.exec(["srun", "-N4", "sh", "-c", f"pgrep -fc '[p]ython.* {program}[.]py' || true"])
        assert set(left.stdout.split()) == {"0"}, left.stdout
