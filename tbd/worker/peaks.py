"""What a GPU can do at best, measured once and kept: a file in the folder that the request names (`peaks`) for each
device, driver, framework with its version, precision, and number of ranks that measure side by side.

A CPU's is measured in every run: others work on it too, and what one run finds there says little of another's.
"""

import hashlib
import json
import os
import time

DRIVER = "/proc/driver/nvidia/version"  # its first line names the driver (NVIDIA driver README, "proc interface")
DAY_S = 86400.0
# Of the median over the fastest time: beyond it others disturbed the measurement, and it is for this run alone. Chosen,
# not measured: nobody else's work comes and goes without moving some of the repeats by a tenth.
UNDISTURBED = 1.1


class Kept(object):
    """The file of this run's GPU; without a folder in the request, and for a CPU, nothing is kept."""

    def __init__(self, framework, request, sizes):
        self.max_age_s = request["measure"].get("peak_max_age_days", 0) * DAY_S
        self.path = None
        if request.get("peaks") and request["hardware"]["device"] == "gpu":
            self.key = {
                "devices": framework.devices(),
                "driver": driver(),
                "framework": [framework.name, framework.version()],
                "precision": request["precision"],
                "ranks": request["world_size"],
                "sizes": sizes,
            }
            name = hashlib.sha256(json.dumps(self.key, sort_keys=True).encode("utf-8")).hexdigest()
            self.path = os.path.join(request["peaks"], name[:32] + ".json")

    def read(self):
        """(what was measured, its age in seconds), or None where there is nothing younger than allowed."""
        if self.path is None:
            return None
        try:
            with open(self.path) as file:
                kept = json.load(file)
            age_s = time.time() - kept["wall_time"]
            measured = {name: [float(s) for s in seconds] for name, seconds in kept["seconds"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return (measured, age_s) if kept["key"] == self.key and 0 <= age_s < self.max_age_s else None

    def write(self, seconds):
        """Keep {what: seconds}, unless it was disturbed: too low a peak would flatter every later run.

        A folder that can't be written keeps nothing: the next run measures anew.
        """
        if self.path is None or any(disturbed(times) for times in seconds.values()):
            return
        beside = "%s.%d" % (self.path, os.getpid())
        try:
            os.makedirs(os.path.dirname(self.path), exist_ok=True)
            with open(beside, "w") as file:
                json.dump({"key": self.key, "wall_time": time.time(), "seconds": seconds}, file)
            os.replace(beside, self.path)
        except OSError:
            pass


def disturbed(seconds):
    return sorted(seconds)[len(seconds) // 2] > UNDISTURBED * min(seconds)


def driver():
    try:
        with open(DRIVER) as file:
            return file.readline().strip()
    except OSError:
        return ""
