"""Phases and losses at their edges; what is usual is in test_golden.py."""

import numpy as np
import pytest

from tbd.measure.events import Absent, End, Log, Phase
from tbd.measure.loss import losses
from tbd.measure.startup import phase_s


def test_a_phase_that_came_twice_is_summed():
    log = Log([Phase("environment", 1.0), Phase("launch", 3.0), Phase("environment", 4.0), Phase("launch", 8.0)])
    assert phase_s(log, "environment") == 6.0


def test_the_last_phase_ends_with_the_process():
    assert phase_s(Log([Phase("build", 1.0), End("crashed", "", 4.0)]), "build") == 3.0


def test_a_phase_without_an_end_has_no_duration():
    with pytest.raises(Absent, match="the phase build did not finish"):
        phase_s(Log([Phase("import", 0.0), Phase("build", 1.0)]), "build")


def test_a_phase_that_never_ran():
    with pytest.raises(Absent, match="the run had no phase compile"):
        phase_s(Log([Phase("import", 0.0), End("ok", "", 4.0)]), "compile")


def test_the_last_loss_is_a_mean_over_few_steps():
    found = losses(np.arange(100.0, 0.0, -1.0))
    assert found == {"loss_first": 100.0, "loss_last": 5.5, "loss_ratio": 0.055}


def test_a_single_loss():
    assert losses(np.array([3.0])) == {"loss_first": 3.0, "loss_last": 3.0, "loss_ratio": 1.0}


def test_a_loss_below_zero_has_no_ratio():
    assert losses(np.array([-3.0, -4.0])) == {"loss_first": -3.0, "loss_last": -4.0}


def test_no_loss():
    with pytest.raises(Absent, match="no loss was read"):
        losses(np.empty(0))
