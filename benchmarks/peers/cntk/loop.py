"""The training loop of CNTK's peers: a Trainer with momentum_sgd. Python 3.6 syntax."""

import os

import cntk as C
import numpy


def build(model, inputs, loss, learning_rate, weight_decay, batch_size, device, precision):
    """(step, sync) of a loss that is a number a row; `inputs` are {name: input variable}."""
    if (device, precision) != ("cpu", "fp32"):
        raise ValueError("device=%s precision=%s: peers train in fp32 on a CPU" % (device, precision))
    C.logging.set_trace_level(C.logging.TraceLevel.Error)
    C.device.try_set_default_device(C.cpu())
    C.cntk_py.set_max_num_cputhreads(int(os.environ["OMP_NUM_THREADS"]))
    rate = C.learning_parameter_schedule(learning_rate, minibatch_size=batch_size)
    momentum = C.momentum_schedule(0.9)
    learner = C.momentum_sgd(model.parameters, rate, momentum, l2_regularization_weight=weight_decay)
    trainer = C.Trainer(model, (loss, None), [learner])

    def step(arrays):
        trainer.train_minibatch({variable: arrays[name].astype(numpy.float32) for name, variable in inputs.items()})

    return step, lambda: None  # a step is done when train_minibatch returns
