"""Players of an Atari game, each in an emulator of its own: python play.py GAME SIZE SEED NUMBER,NUMBER,...

Run by tbd/data/atari.py in an environment that has ale-py, whatever the framework's Python is; spoken to over stdin and
stdout in plain bytes, little-endian. The numbers are the players': what is random in one comes from (SEED, its number).

First a line of JSON: {"actions": how many the game has, "emulator": name and version, "rom": sha256}, or {"error": why
not}. Then, for each message, a reply:

    message  kind, a byte: R to restart from the seed, A to act; first player, players, uint16 each; where it is A, the
             action of each player, a byte
    reply    of each player a byte, 1 where its episode ended; then the reward of each, a signed byte; then each one's
             newest frame, SIZE x SIZE bytes

It ends when its stdin does, so with the process that started it, however that dies.

A step, by arXiv 1312.5602, section 5, and Mnih et al. 2015 (Nature 518), methods: the action is repeated for 4 of the
game's frames; the frame is the brighter of the last two, pixel by pixel, in grey, averaged over areas to SIZE x SIZE;
the reward is the sum's sign; a lost life ends the episode for the player, though the game goes on. A game begins with 1
to 30 frames without action, and is cut off after 108,000 frames, half an hour of play.
"""

import difflib
import hashlib
import json
import signal
import struct
import sys

import ale_py
import numpy
from ale_py import roms

FRAME_SKIP = 4
NO_OPS = 30
LONGEST = 108000


class Player:
    def __init__(self, rom, size, seed):
        self.ale = ale_py.ALEInterface()
        self.ale.setFloat("repeat_action_probability", 0.0)  # as the consoles had it: no sticky actions
        self.ale.setInt("max_num_frames_per_episode", LONGEST)
        self.ale.loadROM(rom)
        self.actions = self.ale.getMinimalActionSet()
        self.seed = seed
        height, width = self.ale.getScreenDims()
        self.screens = numpy.zeros((2, height, width), numpy.uint8)
        self.rows, self.columns = area(height, size), area(width, size).T

    def restart(self):
        self.random = numpy.random.RandomState(self.seed)
        return False, 0, self.begin()

    def begin(self):
        """A new game; gives its first frame."""
        self.ale.reset_game()
        for _ in range(self.random.randint(1, NO_OPS + 1)):
            self.ale.act(ale_py.Action.NOOP)
            if self.ale.game_over():
                self.ale.reset_game()
        self.lives = self.ale.lives()
        self.ale.getScreenGrayscale(self.screens[0])
        self.screens[1] = self.screens[0]
        return self.frame()

    def act(self, number):
        """(whether the episode ended, reward, frame) of one step."""
        reward = 0
        for turn in range(FRAME_SKIP):
            reward += self.ale.act(self.actions[number])
            if turn >= FRAME_SKIP - 2:
                self.ale.getScreenGrayscale(self.screens[turn % 2])
        over, lives = self.ale.game_over(), self.ale.lives()
        ended, self.lives = over or lives < self.lives, lives
        return ended, (reward > 0) - (reward < 0), self.begin() if over else self.frame()

    def frame(self):
        bright = self.screens.max(0).astype(numpy.float32)
        return (self.rows @ bright @ self.columns + 0.5).astype(numpy.uint8)


def area(pixels, size):
    """(size, pixels): the weights by which areas of a line of pixels are averaged, parts of pixels by their share."""
    edges = numpy.linspace(0, pixels, size + 1)
    low, high = edges[:-1, None], edges[1:, None]
    left = numpy.arange(pixels)
    overlap = numpy.minimum(high, left + 1) - numpy.maximum(low, left)
    return (numpy.maximum(overlap, 0) * size / pixels).astype(numpy.float32)


def main(arguments):
    game, size, seed, numbers = arguments
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the whole group: the one who started this decides
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    read, write = sys.stdin.buffer.read, sys.stdout.buffer.write
    if game not in roms.get_all_rom_ids():
        near = difflib.get_close_matches(game, roms.get_all_rom_ids(), cutoff=0.4) or roms.get_all_rom_ids()
        hello({"error": f"data.game={game} is no game of the emulator; near are {', '.join(near)}"})
        return
    rom = roms.get_rom_path(game)
    players = [Player(rom, int(size), [int(seed), int(number)]) for number in numbers.split(",")]
    with open(rom, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    emulator = f"Arcade Learning Environment {ale_py.__version__}"
    hello({"actions": len(players[0].actions), "emulator": emulator, "rom": digest})
    while True:
        message = read(struct.calcsize("<cHH"))
        if not message:
            return
        kind, first, count = struct.unpack("<cHH", message)
        chosen = players[first : first + count]
        if kind == b"R":
            steps = [player.restart() for player in chosen]
        else:
            steps = [player.act(number) for player, number in zip(chosen, read(count), strict=True)]
        ended, rewards, frames = zip(*steps, strict=True)
        write(bytes(ended) + struct.pack(f"<{count}b", *rewards) + b"".join(frame.tobytes() for frame in frames))
        sys.stdout.buffer.flush()


def hello(facts):
    sys.stdout.buffer.write(json.dumps(facts).encode() + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
