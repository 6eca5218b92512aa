"""Work ahead of the training loop: an iterator in a thread, a function in processes. Bounded, ordered, never hanging.

Whatever is raised on the far side is raised again in the consumer.
"""

import collections
import itertools
import multiprocessing
import queue
import signal
import threading
import traceback


class InThread(object):
    """Iterates over `iterator` in a thread, at most `depth` elements ahead of the consumer.

    close() ends the thread as soon as the iterator gives its next element or ends.
    """

    def __init__(self, iterator, depth):
        self._iterator = iterator
        self._ready = queue.Queue(depth)
        self._closed = False
        self._ended = None  # the (element, error) that came last
        self._thread = threading.Thread(target=self._work, name="tbd-prefetch", daemon=True)
        self._thread.start()

    def _work(self):
        try:
            for element in self._iterator:
                self._ready.put((element, None))
                if self._closed:
                    return
            self._ready.put((None, StopIteration()))
        except BaseException as error:  # whatever it is belongs to the consumer, who would wait for ever otherwise
            self._ready.put((None, error))

    def __iter__(self):
        return self

    def __next__(self):
        if self._ended is None:
            element, error = self._ready.get()
            if error is None:
                return element
            self._ended = error
        raise self._ended

    def close(self):
        self._closed = True
        self._ended = StopIteration()
        while self._thread.is_alive():
            # the thread may wait for room: make some until it has seen that it is to end
            try:
                self._ready.get(timeout=0.02)
            except queue.Empty:
                pass
        self._thread.join()


class InProcesses(object):
    """function(argument) for each of `arguments`, in their order, computed by `workers` processes.

    The order doesn't depend on the number of processes: they take turns. Each has one argument in hand and one waiting.
    The processes are spawned, not forked: a framework's threads, which may hold locks, are in this process already. So
    `function` and the arguments must be picklable, and the main module importable. Each has a pipe of its own, whose
    other end only this process holds: it ends when this process does, however that dies, and a process that dies is
    seen here as the pipe's end (RuntimeError).
    """

    def __init__(self, function, arguments, workers):
        self._arguments = iter(arguments)
        self._closed = False
        context = multiprocessing.get_context("spawn")
        self._pipes, self._processes = [], []
        for _ in range(workers):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(function, there), name="tbd-reader", daemon=True)
            process.start()
            there.close()
            self._pipes.append(here)
            self._processes.append(process)
        self._turns = collections.deque()  # whose answer comes next, one for each argument that is out
        for turn in list(range(workers)) * 2:
            self._send(turn)

    def _send(self, turn):
        for argument in itertools.islice(self._arguments, 1):
            self._turns.append(turn)
            try:
                self._pipes[turn].send(argument)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it died: the next receive from it says so

    def __iter__(self):
        return self

    def __next__(self):
        if not self._turns:
            raise StopIteration()
        turn = self._turns.popleft()
        try:
            result, error = self._pipes[turn].recv()
        except (EOFError, OSError):
            if self._closed:
                raise StopIteration()
            process = self._processes[turn]
            process.join()
            raise RuntimeError("a process that reads data died (%s)" % exit_words(process.exitcode))
        if error is not None:
            raise RuntimeError("a process that reads data failed:\n" + error)
        self._send(turn)
        return result

    def close(self):
        """Ends the processes; whoever waits in next() gets StopIteration."""
        self._closed = True
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.join()


def exit_words(code):
    """A process's exit code in words: "signal 9" for -9."""
    return "signal %d" % -code if code < 0 else "exit code %d" % code


def _serve(function, pipe):
    """Answer the parent's arguments until its end of the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group: the parent decides
    try:
        while True:
            argument = pipe.recv()
            try:
                answer = (function(argument), None)
            except Exception:
                answer = (None, traceback.format_exc())
            pipe.send(answer)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass
