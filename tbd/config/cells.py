"""The cells: which model runs in which framework on which hardware, and for those that don't, why."""

from tbd import data, frameworks, models

# What no adapter can do yet, by the name of the hardware group.
HARDWARE_TO_COME = {
    "multi_gpu": "training on several GPUs is not built yet: use hardware=single_gpu",
    "multi_node": "training on several machines is not built yet: use hardware=cpu or hardware=single_gpu",
}
GPU_FRAMEWORKS = ("pytorch",)


def unsupported(model: str, framework: str, hardware: str) -> str | None:
    """Why this cell can't run, or None where it works. `framework` is one that comes with tbd."""
    if framework not in frameworks.names():
        return f"framework {framework} has no adapter"
    if framework not in models.frameworks(model):
        return f"{model} is not written in {framework}: it is in {', '.join(models.frameworks(model))}"
    if hardware in HARDWARE_TO_COME:
        return HARDWARE_TO_COME[hardware]
    if hardware == "single_gpu" and framework not in GPU_FRAMEWORKS:
        return f"{framework} on a GPU is not built yet: use hardware=cpu"
    return None


def data_problem(model: str, source: str) -> str | None:
    """Why this data source can't feed this model, or None where it can."""
    if data.serves(source, model):
        return None
    fitting = [name for name in data.names() if data.serves(name, model)]
    return f"data={source} has nothing for model={model}: use {' or '.join('data=' + name for name in fitting)}"
