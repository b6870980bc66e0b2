"""`python -m hora` is the command `hora`."""

import sys

from hora.cli import main

sys.exit(main())
