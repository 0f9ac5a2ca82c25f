"""`python -m artelier`."""

from artelier.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
