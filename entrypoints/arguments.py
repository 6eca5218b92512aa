"""What MLflow Projects gives to an entry point: each parameter as one word, which may be empty."""

import argparse
import shlex
import sys
from pathlib import Path


def words_of(option: str = "") -> list[str]:
    """The words within the value of `option`, split as a shell would; makes `import tbd` work from a checkout."""
    sys.path[0] = str(Path(__file__).resolve().parent.parent)  # was entrypoints/
    parser = argparse.ArgumentParser()
    if not option:
        parser.parse_args()
        return []
    parser.add_argument(option, dest="value", default="", help="arguments in one string, quoted as for a shell")
    value = parser.parse_args().value
    try:
        return shlex.split(value)
    except ValueError as error:
        parser.error(f"{option}={value}: {error}")
