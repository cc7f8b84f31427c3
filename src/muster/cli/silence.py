"""What a job's script starts beside its ranks: it waits for a long silence, and then looks at them.

    python -m muster.cli.silence PID JOB NODELIST RUN_DIRECTORY SECONDS [REASON]

It is not a verb: only the script starts it. Its name stands in scripts that wait in queues, so it stays here.
"""

import sys

from muster.parts import service

if __name__ == "__main__":
    sys.exit(service("hang-watch")(sys.argv[1:]))
