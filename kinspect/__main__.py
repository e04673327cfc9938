"""Entry point of `python -m kinspect`."""

import sys

from kinspect.cli import main

if __name__ == "__main__":
    sys.exit(main())
