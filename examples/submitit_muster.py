"""submitit's Executor whose jobs Muster launches: functions, pickles, results and job.cancel() stay submitit's.

executor = MusterExecutor("log")
executor.update_parameters(nodes=2, ntasks_per_node=4, gpus_per_node=4, time=60)
print(executor.submit(train, 0.1).results())  # train: your own function
"""

from __future__ import annotations

import shlex
from pathlib import Path

from submitit.core.core import PicklingExecutor
from submitit.core.utils import FailedSubmissionError
from submitit.slurm.slurm import SlurmExecutor

OPTIONS = {
    "account": "-A",
    "cpus_per_task": "-c",
    "gpus_per_node": "-g",
    "job_name": "--job-name",
    "mem": "--mem",
    "nodes": "-N",
    "ntasks_per_node": "--ntasks-per-node",
    "partition": "-p",
    "qos": "--qos",
    "time": "-t",
}


class MusterExecutor(SlurmExecutor):
    """Submits by `muster submit`: a job for each call, of map_array too; a parameter without a word is refused."""

    _internal_process_submissions = PicklingExecutor._internal_process_submissions

    def _make_submission_file_text(self, command: str, uid: str) -> str:
        unknown = sorted(set(self.parameters) - set(OPTIONS))
        if unknown:
            raise ValueError(f"MusterExecutor knows {', '.join(OPTIONS)}, not {', '.join(unknown)}")
        words = shlex.join(word for key, value in self.parameters.items() for word in (OPTIONS[key], str(value)))
        log = f"{shlex.quote(str(self.folder))}/${{SLURM_JOB_ID}}_${{SLURM_PROCID}}_log"
        rank = shlex.quote(f"exec {command} >>{log}.out 2>>{log}.err")  # where submitit's job.stdout() looks
        return f"exec muster submit {words} --launcher srun --env SUBMITIT_EXECUTOR=slurm -- sh -c {rank}\n"

    def _make_submission_command(self, submission_file_path: Path) -> list[str]:
        return ["sh", str(submission_file_path)]

    @staticmethod
    def _get_job_id_from_submission_command(string: bytes | str) -> str:
        words = (string if isinstance(string, str) else string.decode()).split()
        if not words or not words[-1].isdigit():
            raise FailedSubmissionError(f"muster submit printed no job id: {' '.join(words)!r}")
        return words[-1]
