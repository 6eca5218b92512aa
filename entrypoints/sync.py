"""MLproject's entry point `sync`: the command of tbd/sync.py, its arguments in one string."""

import sys

from arguments import words_of

if __name__ == "__main__":
    words = words_of("--options")
    from tbd.sync import main

    sys.exit(main(words))
