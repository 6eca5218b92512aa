"""The environment variables of a worker: a short list of what may matter to it, and nothing of the controller's own."""

import contextlib
import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from tbd.launch.files import PACKAGE

ALLOWED = {
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM",
    "LD_LIBRARY_PATH", "LD_PRELOAD", "CC", "CXX",
}  # fmt: skip
# Families whose variables tune a device, an allocator or a framework: a user who sets one means the worker.
ALLOWED_PREFIXES = (
    "LC_", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "NCCL_", "ROCR_", "HIP_", "HSA_", "MALLOC_", "KMP_", "OMP_",
    "GOMP_", "OPENBLAS_", "ONEDNN_", "DNNL_", "TF_", "TORCH_", "TORCHINDUCTOR_", "TRITON_", "XLA_", "JAX_",
    "PYTORCH_", "XLA_", "JAX_", "MXNET_", "GLOO_", "SLURM_",
)  # fmt: skip
# Secrets that live within those families, such as NVIDIA_API_KEY and SLURM_JWT.
SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|JWT|API_?KEY|ACCESS_?KEY", re.IGNORECASE)

# What the usual numeric libraries read at their import; all equal, so that no framework gets more cores than another.
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMEXPR_MAX_THREADS",
)

# The keys to the record: they are the controller's alone, and nothing for what installs packages.
RECORD = re.compile(r"MLFLOW_|AWS_(ACCESS_KEY_ID|SECRET_ACCESS_KEY|SESSION_TOKEN)$")

# Threads that wait for work sleep at once, in every library that has a setting for it; a user's own value counts. By
# default GNU's OpenMP (PyTorch, MXNet) spins for 300,000 turns (libgomp, GOMP_SPINCOUNT), Intel's (CNTK) for 0.2 s
# (KMP_BLOCKTIME), OpenBLAS (MXNet, numpy) for 2^28 cycles: they would take the processor from whoever has work, and
# count as CPU time used. Eigen's threads (TensorFlow, JAX) spin for microseconds and have no setting.
WAITING = {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0", "OPENBLAS_THREAD_TIMEOUT": "4"}

# What would make a child's Python look into the controller's environment, or pip install elsewhere than told.
MISLEADING = (
    "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONSTARTUP", "PYTHONEXECUTABLE", "VIRTUAL_ENV", "CONDA_PREFIX",
    "PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PYENV_VERSION", "UV_PROJECT_ENVIRONMENT",
)  # fmt: skip


def allowed(name: str) -> bool:
    """Whether a worker may see the variable."""
    return (name in ALLOWED or name.startswith(ALLOWED_PREFIXES)) and not SECRET.search(name)


def worker_variables(
    binaries: Path, import_folder: Path, threads: int, source: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """All variables of a worker: the allowed ones of `source`, the environment's `binaries` first on its PATH,
    `import_folder` as its only import path beside its own packages, and `threads` for every numeric library, whose
    waiting threads sleep."""
    variables = {**WAITING, **{name: value for name, value in source.items() if allowed(name)}}
    variables["PATH"] = f"{binaries}{os.pathsep}{variables.get('PATH', os.defpath)}"
    variables["PYTHONPATH"] = str(import_folder)
    variables["PYTHONNOUSERSITE"] = "1"
    variables["PYTHONDONTWRITEBYTECODE"] = "1"
    variables["PYTHONUNBUFFERED"] = "1"  # what it prints before a crash must reach worker.log
    variables.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    return variables


def visible_gpus(count: int, source: Mapping[str, str] = os.environ) -> str:
    """CUDA_VISIBLE_DEVICES of a run on `count` GPUs: the first of those that the user leaves, or of the machine."""
    named = source.get("CUDA_VISIBLE_DEVICES")
    entries = [str(number) for number in range(count)] if named is None else named.split(",")
    return ",".join(entries[:count])


def gpu_variables(visible: str) -> dict[str, str]:
    """What makes a worker see these GPUs alone. An index counts along the PCI bus, as nvidia-smi's and NVML's do."""
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": visible}


def build_variables(source: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables under which an environment is built: the user's own, for the sake of proxies, certificates and
    package indexes, less what would make Python or pip look elsewhere, and the keys to the record."""
    variables = {name: value for name, value in source.items() if name not in MISLEADING and not RECORD.match(name)}
    variables.update(PYTHONNOUSERSITE="1", PIP_NO_INPUT="1", PIP_PROGRESS_BAR="off", PIP_DISABLE_PIP_VERSION_CHECK="1")
    return variables


def import_folder(home: Path) -> Path:
    """A folder that holds a link to the package `tbd` and nothing else, made under `home` where it isn't there yet.

    As PYTHONPATH it gives a worker `tbd` without the site-packages or the checkout around it.
    """
    folder = home / "import" / hashlib.sha256(str(PACKAGE).encode()).hexdigest()[:12]  # one for each checkout
    link = folder / "tbd"
    if not link.is_symlink():
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # another run made it at the same moment
            link.symlink_to(PACKAGE, target_is_directory=True)
    return folder
