"""`tablewright`, and `python -m tablewright`. The libraries take a moment to load: whoever presses Ctrl-C then gets a
line, as later.
"""

import sys


def main() -> None:
    try:
        from tablewright.cli.main import main as command_line

        command_line()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)


if __name__ == "__main__":
    main()
