"""`python -m artelier`."""

from artelier.cli import main

raise SystemExit(main())
