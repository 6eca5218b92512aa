"""CPU time and memory of a process with all its descendants, the dead ones' CPU time included."""

import time
from dataclasses import dataclass, field

import psutil

RESCAN_EVERY_S = 2.0  # finding descendants reads every process of the machine: too dear for each sample


@dataclass
class _Member:
    process: psutil.Process
    parent: int
    own_s: float = 0.0  # user and system time of the process itself, when last seen
    through_s: float = 0.0  # the time of its descendants that ended, as far as it is counted in ProcessTree._gone_s


@dataclass
class ProcessTree:
    """The process `pid` and its descendants, as far as they could be seen. `below`: the descendants alone.

    A process that ended leaves its CPU time to the parent that waited for it (proc(5), cutime and cstime); where none
    did, the last value seen of it is kept. So the sum never falls, and counts the short-lived ones between two scans.
    """

    pid: int
    below: bool = False
    _members: dict[int, _Member] = field(default_factory=dict)
    _gone_s: float = 0.0
    _next_scan: float = 0.0

    def sample(self) -> tuple[float, int]:
        """(CPU seconds so far of the whole tree, resident bytes now: a page counts in each process that shares it)."""
        now = time.monotonic()
        if now >= self._next_scan:
            self._scan()
            self._next_scan = now + RESCAN_EVERY_S
        rss, gone, waited = 0, [], {}
        for pid, member in self._members.items():
            own = not (self.below and pid == self.pid)
            try:
                times = member.process.cpu_times()
                rss += member.process.memory_info().rss if own else 0
            except psutil.Error:
                gone.append(pid)
                continue
            member.own_s = max(member.own_s, times.user + times.system) if own else 0.0
            waited[pid] = times.children_user + times.children_system
        for pid in reversed(gone):  # members are in the order of their finding, so children come after their parents
            member = self._members.pop(pid)
            self._gone_s += member.own_s
            if member.parent in self._members:
                self._members[member.parent].through_s += member.own_s + member.through_s
        for pid, seconds in waited.items():
            unseen = max(0.0, seconds - self._members[pid].through_s)
            self._members[pid].through_s += unseen
            self._gone_s += unseen
        return self._gone_s + sum(member.own_s for member in self._members.values()), rss

    def _scan(self) -> None:
        try:
            root = psutil.Process(self.pid)
            found = [root, *root.children(recursive=True)]
        except psutil.Error:
            return
        for process in found:
            if process.pid not in self._members:
                try:
                    self._members[process.pid] = _Member(process, process.ppid())
                except psutil.Error:
                    continue
