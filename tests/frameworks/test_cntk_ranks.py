"""How CNTK's ranks come to be OpenMPI's processes; that they then train as one is tests/parity/test_ranks.py."""

import os
import socket
import subprocess

import pytest

from tbd.frameworks.base import Unsupported
from tbd.frameworks.cntk import ranks


class Peers:
    """Of rank 0, alone: what the others say is what it says, and where they are, `hosts`."""

    rank, world_size = 0, 2

    def __init__(self, hosts=None):
        self.hosts = hosts or [socket.gethostname()]

    def gather(self, value):
        return self.hosts if isinstance(value, str) else [value]

    def agree(self, flag):
        return flag


@pytest.fixture(autouse=True)
def untouched(monkeypatch):
    monkeypatch.setattr(ranks, "kept", [])
    monkeypatch.setattr(os, "environ", dict(os.environ))


def test_a_rank_has_its_stand_ins_variables_and_mpirun_ends_with_the_ranks(monkeypatch, tmp_path):
    monkeypatch.setattr(ranks.tempfile, "mkdtemp", lambda prefix: str(tmp_path / "folder"))
    (tmp_path / "folder").mkdir()
    begun = []
    popen = subprocess.Popen
    monkeypatch.setattr(ranks.subprocess, "Popen", lambda *a, **k: begun.append(popen(*a, **k)) or begun[0])
    ranks.join({"peers": Peers()})
    assert (os.environ["OMPI_COMM_WORLD_RANK"], os.environ["OMPI_COMM_WORLD_SIZE"]) == ("0", "2")
    assert not (tmp_path / "folder").exists()
    assert begun[0].poll() is None
    os.close(ranks.kept.pop())  # as when the last rank has ended
    begun[0].wait(timeout=60)


def test_without_mpirun_its_package_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(ranks.tempfile, "mkdtemp", lambda prefix: str(tmp_path / "folder"))
    (tmp_path / "folder").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unsupported, match="apt-get install openmpi-bin"):
        ranks.join({"peers": Peers()})


def test_what_mpirun_says_is_told(monkeypatch, tmp_path):
    program = tmp_path / "mpirun"
    program.write_text("#!/bin/sh\necho ------ >&2\necho no slots >&2\nexit 1\n")
    program.chmod(0o755)
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    assert ranks.started(str(folder), 2) == (None, "mpirun didn't start CNTK's ranks: no slots")


def test_ranks_of_two_machines_are_refused():
    with pytest.raises(Unsupported, match="one machine only, and these are on a, b"):
        ranks.join({"peers": Peers(["b", "a"])})
