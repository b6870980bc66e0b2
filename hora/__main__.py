"""`python -m hora` is the command `hora`."""

import sys

from hora.cli.app import main

sys.exit(main())
