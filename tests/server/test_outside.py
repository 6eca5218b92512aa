"""What another machine has of the server: large files there and back, through the server alone."""

import os
import subprocess
import sys
from pathlib import Path

from tbd.server import seaweedfs
from tests import commands
from tests.server import outside
from tests.server.stack import Stack, User
from tests.server.test_tls import nginx
from tests.tracking import spools

# goes up and is fetched in parts where a client may go to S3 itself
LARGE = 80 * 2**20

LISTEN = """
import socket, sys
with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
    print("ready", flush=True)
    while True:
        listener.accept()[0].close()
        print("somebody came", flush=True)
"""
ACCOUNT = """
import sys
from pathlib import Path
from tests.faults.server_accounts import account
from tests.server.stack import User
found = account(Path(sys.argv[1]), User(*sys.argv[2:]))
assert found.clean and found.runs == 1, found
"""


def test_large_files_pass_through_the_server(stack: Stack, tmp_path: Path) -> None:
    """Its object store is on the loopback: no client is sent there, where on its own machine somebody else listens."""
    spool = spools.finished(tmp_path / "runs", experiment=tmp_path.name)
    (spool.path / "trace-1.bin").write_bytes(os.urandom(LARGE))
    user = stack.new_user()
    port = str(seaweedfs.port(stack.settings, "s3"))
    with outside.machine() as other, nginx(stack, tmp_path, other.here) as proxy:
        there = User(user.name, user.password, proxy.https)
        variables = commands.environment(**there.variables, REQUESTS_CA_BUNDLE=str(proxy.certificate))

        def run(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
            command = other.command(sys.executable, *arguments)
            return subprocess.run(
                command, cwd=tmp_path, env=variables | more, capture_output=True, text=True, timeout=300
            )

        somebody = subprocess.Popen(
            other.command(sys.executable, "-c", LISTEN, port), stdout=subprocess.PIPE, text=True
        )
        assert somebody.stdout is not None
        try:
            assert somebody.stdout.readline() == "ready\n"
            sent = run("-m", "tbd.sync")
            assert sent.returncode == 0, sent.stdout + sent.stderr
            account = ("-c", ACCOUNT, "runs", user.name, user.password, proxy.https)
            for wish in ({}, {"MLFLOW_ENABLE_PROXY_MULTIPART_DOWNLOAD": "true"}):
                fetched = run(*account, **wish)
                assert fetched.returncode == 0, fetched.stderr
        finally:
            somebody.terminate()
            said = somebody.communicate()[0]
    assert said == ""
