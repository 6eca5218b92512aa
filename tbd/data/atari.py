"""Segments of Atari games, played while training by actors that follow the network's own policy.

Emulators run in processes of their own (entrypoints/data/atari/play.py, which says what a step is), in their own
environment. `batch_size` actors are a crew; there are `data.actors_per_row` crews, whose turns go round: a crew sees
its newest frames, the network gives policy and value for them, actions are drawn by the policy, and the crew's
emulators work while other crews have their turns, and while the device trains. A crew that has played t_max steps gives
a batch, its segments, with the value of the state that it is in by then. Crews begin t_max / crews steps apart.

So actors are asynchronous in that each plays on under weights that are updated in the midst of its segment, once by
each other crew. What differs from algorithm S3 of arXiv 1602.01783 is said in docs/data.md. The order of turns is
fixed, and all that is random comes from the seed: with the same weights the stream is the same whatever the processes'
speed and number.
"""

import collections
import fcntl
import hashlib
import json
import os
import struct
import subprocess
import time

import numpy

from tbd.data import kinds
from tbd.data.prefetch import exit_words
from tbd.data.source import BadData, Source, absolute, batch_of

PIPE_BYTES = 2**20  # what Linux grants to everybody (/proc/sys/fs/pipe-max-size); a crew's frames should fit
F_SETPIPE_SZ = 1031  # linux/fcntl.h; the module fcntl has it from Python 3.10 on
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def resolve(options, cache):
    """By default as many processes as cores that may be used. The launcher fills in `python` and `program`."""
    options = dict(options, processes=options["processes"] or len(os.sched_getaffinity(0)))
    for key in ("python", "program"):
        if options[key] is not None:
            options[key] = absolute(options[key])
            if not os.path.isfile(options[key]):
                raise ValueError("data.%s=%s is no file" % (key, options[key]))
    return options


def open_source(specification, request):
    return Atari(specification, request)


class Atari(Source):
    name = "atari"

    def __init__(self, specification, request):
        data = request["data"]
        self._specification, self._form = specification, specification.form(kinds.SEGMENTS)
        self._rows, self._turns = request["batch_size"], data["actors_per_row"]
        self._seed = [request["seed"], 1, request["rank"]]
        self._training = None
        self.emulator_s = 0.0
        numbers = numpy.arange(self._rows * self._turns) * request["world_size"] + request["rank"]
        self._emulators = Emulators(data, self._form.size, request["seed"], numbers.reshape(self._turns, self._rows))
        try:
            self._game = self._emulators.facts()
            if self._game["actions"] != self._form.actions:
                message = "data.game=%s has %d actions, not model.actions=%d: set model.actions=%d"
                actions = self._game["actions"]
                raise BadData(message % (data["game"], actions, self._form.actions, actions))
        except BaseException:
            self.close()
            raise
        self._source = "%s by the %s" % (data["game"], self._game["emulator"])

    def describe(self):
        form = self._form
        digest = hashlib.sha256(("%s %d %d" % (self._game["rom"], form.size, form.steps)).encode("ascii")).hexdigest()
        counts = {"actors": self._rows * self._turns, "actions": form.actions, "processes": self._emulators.count}
        return {"name": self.name, "digest": digest, "source": self._source, "counts": counts, "skipped": {}}

    def connect(self, training):
        self._training = training

    def one_of_each_shape(self):
        return [next(self.batches())]

    def batches(self):
        self._emulators.restart()
        return self._played(numpy.random.RandomState(self._seed))

    def _played(self, random):
        steps = self._form.steps
        crews = [Crew(self._rows, self._form, -(number * steps // self._turns)) for number in range(self._turns)]
        while True:
            for number, crew in enumerate(crews):
                asked = time.monotonic()
                seen = self._emulators.receive(number)
                self.emulator_s += time.monotonic() - asked
                crew.see(*seen)
                found = self._training.outputs({"frames": crew.history})
                samples = crew.segment(found["value"]) if crew.step == steps else None
                actions = drawn(found["policy"], random)
                crew.play(actions)
                self._emulators.act(number, actions)
                if samples is not None:
                    yield batch_of(self._specification, self._specification.batch_of(samples, None, None))

    def close(self):
        self._emulators.close()


def drawn(logits, random):
    """An action of each row by softmax(logits): the largest of logit + Gumbel noise (Gumbel 1954, section 1.2)."""
    return numpy.argmax(logits + random.gumbel(size=logits.shape), 1).astype(numpy.uint8)


class Crew(object):
    """Actors that play in step, a row each. `step` counts those of the present segment; below 0 none is kept."""

    def __init__(self, rows, form, step):
        self._rows, self._form = rows, form
        self._history = numpy.zeros((rows, form.size, form.size), numpy.uint32)  # HISTORY bytes, the oldest lowest
        self.step = step
        self._begin()

    def _begin(self):
        shape = (self._rows, self._form.steps)
        size = self._form.size
        self._frames = numpy.empty(shape + (size, size, kinds.HISTORY), numpy.uint8)
        self._actions, self._rewards = numpy.empty(shape, numpy.uint8), numpy.empty(shape, numpy.float32)
        self._ends = numpy.empty(shape, bool)

    @property
    def history(self):
        """(rows, size, size, HISTORY) uint8: the last frames of each actor's episode, black before its begin."""
        return self._history.view(numpy.uint8).reshape(self._history.shape + (kinds.HISTORY,))

    def see(self, ended, rewards, newest):
        """What came of the last actions: (rows,) bool and numbers, (rows, size, size) uint8."""
        self._history[ended] = 0
        self._history >>= 8
        self._history |= newest.astype(numpy.uint32) << 24
        if self.step > 0:
            self._ends[:, self.step - 1], self._rewards[:, self.step - 1] = ended, rewards

    def play(self, actions):
        """What was seen, and what is done."""
        if self.step >= 0:
            self._frames[:, self.step], self._actions[:, self.step] = self.history, actions
        self.step += 1

    def segment(self, values):
        """The samples of the segment that is complete, each actor's value of what it sees now; begins the next."""
        samples = (self._frames, self._actions, self._rewards, self._ends, values)
        self.step = 0
        self._begin()
        return samples


class Emulators(object):
    """Processes with the players `numbers` (crews, rows); each has its part of every crew's rows."""

    def __init__(self, data, size, seed, numbers):
        self._game, self._size = data["game"], size
        self.count = min(data["processes"], numbers.shape[1])
        self._parts = numpy.array_split(numpy.arange(numbers.shape[1]), self.count)
        self._crews = numbers.shape[0]
        self._due = collections.deque()  # crews whose replies have not been received, in order
        self._seen = [
            (numpy.empty(rows, bool), numpy.empty(rows, numpy.int8), numpy.empty((rows, size, size), numpy.uint8))
            for rows in map(len, self._parts)
        ]
        variables = dict(os.environ, **dict.fromkeys(ONE_THREAD, "1"))
        self._processes = []
        for part in self._parts:
            players = ",".join(str(number) for number in numbers[:, part].ravel())
            command = [data["python"], "-I", data["program"], self._game, str(size), str(seed), players]
            try:
                process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, env=variables
                )
            except OSError as error:
                self.close()
                raise BadData("data.python=%s can't be started: %s" % (data["python"], error.strerror))
            self._processes.append(process)
            try:
                fcntl.fcntl(process.stdout, F_SETPIPE_SZ, PIPE_BYTES)
            except OSError:
                pass  # it only keeps an emulator from waiting for its reply to be read

    def facts(self):
        """The game as the first process tells of it, when all are ready. Raises BadData where there is none."""
        found = []
        for process in self._processes:
            line = bytearray()
            while not line.endswith(b"\n"):
                byte = process.stdout.read(1)
                if not byte:
                    raise self._death(process)
                line += byte
            found.append(json.loads(line.decode("utf-8")))
            if "error" in found[-1]:
                raise BadData(found[-1]["error"])
        return found[0]

    def restart(self):
        """Begin every player from its seed: each crew's first frames are then to be received, in the crews' order."""
        while self._due:
            self.receive(self._due[0])
        for crew in range(self._crews):
            self._send(crew, b"R", None)

    def act(self, crew, actions):
        self._send(crew, b"A", actions)

    def _send(self, crew, kind, actions):
        self._due.append(crew)
        for process, part in zip(self._processes, self._parts):
            own = b"" if actions is None else actions[part].tobytes()
            try:
                process.stdin.write(struct.pack("<cHH", kind, crew * len(part), len(part)) + own)
            except (BrokenPipeError, ConnectionResetError):
                raise self._death(process)

    def receive(self, crew):
        """(ended, rewards, frames) of the crew's rows, whose turn it must be. Waits."""
        due = self._due.popleft()
        assert due == crew, "crew %d's turn, not %d's" % (due, crew)
        for process, arrays in zip(self._processes, self._seen):
            for array in arrays:
                self._fill(process, array)
        return [numpy.concatenate(columns) for columns in zip(*self._seen)]

    def _fill(self, process, array):
        view = memoryview(array).cast("B")
        while view:
            size = process.stdout.readinto(view)
            if not size:
                raise self._death(process)
            view = view[size:]

    def _death(self, process):
        return RuntimeError("an emulator of %s died (%s)" % (self._game, exit_words(process.wait())))

    def close(self):
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            process.stdin.close()
            process.stdout.close()
