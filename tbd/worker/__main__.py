"""The worker: python -m tbd.worker REQUEST. Runs the request's passes one after the other, each in a fresh process.

Standard library only, so that it costs nothing beside the pass that it waits for. Ends with the first pass that is not
ok, with that pass's exit code; a pass that a signal killed gets its `end` event from here.
"""

import json
import os
import signal
import subprocess
import sys

from tbd.worker import max_batch, status
from tbd.worker.events import Events
from tbd.worker.parent import end_with_parent


def main(arguments):
    (request_path,) = arguments
    end_with_parent()
    with open(request_path) as file:
        request = json.load(file)
    for pass_name in request["measure"]["passes"]:
        if pass_name == max_batch.PASS:
            code = max_batch.run(request)
        else:
            code = run_pass(request_path, request["output"], pass_name)
        if code != 0:
            return code
    return 0


def run_pass(request_path, output, pass_name):
    """The exit code of one pass; where a signal killed it, the end is written in its place."""
    process = subprocess.Popen([sys.executable, "-m", "tbd.worker.run_pass", request_path, pass_name])
    for number in (signal.SIGTERM, signal.SIGINT):
        # the pass gets its own signal, to end in order; this process only passes it on and waits
        signal.signal(number, lambda signum, frame: process.send_signal(signal.SIGTERM))
    code = process.wait()
    if code < 0:
        cause = "killed by %s in the pass %s" % (signal.Signals(-code).name, pass_name)
        if -code == signal.SIGKILL:
            cause += " (so does the kernel when memory runs out)"
        sys.stderr.write("tbd: %s: %s\n" % (status.CRASHED, cause))
        events = Events(os.path.join(output, "events.jsonl"), pass_name)
        events.write("end", status=status.CRASHED, cause=cause)
        events.close()
        return status.EXIT_CODES[status.CRASHED]
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
