"""MLproject's entry point `report`: the command of tbd/report.py, its arguments in one string."""

import sys

from arguments import words_of

if __name__ == "__main__":
    words = words_of("--options")
    from tbd.report import main

    sys.exit(main(words))
