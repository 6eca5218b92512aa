"""The energy of a CPU by its own counter: RAPL, as Linux shows it below /sys/class/powercap (Intel; AMD from Zen on).

It counts each processor package with its caches and memory controller, whatever is running; not the memory, the fans
and the rest of the machine. Linux documentation, "Power Capping Framework".
"""

from pathlib import Path

POWERCAP = Path("/sys/class/powercap")
NAME = "system/cpu_energy_joules"


class Rapl:
    """`reason`: why there is none, in the user's words; "" where there is."""

    def __init__(self, root: Path = POWERCAP):
        self.reason = ""
        self._packages: list[_Package] = []
        found = sorted(root.glob("*-rapl:[0-9]*"))
        try:
            packages = [path for path in found if (path / "name").read_text().startswith("package")]
            self._packages = [_Package(path) for path in packages]
        except PermissionError:
            self.reason = f"no permission to read {root}/*/energy_uj: sudo chmod o+r {root}/*/energy_uj allows it"
        except (OSError, ValueError) as error:
            self.reason = f"the CPU's energy counter can't be read: {error}"
        if not self._packages and not self.reason:
            self.reason = f"this machine shows no energy counter of its CPU ({root}): virtual machines mostly have none"

    def sample(self) -> dict[str, float]:
        """{"system/cpu_energy_joules": of all packages since this object was made}; {} where there is no counter."""
        try:
            return {NAME: sum(package.joules() for package in self._packages)} if self._packages else {}
        except (OSError, ValueError) as error:
            self._packages, self.reason = [], f"the CPU's energy counter went away: {error}"
            return {}


class _Package:
    """Adds up a counter that begins anew after `max_energy_range_uj` microjoules: in an hour or so at full load."""

    def __init__(self, path: Path):
        self._file = path / "energy_uj"
        self._range = int((path / "max_energy_range_uj").read_text())
        self._last = int(self._file.read_text())
        self._sum = 0

    def joules(self) -> float:
        now = int(self._file.read_text())
        self._sum += (now - self._last) % (self._range + 1)
        self._last = now
        return self._sum / 1e6
