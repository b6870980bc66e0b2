"""`python -m hora.run FILE` runs a pickled call."""

import os
import sys

from hora.run.calls import call_file

if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m hora.run FILE")
    sys.path.insert(0, os.getcwd())
    sys.exit(call_file(sys.argv[1]))
