"""`python -m gnomon`: the same as the console script `gnomon`."""

from __future__ import annotations

import sys

from gnomon.cli import main

if __name__ == "__main__":
    sys.exit(main())
