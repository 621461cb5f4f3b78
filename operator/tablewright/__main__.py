"""`python -m tablewright`, the same as `tablewright`."""

from tablewright.cli.main import main

main()
