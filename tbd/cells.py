"""python -m tbd.cells [--json]: which model runs in which framework, and for those that don't, why."""

import argparse
import json
import sys

from tbd.config.cells import table


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tbd.cells", description=__doc__.partition(": ")[2])
    parser.add_argument("--json", action="store_true", help="a list of {model, framework, status, reason}")
    cells = table()
    if parser.parse_args(arguments).json:
        print(json.dumps(cells, indent=2))
        return 0
    lines = [["model", "framework", ""]]
    lines += [[c["model"], c["framework"], f"unsupported: {c['reason']}" if c["reason"] else "works"] for c in cells]
    widths = [max(len(line[column]) for line in lines) for column in range(2)]
    for model, framework, status in lines:
        print(f"{model:{widths[0]}}  {framework:{widths[1]}}  {status}".rstrip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
