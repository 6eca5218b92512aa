"""One pass in a process of its own: python -m tbd.worker.run_pass REQUEST PASS.

Writes its events into the spool; its exit code is the status's (tbd/worker/status.py). What goes wrong is told on
stderr too, as "tbd: STATUS: cause", so that the cause survives a disk that is full.
"""

import json
import os
import signal
import sys
import time
import traceback

from tbd.worker import status
from tbd.worker.events import Events
from tbd.worker.parent import end_with_parent
from tbd.worker.status import Ended


def main(arguments):
    request_path, pass_name = arguments
    end_with_parent()
    signal.signal(signal.SIGTERM, interrupt)
    with open(request_path) as file:
        request = json.load(file)
    request["pass"] = pass_name.split(".")[0]  # timing.2 is a repeat of timing
    request["peers"] = None
    events = Events(os.path.join(request["output"], "events.jsonl"), pass_name)
    ending = Ended(status.OK, "")
    try:
        events.header(request["rank"])
        train(request, events, pass_name)
    except Ended as error:
        ending = error
    except KeyboardInterrupt:
        ending = Ended(status.INTERRUPTED, "interrupted in the phase %s" % events.phase_name)
    except Exception as error:
        traceback.print_exc()
        ending = Ended(status.CRASHED, one_line(error, events.phase_name))
    if ending.status != status.OK:
        sys.stderr.write("tbd: %s: %s\n" % (ending.status, ending.cause))
    try:
        events.write("end", status=ending.status, cause=ending.cause)
    except OSError as error:
        sys.stderr.write("tbd: %s: the end could not be written: %s\n" % (ending.status, error))
    return status.EXIT_CODES[ending.status]


def train(request, events, pass_name):
    """The whole pass; raises Ended with the right status for everything that users can bring about."""
    from tbd import data, frameworks, models
    from tbd.data.source import BadData
    from tbd.frameworks.base import PRECISIONS, Unsupported
    from tbd.worker.passes import RUNS, optional, timing, trial
    from tbd.worker.peers import PeerLost, Peers

    framework = source = None
    try:
        if request["world_size"] > 1:
            events.phase("rendezvous")
        peers = request["peers"] = Peers.connect(request, pass_name)
        if request["world_size"] > 1:
            offset, error = peers.clock()
            events.write("clock", offset_s=offset, error_s=error)
            try_link(peers, request, events)
        options = {key: value for key, value in request["model"].items() if key != "name"}
        specification = models.create(request["model"]["name"], options)
        refusal = frameworks.without(
            request["framework"]["name"], specification.name, specification.options, request.get("compile")
        )
        if refusal:
            raise Unsupported(refusal)
        events.phase("import")
        framework = frameworks.create(request)
        events.write(
            "framework",
            name=framework.name,
            version=framework.version(),
            devices=framework.devices(),
            threads=request["hardware"]["threads"],
        )
        events.phase("data")
        source = data.open_source(specification, request)
        events.write("dataset", **source.describe())
        events.phase("build")
        training = framework.build(specification, specification.initial_weights(request["seed"]))
        source.connect(training)
        itemsize = PRECISIONS[request["precision"]].itemsize
        exchanged = {"exchanged_bytes": specification.exchanged_bytes(itemsize)} if request["world_size"] > 1 else {}
        events.write(
            "model",
            name=specification.name,
            unit=specification.unit,
            parameters=specification.parameter_count(),
            weights_bytes=specification.weights_bytes(itemsize),
            optimizer_state_bytes=specification.optimizer_state_bytes(itemsize),
            **exchanged,
        )
        if request.get("go"):
            events.phase("ready")
            wait_for(os.path.join(request["output"], request["go"]))
        run = RUNS[request["pass"]]
        if run in (timing, trial):
            run(framework, training, source, request, events)
        else:
            with optional(request["pass"], framework, events):
                run(framework, training, source, request, events)
        events.phase("finish")
        peers.agree(True)  # a rank may serve the others until they are done
        events.write("dataset", **source.describe())  # what was skipped is known now
    except BadData as error:
        raise Ended(status.BAD_DATA, str(error))
    except Unsupported as error:
        raise Ended(status.UNSUPPORTED, str(error))
    except PeerLost as error:
        raise Ended(status.LOST_NODE, "%s (in the phase %s)" % (error, events.phase_name))
    except OSError as error:
        if error.errno == 28:  # ENOSPC
            raise Ended(status.CRASHED, "the disk is full: %s" % request["output"])
        raise
    except Exception as error:
        if isinstance(error, MemoryError) or (framework is not None and framework.out_of_memory(error)):
            raise Ended(
                status.OUT_OF_MEMORY,
                "out of memory in the phase %s at batch size %d: try a smaller batch_size"
                % (events.phase_name, request["batch_size"]),
            )
        if request["world_size"] > 1 and framework is not None and framework.peer_lost(error):
            cause = "the exchange with the other ranks broke off: " + one_line(error, events.phase_name)
            raise Ended(status.LOST_NODE, cause)
        raise
    finally:
        if source is not None:
            source.close()


def try_link(peers, request, events):
    """Of a timing pass on several nodes, how fast the link from the first node to the second is, and back."""
    other = request["hardware"]["devices"]
    if request["pass"] == "timing" and other < request["world_size"]:
        found = peers.link(other)
        if request["rank"] == 0:
            events.write("link", rank=other, there_bytes_per_s=found[0], back_bytes_per_s=found[1])


def wait_for(path, limit_s=120.0):
    """Sleep until the file is there: the controller has come to rest. It does in a few seconds; a missing one is not
    waited for longer than `limit_s`."""
    deadline = time.monotonic() + limit_s
    while not os.path.exists(path) and time.monotonic() < deadline:
        time.sleep(0.02)


def interrupt(signum, frame):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one must not break the orderly end of the first
    raise KeyboardInterrupt


def one_line(error, phase):
    """An unforeseen exception in one line: where, what kind, its message's first line."""
    message = str(error).strip().split("\n")[0]
    return "%s in the phase %s: %s" % (type(error).__name__, phase, message or "no message")


if __name__ == "__main__":
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)  # all is written and closed; tearing a framework down takes seconds and can hang
