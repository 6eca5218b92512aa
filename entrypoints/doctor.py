"""MLproject's entry point `doctor`: what is here and what is missing."""

import sys

from arguments import words_of

if __name__ == "__main__":
    words_of()
    from tbd.doctor import main

    sys.exit(main([]))
