"""How a program of these proofs says what it saw: one line of JSON that the judge finds among all others."""

import json
import sys

MARK = "gpu-proof "


def tell(**values):
    """Print one line; ranks and torch may print theirs around it."""
    sys.stdout.write(MARK + json.dumps(values) + "\n")
    sys.stdout.flush()
