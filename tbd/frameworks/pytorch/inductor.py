"""torch.compile with TorchInductor, `compile=inductor`."""

import os
import shutil
import tempfile

import torch

from tbd.frameworks.base import Unsupported

MOST_GRAPHS = 64  # of one network: a dozen shapes times its updates


class Inductor:
    """A function: the network compiled, forward and backward, a graph for each set of shapes.

    Its files lie in a folder of the process's own, which goes with this object: what is in a cache already would not
    be in the time to compile. Raises Unsupported where what it compiles with is not here.
    """

    def __init__(self, device):
        if device.type == "cpu":
            need("CXX", ["g++"], "g++ (Debian, Ubuntu: apt-get install g++)")
        else:
            need(
                "CC",
                ["gcc", "clang", "cc"],
                "a C compiler for Triton's launchers (Debian, Ubuntu: apt-get install gcc)",
            )
        self.cache = tempfile.TemporaryDirectory(prefix="tbd-inductor-", ignore_cleanup_errors=True)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = self.cache.name
        os.environ["TRITON_CACHE_DIR"] = os.path.join(self.cache.name, "triton")

    def __call__(self, network):
        from torch._dynamo import config

        # beyond its limit of 8 graphs PyTorch would go on without compiling, and say so in a log alone
        config.recompile_limit = MOST_GRAPHS
        config.fail_on_recompile_limit_hit = True
        return torch.compile(network, dynamic=False)


def need(variable, usual, what):
    """Raises Unsupported where neither the program that the variable names nor one of the usual ones is on PATH."""
    named = os.environ.get(variable)
    if not any(shutil.which(name) for name in ([named] if named else usual)):
        missing = f"{variable}={named} is not here" if named else "it is not on PATH"
        raise Unsupported(f"compile=inductor compiles with {what}: {missing}; or take compile=eager")
