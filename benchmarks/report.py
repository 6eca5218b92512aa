"""How long a report over many runs takes, and how much memory: python benchmarks/report.py [--runs 1000]

Makes a store of that many finished runs, of every model in three frameworks on two devices over batches, in a temporary
folder, and times `python -m tbd.report` as a user would call it. The bar: 1,000 runs in 10 s and 1 GB (10^9 bytes).
"""

import argparse
import csv
import itertools
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag

ROOT = Path(__file__).resolve().parent.parent
MODELS = ("resnet50", "inception_v3", "seq2seq", "transformer", "faster_rcnn", "deep_speech2", "wgan", "a3c")
CELLS = itertools.product(
    ("pytorch", "tensorflow", "jax"), ("cpu", "single_gpu"), ("fp32", "bf16"), MODELS, (4, 8, 16, 32, 64), range(9)
)
STRUCTURES = ("weights", "weight_gradients", "optimizer_state", "feature_maps", "workspace", "input", "other")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    count = parser.parse_args().runs
    with tempfile.TemporaryDirectory(prefix="tbd-bench-") as folder:
        fill(Path(folder), count)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        begin = time.monotonic()
        subprocess.run([sys.executable, "-m", "tbd.report"], cwd=folder, env=environment, check=True)
        seconds = time.monotonic() - begin
        size = (Path(folder) / "report.html").stat().st_size / 1e6
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu, peak = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6
    print(f"{count} runs: {seconds:.1f} s ({cpu:.1f} s of CPU), {peak:.0f} MB at the most, a page of {size:.1f} MB")
    return 0


def fill(folder: Path, count: int) -> None:
    """`count` runs in the folder's mlflow.db, with operators among their artifacts."""
    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.create_experiment("tbd", artifact_location=str(folder / "mlruns"))
    for number, cell in enumerate(itertools.islice(CELLS, count)):
        framework, hardware, precision, model, batch, repeat = cell
        run = client.create_run(experiment, tags={"tbd.spool_id": f"{number:032x}"}, run_name=f"{model} {framework}")
        params, tags, metrics = facts(framework, hardware, precision, model, batch, repeat)
        client.log_batch(
            run.info.run_id,
            [Metric(key, value, 0, 0) for key, value in metrics.items()],
            [Param(key, value) for key, value in params.items()],
            [RunTag(key, value) for key, value in tags.items()],
        )
        operators(Path(run.info.artifact_uri), hardware)
        client.set_terminated(run.info.run_id)


def facts(
    framework: str, hardware: str, precision: str, model: str, batch: int, repeat: int
) -> tuple[dict[str, str], dict[str, str], dict[str, float]]:
    """Params, tags and metrics as many as a real run has."""
    device = "cpu" if hardware == "cpu" else "gpu"
    rate = 100 * batch / (batch + 16) * random.uniform(0.97, 1.03)
    params = {
        "model.name": model, "framework.name": framework, "hardware.name": hardware, "hardware.device": device,
        "hardware.devices": "1", "hardware.nodes": "1", "batch_size": str(batch), "seed": str(repeat),
        "precision": precision, "compile": "eager", "data.name": "synthetic",
        **{f"measure.option_{n}": "1" for n in range(10)}, **{f"model.option_{n}": "1" for n in range(10)},
    }  # fmt: skip
    tags = {
        "tbd.status": "ok", "tbd.throughput_unit": "images", "framework_version": "1.0", "device_names": device,
        "tbd.model": model, "tbd.framework": framework, "tbd.overrides": f"model={model} batch_size={batch}",
        **{f"tbd.note_{n}": "a note" for n in range(10)},
    }  # fmt: skip
    metrics = {
        "throughput": rate, "throughput_ci_low": 0.99 * rate, "throughput_ci_high": 1.01 * rate, "mfu": 0.3,
        "cpu_utilization": 0.9, "data_wait_share": 0.01, "memory/peak_mb": 10.0 * batch, "energy_j_per_item": 1.0,
        **{f"memory/{name}_mb": 10.0 * batch / len(STRUCTURES) for name in STRUCTURES},
        "memory/feature_maps_share_of_structures": 0.7, "memory/feature_maps_highest_mb": 7.0 * batch,
        **({"gpu_compute_utilization": 0.9} if device == "gpu" else {}),
        **{f"figure_{n}": float(n) for n in range(20)},
    }  # fmt: skip
    return params, tags, metrics


def operators(folder: Path, hardware: str) -> None:
    """An operators.csv as long as a real one."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "operators.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "category", "count_per_step", "self_ms_per_step", "share"])
        category = "cpu_op" if hardware == "cpu" else "kernel"
        writer.writerows([f"aten::operator_{n}", category, 3.0, 1.0, 1 / 150] for n in range(150))


if __name__ == "__main__":
    sys.exit(main())
