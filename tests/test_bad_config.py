"""What can't be run: one clear line, exit code 2, nothing left behind."""

from pathlib import Path

import pytest

from tests.commands import train

BAD = {
    "unknown model": (["model=resnet5"], "Did you mean resnet50?"),
    "unknown framework": (["framework=tensorflo"], "Did you mean tensorflow?"),
    "unknown key": (["batch_sise=4"], "Did you mean batch_size or"),
    "unknown key in a group": (["measure.step=3"], "Did you mean measure.steps"),
    "added key": (["+x=1"], "there is no such key"),
    "added option of the data": (["+data.foo=1"], "no option foo"),
    "added option of the model": (["+model.foo=1"], "no option foo"),
    "no value": (["foo"], "Write key=value"),
    "batch of nothing": (["batch_size=0"], "batch_size=0 is too small: at least 1"),
    "text for a number": (["batch_size=many"], "batch_size=many"),
    "fraction for a whole number": (["model.width=1.5"], "model.width=1.5 must be a whole number"),
    "text for an option of the model": (["model=resnet50", "model.image_size=a"], "model.image_size=a must be"),
    "unknown size": (["model.size=tiny"], "full, small"),
    "no node": (["hardware=multi_node", "hardware.nodes=0"], "hardware.nodes=0 is too small"),
    "two devices of a single one": (["hardware=single_gpu", "hardware.devices=2"], "hardware=multi_gpu or multi_node"),
    "a batch that can't be shared out": (["hardware.devices=2", "batch_size_global=5"], "among 2 devices"),
    "unknown engine": (["hardware.engine=steam"], "auto, processes, slurm"),
    "unknown option of Slurm": (["+hardware.slurm.queue=x"], "hardware.slurm.queue is not one of partition"),
    "no port": (["hardware.port=70000"], "1 to 65535"),
    "data of another model": (["model=resnet50", "data=gettext"], "use data=imagenet or data=synthetic"),
    "data without a root": (["data=iwslt15"], "add data.root="),
    "unknown pass": (["measure.passes=[timing,speed]"], "timing, trace, memory"),
    "no pass": (["measure.passes=[]"], "at least one pass"),
    "warm-up that ends before it begins": (["measure.warmup_max_steps=3"], "at least 8"),
    "no time at all": (["measure.timeout_s=0"], "above 0"),
    "unknown precision": (["precision=fp8"], "fp32, fp64"),
    "interpreter for another manager": (["framework.python=/x", "framework.env_manager=uv"], "env_manager=local"),
    "local without an interpreter": (["framework.env_manager=local"], "framework.python="),
    "list without a sweep": (["seed=1,2"], "add -m"),
    "more threads than processors": (["hardware.threads=100000"], "more than this machine's"),
    "a batch beyond all bounds": (["batch_size=99999999999999999999"], "too large"),
    "batch norm of one value": (["model=resnet50", "batch_size=1", "model.image_size=32"], "no variance"),
    "an experiment without a name": (["tracking.experiment="], "tracking.experiment is empty"),
    "a store that is none": (["tracking.uri=foo://bar"], "no store that MLflow knows"),
    "a password in a store's name": (["tracking.uri='https://me:hunter2@host'"], "MLFLOW_TRACKING_PASSWORD"),
    "no server": (["tracking=server"], "tracking.uri=https://HOST"),
    "S3's region without a bucket": (["tracking=server", "tracking.uri=http://h", "tracking.s3_region=x"], "s3_bucket"),
    "credentials that are not there": (["tracking.credentials=/nowhere"], "/nowhere can't be read"),
    "negative seed": (["seed=-1"], "at least 0"),
    "group without a choice": (["model=null"], "Config group override"),
    "bad job of a sweep": (["-m", "batch_size=4,0"], "batch_size=0"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_configuration_is_one_line_and_leaves_nothing(tmp_path: Path, case: str) -> None:
    overrides, said = BAD[case]
    done = train(tmp_path, *overrides)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("tbd: bad configuration: ") and said in line and "hunter2" not in line
    assert list(tmp_path.iterdir()) == []
