"""What mpirun starts in the place of a rank (ranks.py). Python 3.6 syntax.

    python stand_in.py FOLDER

Leaves in FOLDER the variables by which MPI knows the rank, RANK.json, and stays as long as any rank has FOLDER/alive
open for writing: when it goes, MPI takes the rank for gone.
"""

import json
import os
import sys

FAMILIES = ("OMPI_", "PMIX_")


def main(folder):
    with open(os.path.join(folder, "alive")) as alive:
        path = os.path.join(folder, os.environ["OMPI_COMM_WORLD_RANK"] + ".json")
        with open(path + ".new", "w") as file:
            json.dump({name: value for name, value in os.environ.items() if name.startswith(FAMILIES)}, file)
        os.rename(path + ".new", path)
        alive.read()


if __name__ == "__main__":
    main(sys.argv[1])
