"""What parity shows of networks on a CPU holds for the fused operators that they take on a GPU."""

import json
import pathlib
import subprocess

from tests.parity import cells

SCRIPT = pathlib.Path(__file__).with_name("pytorch_fused_facts.py")


def test_deep_speech2s_layers_step_by_step_are_the_fused_ones():
    done = subprocess.run([cells.framework_python("pytorch"), SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout)
    assert sorted(found) == ["gru", "rnn"]
    assert max(difference for differences in found.values() for difference in differences) < 1e-13
