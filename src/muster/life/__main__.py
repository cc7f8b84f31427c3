"""What the script of a job with rules or roles becomes: PYTHON -I -S …/muster/life WORDS. Scripts in queues name it."""

import os
import sys

# Behind the standard library, so that nothing that lies beside Muster takes the place of a module of Python's.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

if __name__ == "__main__":
    if any(word.startswith("role=") for word in sys.argv[1:]):
        from muster.life.role_runner import main
    else:
        from muster.life.supervise import main
    # A thread may wait for a program that does not answer: nobody waits for it.
    os._exit(main(sys.argv[1:]))
