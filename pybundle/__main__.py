"""`python -m pybundle`."""

import sys

if __name__ == "__main__":
    try:
        from .cli import main
    except KeyboardInterrupt:           # the imports take a while
        sys.exit(print("pybundle: interrupted", file=sys.stderr) or 130)
    sys.exit(main())
