"""MLproject's entry point `gate`: the command of tbd/gate.py, its arguments in one string."""

import sys

from arguments import words_of

if __name__ == "__main__":
    words = words_of("--options")
    from tbd.gate import main

    sys.exit(main(words))
