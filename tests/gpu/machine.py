"""Runs the proofs on this machine: every command as a user would type it, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from .proofs import MARK, Proof, Seen

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
ROOT = HERE.parent.parent


class Machine:
    """Where the proofs run. `muster`, `python`: the words that start each."""

    def __init__(
        self,
        folder: Path,
        muster: Sequence[str] = (sys.executable, "-m", "muster"),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.muster = list(muster)
        self.environment = {
            **(os.environ if environment is None else environment),
            "PYTHONPATH": os.pathsep.join([str(PROGRAMS), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]),
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "XDG_STATE_HOME": str(folder / "state"),
        }

    def prove(self, proof: Proof) -> Seen:
        """Run one proof; return what it left."""
        words = [*self.muster, *self._filled(proof.muster)]
        log = self.folder / "output"
        with log.open("wb") as output:
            process = subprocess.Popen(
                words, cwd=self.folder, env=self.environment, stdout=output, stderr=subprocess.STDOUT
            )
            try:
                looked = self._look(proof, process, log) if proof.look else ""
                status = process.wait(proof.seconds)
            except subprocess.TimeoutExpired:
                status = 124
            finally:
                _end(process)
        files = {path.name: path.read_bytes() for path in self.folder.glob(proof.files)} if proof.files else {}
        return Seen(status, log.read_text(errors="replace"), looked, files)

    def _filled(self, words: Sequence[str]) -> list[str]:
        return [word.replace("{programs}", str(PROGRAMS)).replace("{folder}", str(self.folder)) for word in words]

    def _look(self, proof: Proof, process: subprocess.Popen[bytes], log: Path) -> str:
        """Wait until the program has begun, ask, and end it."""
        until = time.monotonic() + proof.seconds
        while MARK not in log.read_text(errors="replace") and process.poll() is None and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(1.0)  # the line after the one that told must have been reached
        asked = subprocess.run(
            [*self.muster, *proof.look], env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )
        process.terminate()
        return asked.stdout + asked.stderr

    def time(self, starts: Mapping[str, Sequence[str]], rounds: int) -> dict[str, list[dict[str, float]]]:
        """Run the program of costs under each start in turn; return what each run told."""
        times: dict[str, list[dict[str, float]]] = {name: [] for name in starts}
        for _ in range(rounds):
            for name, words in starts.items():
                environment = {**self.environment, "PROOF_BEGAN": repr(time.time())}
                done = subprocess.run(
                    self._filled(words), cwd=self.folder, env=environment, capture_output=True, text=True, check=False
                )
                times[name] += Seen(done.returncode, done.stdout).told[:1]
        return times


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


PROGRAM = "{programs}/cost.py"
ALONE = ("env", "RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=29777")
STARTS: Mapping[str, Sequence[str]] = {
    "plain": (*ALONE, sys.executable, PROGRAM),
    "torchrun": (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1", PROGRAM),
    "muster": (
        *(sys.executable, "-m", "muster", "run", "--here", "-g", "1", "--env", "PROOF_BEGAN"),
        *("--", sys.executable, PROGRAM),
    ),
}
IN_LAB = (sys.executable, "-m", "muster", "lab", "exec", "--name", "gpu", "--")
STARTS_IN_LAB: Mapping[str, Sequence[str]] = {
    "srun": (*IN_LAB, "srun", "-N1", "-n1", "--gpus-per-node=1", *ALONE, sys.executable, PROGRAM),
    "muster": (
        *(*IN_LAB, sys.executable, "-m", "muster", "run", "-N", "1", "-g", "1", "--hang", "5m", "--restart", "1"),
        *("--env", "PROOF_BEGAN", "--", sys.executable, PROGRAM),
    ),
}
