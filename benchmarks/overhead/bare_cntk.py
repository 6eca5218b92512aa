"""A training step as one writes it by hand in CNTK. Python 3.6 syntax."""


def step_of(training):
    """The step, a function of a batch's arrays, over the graph and trainer of a CNTKTraining."""
    (update,) = training.updates
    (graph,) = update.graphs.values()
    trainer, inputs = graph.trainer, graph.inputs
    number = 0

    def step(arrays):
        nonlocal number
        update.rule.begin(number)
        trainer.train_minibatch({inputs[name]: array.astype("float32") for name, array in arrays.items()})
        number += 1

    return step
