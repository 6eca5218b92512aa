"""A worker sees a short list of variables, no secrets, and nothing of the controller's Python."""

from pathlib import Path

import pytest

from tbd.launch.files import PACKAGE
from tbd.launch.variables import (
    THREAD_VARIABLES,
    WAITING,
    allowed,
    build_variables,
    gpu_variables,
    import_folder,
    visible_gpus,
    worker_variables,
)


@pytest.mark.parametrize(
    "name",
    ["HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"]
    + [
        "TF_ENABLE_ONEDNN_OPTS",
        "PYTORCH_CUDA_ALLOC_CONF",
        "NCCL_DEBUG",
        "SLURM_PROCID",
        "XLA_FLAGS",
        "JAX_LOGGING_LEVEL",
    ],
)
def test_what_may_matter_to_a_worker_gets_through(name):
    assert allowed(name)


@pytest.mark.parametrize(
    "name",
    ["MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "MLFLOW_TRACKING_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"]
    + ["GITHUB_TOKEN", "NVIDIA_API_KEY", "SLURM_JWT", "TORCH_HUB_TOKEN", "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV"]
    + ["SOMETHING_ELSE", "PIP_EXTRA_INDEX_URL", "http_proxy"],
)
def test_nothing_else_does(name):
    assert not allowed(name)


def test_the_environment_comes_first_on_the_path():
    variables = worker_variables(Path("/env/bin"), Path("/import"), 3, {"PATH": "/a:/b", "PYTHONPATH": "/leak"})
    assert variables["PATH"] == "/env/bin:/a:/b"
    assert variables["PYTHONPATH"] == "/import"
    assert variables["PYTHONNOUSERSITE"] == variables["PYTHONDONTWRITEBYTECODE"] == "1"


def test_every_numeric_library_gets_the_same_threads():
    variables = worker_variables(Path("/env/bin"), Path("/import"), 3, {"OMP_NUM_THREADS": "17"})
    assert {variables[name] for name in THREAD_VARIABLES} == {"3"}


def test_waiting_threads_sleep_unless_the_user_says_otherwise():
    variables = worker_variables(Path("/env/bin"), Path("/import"), 3, {"OMP_WAIT_POLICY": "active"})
    assert variables["OMP_WAIT_POLICY"] == "active"
    assert {name: variables[name] for name in WAITING if name != "OMP_WAIT_POLICY"} == {
        "KMP_BLOCKTIME": "0",
        "OPENBLAS_THREAD_TIMEOUT": "4",
    }


@pytest.mark.parametrize(
    ("named", "count", "seen"),
    [(None, 1, "0"), (None, 2, "0,1"), ("3,1", 1, "3"), ("GPU-8932f937,2", 1, "GPU-8932f937"), ("", 1, "")],
)
def test_a_run_sees_as_many_gpus_as_it_trains_on_the_first_that_the_user_leaves(named, count, seen):
    source = {} if named is None else {"CUDA_VISIBLE_DEVICES": named}
    assert gpu_variables(visible_gpus(count, source)) == {
        "CUDA_VISIBLE_DEVICES": seen,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
    }


def test_building_keeps_the_users_indexes_and_drops_what_misleads_pip():
    variables = build_variables({"PIP_INDEX_URL": "x", "https_proxy": "y", "PIP_TARGET": "z", "PYTHONPATH": "p"})
    assert (variables["PIP_INDEX_URL"], variables["https_proxy"]) == ("x", "y")
    assert "PIP_TARGET" not in variables and "PYTHONPATH" not in variables


def test_a_build_does_not_see_the_keys_to_the_record():
    keys = ("MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_URI", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
    assert set(keys) & set(build_variables(dict.fromkeys(keys, "x"))) == set()


def test_the_import_folder_holds_the_package_and_nothing_else(tmp_path):
    folder = import_folder(tmp_path)
    assert [path.name for path in folder.iterdir()] == ["tbd"]
    assert (folder / "tbd").resolve() == PACKAGE
    assert import_folder(tmp_path) == folder


def test_two_checkouts_never_share_an_import_folder(tmp_path, monkeypatch):
    folders = set()
    for path in ("a/b-c/tbd", "a-b/c/tbd"):
        monkeypatch.setattr("tbd.launch.variables.PACKAGE", tmp_path / path)
        folders.add(import_folder(tmp_path / "home"))
    assert len(folders) == 2
