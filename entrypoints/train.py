"""MLproject's entry point `train`: the command of tbd/train.py, its arguments in one string."""

import sys

from arguments import words_of

if __name__ == "__main__":
    words = words_of("--overrides")
    from tbd.train import main

    sys.exit(main(words))
