"""MLproject's entry point `compare`: the command of tbd/compare.py, its arguments in one string."""

import sys

from arguments import words_of

if __name__ == "__main__":
    words = words_of("--options")
    from tbd.compare import main

    sys.exit(main(words))
