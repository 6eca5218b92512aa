"""A sweep's jobs: products, several of them, and what they are recognised by."""

import shutil
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from tbd import frameworks, models
from tbd.config.compose import compose_all, config_folder
from tbd.config.errors import BadConfig
from tbd.config.grids import asked, narrowed, signature_of
from tests.commands import SLEEP, hydra

GRID = ["model=resnet50,wgan", "framework=jax,pytorch", "batch_size=4,8"]


def jobs(*overrides: str) -> list[str]:
    """The words of each job that are no one else's."""
    return [
        " ".join(w for w in job.overrides.split() if w[:4] in ("seed", "batc"))
        for grid in asked([*SLEEP, *overrides]).grids
        for job in grid.jobs
    ]


def test_jobs_composed_together_are_what_hydra_composes_of_each() -> None:
    lists = [[*SLEEP, "seed=2", "batch_size=4"], [*SLEEP, "batch_size=8"], ["model=wgan"]]
    together = compose_all(lists)
    with initialize_config_dir(str(config_folder()), version_base="1.3"):
        assert together == [compose("config", overrides=one) for one in lists]


def test_the_product_of_lists() -> None:
    assert jobs("seed=1,2", "batch_size=4,8") == [
        "seed=1 batch_size=4", "seed=1 batch_size=8", "seed=2 batch_size=4", "seed=2 batch_size=8"
    ]  # fmt: skip


def test_several_grids_are_one_sweep() -> None:
    several = f"sweep.grids={hydra([['seed=1,2', 'batch_size=4'], ['seed=3', 'batch_size=8,16']])}"
    assert jobs(several) == [
        "seed=1 batch_size=4",
        "seed=2 batch_size=4",
        "seed=3 batch_size=8",
        "seed=3 batch_size=16",
    ]
    assert jobs(several, "batch_size=2") == ["seed=1 batch_size=2", "seed=2 batch_size=2", "seed=3 batch_size=2"]


@pytest.mark.parametrize(
    "given, expected",
    [
        ([], GRID),
        (["seed=2"], [*GRID, "seed=2"]),
        (["framework=pytorch"], ["model=resnet50,wgan", "framework=pytorch", "batch_size=4,8"]),
        (["model=wgan,a3c", "batch_size=2"], ["model=wgan", "framework=jax,pytorch", "batch_size=2"]),
        (["framework=cntk"], None),
    ],
)
def test_the_command_line_narrows_a_grid(given: list[str], expected: list[str] | None) -> None:
    assert narrowed(GRID, given) == expected


def test_no_grid_that_fits_is_a_mistake() -> None:
    with pytest.raises(BadConfig, match="model=a3c: no grid of the experiment has that"):
        asked(["experiment=batch", "model=a3c"])


def test_an_optimising_sweeper_has_no_jobs_yet() -> None:
    (grid,) = asked([*SLEEP, "hydra/sweeper=optuna", "batch_size=choice(4,8)"]).grids
    assert grid.jobs == []


def test_jobs_are_recognised_by_all_that_decides_their_figures(tmp_path: Path) -> None:
    def signatures(*overrides: str) -> set[str]:
        return {job.signature for grid in asked([*SLEEP, *overrides]).grids for job in grid.jobs}

    first = signatures("seed=1,2")
    assert len(first) == 2 and signatures("seed=2,1", "tracking=offline", "sweep.force=true") == first
    assert signatures("seed=1,2", "measure.steps=11").isdisjoint(first)
    project = Path(next(word for word in SLEEP if word.startswith("framework.project=")).split("=")[1])
    copy = tmp_path / "copy"
    shutil.copytree(project, copy)
    one = signatures(f"framework.project={copy}")
    (copy / "requirements.txt").write_text("numpy==1.0\n")  # another environment
    other = signatures(f"framework.project={copy}")
    (copy / "worker.py").write_text("\n")  # other code
    assert len(one | other | signatures(f"framework.project={copy}")) == 3


def test_a_sweep_is_recognised_by_its_jobs() -> None:
    def signature(*overrides: str) -> str:
        return signature_of(asked([*SLEEP, *overrides]))

    assert signature("seed=1,2") == signature("seed=1,2", "sweep.fail_fast=true")
    assert signature("seed=1,2") != signature("seed=1,2,3")


@pytest.mark.parametrize("experiment, given", [
    ("batch", ["framework=pytorch"]), ("precision", []), ("compile", []), ("threads", []),
    ("network", ["hardware.network=10gbit"]), ("tune", ["batch_size=range(4,65,4)"]),
])  # fmt: skip
def test_the_usual_experiments_can_be_asked_for(experiment: str, given: list[str]) -> None:
    sweep = asked([f"experiment={experiment}", *given])
    assert all(job.planned for grid in sweep.grids for job in grid.jobs)
    assert (sum(len(grid.jobs) for grid in sweep.grids) > 1) is (experiment != "tune")


def test_the_papers_grid_has_every_model_wherever_it_runs() -> None:
    sweep = asked(["experiment=paper", "measure=smoke", "hardware=cpu"])
    jobs = [job.planned.config for grid in sweep.grids for job in grid.jobs]
    cells = {(job["model"]["name"], job["framework"]["name"]) for job in jobs}
    assert cells == {(model, framework) for model in models.names() for framework in frameworks.names()}
    assert sweep.base.sweep.skip_unsupported
    assert {job["model"]["size"] for job in jobs} == {"small"}  # what a CPU has time for in a first look


def test_the_papers_grid_is_by_how_long_one_measures() -> None:
    def grids(*overrides: str) -> list[list[str]]:
        (config,) = compose_all([["experiment=paper", *overrides]])
        return [list(grid) for grid in config.sweep.grids]

    assert grids("measure=standard") == grids("measure=paper") != grids("measure=smoke")
    assert all("model.size=full" in grid for grid in grids("measure=smoke", "hardware=single_gpu"))
