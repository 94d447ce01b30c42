"""python -m distlib.cli: the command `distlib`, where it is not on PATH."""

import sys

from distlib.cli import main

if __name__ == "__main__":
    sys.exit(main())
