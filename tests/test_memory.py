"""python -m tbd.memory on a run's folder: table, page, picture."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tbd.tracking.memory_page import LEFT, WIDTH
from tests.browser import opened
from tests.commands import SLEEP, environment, only_spool, options, train
from tests.measure.test_memory_report import MEMORY


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where a run was given whose memory is known, and one without."""
    folder = tmp_path_factory.mktemp("memory")
    done = train(folder, *SLEEP, *options(items={"images": 4}), "tracking=offline")
    assert done.returncode == 0, done.stderr
    (only_spool(folder) / "memory.json").write_text(json.dumps(MEMORY))
    return folder


def show(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tbd.memory", *arguments]
    return subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=60)


def test_a_run_leaves_page_picture_and_document(folder: Path) -> None:
    spool = only_spool(folder)
    assert (spool / "memory.png").read_bytes().startswith(b"\x89PNG")
    assert (spool / "memory.html").exists() and (spool / "memory_breakdown.json").exists()


@pytest.mark.parametrize("by", ["folder", "id"])
def test_a_run_is_found_by_its_folder_or_id(folder: Path, by: str) -> None:
    spool = only_spool(folder)
    run = json.loads((spool / "run.json").read_text())
    name = {"folder": str(spool), "id": run["spool_id"]}[by]
    done = show(folder, name)
    assert done.returncode == 0, done.stderr
    assert "feature maps" in done.stdout and "41.7" in done.stdout, "35 of the allocator's 84 MB"
    assert "block.conv" in done.stdout
    page = (spool / "memory.html").read_text()
    assert "block.conv" in page and '"position": 4' in page
    assert json.loads((spool / "memory_breakdown.json").read_text())["peak"]["position"] == 4


def test_the_page_needs_nothing_from_elsewhere(folder: Path) -> None:
    show(folder, str(only_spool(folder)))
    page = (only_spool(folder) / "memory.html").read_text()
    assert "http" not in page and " src=" not in page and "<link" not in page


def test_the_page_answers_the_pointer_in_a_browser(folder: Path) -> None:
    """At the peak of MEMORY, 81 MB, of which 35 are feature maps."""
    show(folder, str(only_spool(folder)))
    address = only_spool(folder) / "memory.html"
    with opened(address, viewport={"width": 900, "height": 900}) as (page, wrong):
        box = page.locator("#timeline").bounding_box()
        assert box
        at_event = (LEFT + 0.45 * (WIDTH - LEFT)) / WIDTH  # 4.5 of 10: between the events 4 and 5
        page.mouse.move(box["x"] + at_event * box["width"], box["y"] + box["height"] / 2)
        said = page.locator("#at").inner_text()
        before = float(page.locator(".tick").last.text_content() or "")
        page.get_by_role("button", name="feature maps").click()
        after = float(page.locator(".tick").last.text_content() or "")
    assert said.startswith("backward, event 4: 81.00 MB in buffers") and "feature maps 35.00" in said
    assert (before, after) == (pytest.approx(1.05 * 81, rel=0.01), pytest.approx(1.05 * 46, rel=0.01))
    assert not wrong


def test_two_batch_sizes_predict_the_largest_batch(folder: Path, tmp_path: Path) -> None:
    """100 MB of resident memory at a batch of 8, 132 at 16: 68 MB and 4 MB an item."""
    for size, mb in ((8, 100), (16, 132)):
        copy = tmp_path / str(size)
        shutil.copytree(only_spool(folder), copy)
        request = json.loads((copy / "request.json").read_text())
        (copy / "request.json").write_text(json.dumps({**request, "batch_size": size}))
        lines = [json.loads(line) for line in (copy / "events.jsonl").read_text().splitlines()]
        lines = [{**e, "rss_peak_bytes": mb * 10**6} if e["event"] == "memory" else e for e in lines]
        (copy / "events.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = show(folder, str(tmp_path / "8"), str(tmp_path / "16"), "--limit-mb", "500")
    assert done.returncode == 0, done.stderr
    assert "largest batch within 500 MB: 108, predicted by resident memory = 68.0 MB + 4 MB x batch size" in done.stdout
    done = show(folder, str(tmp_path / "8"), str(tmp_path / "8"), "--limit-mb", "500")
    assert done.returncode == 1
    assert "no prediction: a line needs the peaks of at least two batch sizes" in done.stderr


def test_a_prediction_without_a_limit_is_a_users_mistake(folder: Path) -> None:
    done = show(folder, str(only_spool(folder)), str(only_spool(folder)))
    assert done.returncode == 2
    assert "--limit-mb=N" in done.stderr


def test_what_is_no_run_is_a_users_mistake(folder: Path) -> None:
    done = show(folder, "nothing-of-the-kind")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("tbd.memory: no run is called or matches 'nothing-of-the-kind'")
    assert done.stderr.count("\n") == 1


def test_a_run_without_the_record_says_why(folder: Path, tmp_path: Path) -> None:
    spool = only_spool(folder)
    (tmp_path / "run.json").write_bytes((spool / "run.json").read_bytes())
    (tmp_path / "request.json").write_text(json.dumps({"measure": {"passes": ["timing"]}}))
    done = show(folder, str(tmp_path))
    assert done.returncode == 1
    assert "the memory pass was not asked for (measure.passes)" in done.stderr
