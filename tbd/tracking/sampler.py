"""Samples the worker's process tree, the host and the run's GPUs while the worker runs."""

import os
import threading
import time
from typing import Any, Protocol, Self

import psutil

from tbd.tracking.gpus import Gpus
from tbd.tracking.host import Host, host_cpu_s
from tbd.tracking.process_tree import ProcessTree
from tbd.tracking.rapl import Rapl
from tbd.tracking.writer import EventWriter, SpoolFull, line

PERIOD_S = 0.25  # a short run still gets samples enough; MLflow's own 10 s give none
FLUSH_EVERY_S = 1.0
# Reading a GPU's power and energy keeps a core busy for milliseconds (9.5 ms on an H200): GPUs are read
# as seldom as keeps that below this share of a core.
GPU_SHARE_OF_A_CORE = 0.005


class Written(Protocol):
    """What samples are written to: a Spool, or a node of one."""

    @property
    def writer(self) -> EventWriter: ...


class Sampler:
    """Writes a `sample` event (docs/events.md) four times a second from `with` to its end; asleep in between.

    GPUs are in it every second or two.

    `pid`: of the process that launches the worker; None: the workers are all that this process itself has started.
    `visible_gpus`: the worker's CUDA_VISIBLE_DEVICES (None: not set); no GPU is looked at where `gpus` is false.
    A sample that fails is left out: sampling never ends a run.
    `problem`: why samples are missing, or None; at the end it is written as a `warning` event.
    """

    def __init__(self, spool: Written, pid: int | None, *, gpus: bool = False, visible_gpus: str | None = None):
        self.problem: str | None = None
        self._spool = spool
        self._tree = ProcessTree(os.getpid(), below=True) if pid is None else ProcessTree(pid)
        self._controller = psutil.Process()
        self._host = Host()
        self._gpus = Gpus(visible_gpus) if gpus else None
        self._next_gpus = 0.0
        self._rapl = Rapl()
        self._waiting: list[dict[str, Any]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Self:
        if self._gpus is not None:
            self._write([line("gpus", devices=self._gpus.describe())])
            if self._gpus.problem:
                self._write([line("absent", what="gpu_energy", reason=self._gpus.problem)])
            if self._gpus.no_counters:
                self._write([line("absent", what="counters", reason=self._gpus.no_counters)])
        if self._rapl.reason:
            self._write([line("absent", what="cpu_energy", reason=self._rapl.reason)])
        try:
            self._thread.start()
        except BaseException:  # Ctrl-C while the thread begins: no `with` would end it
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self.problem is not None:
            self._write([line("warning", message=f"samples are missing: {self.problem}")])
        if self._gpus is not None:
            self._gpus.close()

    def _run(self) -> None:
        next_sample = time.monotonic()
        next_flush = next_sample + FLUSH_EVERY_S
        while not self._stop.is_set():
            try:
                self._waiting.append(self._sample())
            except Exception as error:  # whatever the system refuses, the run is worth more than its samples
                self.problem = f"a sample failed: {error!r}"
            if time.monotonic() >= next_flush:
                self._flush()
                next_flush += FLUSH_EVERY_S
            # after a late one at least half a period: over a shorter time the host's counters have not moved, and the
            # CPU's share would be 0
            next_sample = max(next_sample + PERIOD_S, time.monotonic() + PERIOD_S / 2)
            self._stop.wait(next_sample - time.monotonic())
        self._flush()

    def _sample(self) -> dict[str, Any]:
        cpu_s, rss = self._tree.sample()
        own = self._controller.cpu_times()
        gpus: dict[str, float] = {}
        if self._gpus is not None and time.monotonic() >= self._next_gpus:
            before = time.thread_time()
            gpus = self._gpus.sample()
            self._next_gpus = time.monotonic() + (time.thread_time() - before) / GPU_SHARE_OF_A_CORE
        return line(
            "sample",
            cpu_s=round(cpu_s, 3),
            rss_bytes=rss,
            controller_cpu_s=round(own.user + own.system, 3),
            host_cpu_s=round(host_cpu_s(), 3),
            metrics={**self._host.sample(), **self._rapl.sample(), **gpus},
        )

    def _flush(self) -> None:
        lines, self._waiting = self._waiting, []
        if lines:
            self._write(lines)

    def _write(self, lines: list[dict[str, Any]]) -> None:
        try:
            self._spool.writer.append(lines)
        except SpoolFull as full:
            self.problem = str(full)
        except OSError as error:
            self.problem = f"samples can't be written: {error}"
