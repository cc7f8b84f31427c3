"""What the script of a job with rules becomes: PYTHON -I -S …/muster/life WORDS. Scripts in queues name it."""

import os
import sys

# Behind the standard library, so that nothing that lies beside Muster takes the place of a module of Python's.
sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

if __name__ == "__main__":
    from muster.life.supervise import main

    sys.exit(main(sys.argv[1:]))
