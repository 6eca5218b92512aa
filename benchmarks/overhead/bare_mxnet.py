"""A training step as one writes it by hand in MXNet."""


def step_of(training):
    """The step, a function of a batch's arrays, over the bound graph and optimizer of an MXNetTraining."""
    (update,) = training.updates
    (graph,) = training.graphs.values()
    executor, statistics = graph.executor, list(graph.moved.values())
    number = 0

    def step(arrays):
        nonlocal number
        for name, array in arrays.items():
            graph.inputs[name][:] = array
        executor.forward(is_train=True)
        executor.backward()
        for array, new in zip(statistics, executor.outputs[1:], strict=True):
            new.copyto(array)
        update.rule.apply(number)
        number += 1

    return step
