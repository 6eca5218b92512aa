"""Data that is missing or damaged: bad_data, and the file is named."""

import json
from pathlib import Path

import pytest
from PIL import Image

from tests.commands import end, events, only_spool, train
from tests.data.vocs import Folder

SMALL = ["framework=pytorch", "model.size=small", "measure=smoke", "measure.passes=[timing]", "tracking=offline"]


def said(folder: Path, *overrides: str) -> str:
    """The cause of a run that ends as bad_data."""
    done = train(folder, *SMALL, *overrides)
    assert done.returncode == 3, done.stderr
    ending = end(only_spool(folder))
    assert ending["status"] == "bad_data" and "Traceback" not in done.stderr
    return str(ending["cause"])


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    assert f"{tmp_path}/nowhere" in said(tmp_path, "model=resnet50", "data=imagenet", "data.root=nowhere")


def test_a_picture_cut_short(tmp_path: Path) -> None:
    pictures = tmp_path / "data" / "train" / "n01440764"
    pictures.mkdir(parents=True)
    Image.new("RGB", (64, 64)).save(pictures / "a.JPEG")
    whole = (pictures / "a.JPEG").read_bytes()
    (pictures / "a.JPEG").write_bytes(whole[: len(whole) // 2])
    assert "a.JPEG" in said(tmp_path, "model=resnet50", "data=imagenet", "data.root=data")


@pytest.mark.parametrize("content, problem", [(b"caf\xe9\n", "UTF-8"), (b"one\ntwo\n", "lines")])
def test_text_that_is_no_text_or_has_other_lines(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "train.en").write_bytes(content)
    (tmp_path / "train.vi").write_text("mot\n")
    cause = said(tmp_path, "model=seq2seq", "data=iwslt15", f"data.root={tmp_path}")
    assert "train.en" in cause and problem in cause


def test_a_folder_whose_name_has_odd_characters(tmp_path: Path) -> None:
    folder = tmp_path / "a=b, 'c d'"
    folder.mkdir()
    for language in ("en", "vi"):
        (folder / f"train.{language}").write_text("one two three\n" * 40)
    quoted = "'" + str(folder).replace("'", "\\'") + "'"
    done = train(tmp_path, *SMALL, "model=seq2seq", "data=iwslt15", f"data.root={quoted}")
    assert done.returncode == 0, done.stderr


def test_a_folder_of_real_photographs_some_of_them_at_fault(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "VOC2007")
    for number in range(30):
        width, height = [(150, 100), (100, 150)][number % 2]
        folder.add_photo(f"{number:06d}", ["flower", "hopper"][number % 2], width, height)
    whole = folder.picture("000000").read_bytes()
    folder.picture("000000").write_bytes(whole[: len(whole) // 2])
    folder.picture("000001").unlink()
    folder.annotation("000002").write_bytes(b"caf\xe9")
    for name, old, new in (("000003", ">person<", ">zebra<"), ("000004", "<xmax>", "<xmax>9")):
        folder.annotation(name).write_text(folder.annotation(name).read_text().replace(old, new))
    data = ["model=faster_rcnn", "model.classes=20", "data=voc", f"data.root={folder.root}"]
    done = train(tmp_path, *SMALL, *data, "data.max_broken_share=0.2", "measure.steps=80")
    assert done.returncode == 0, done.stderr
    spool = only_spool(tmp_path)
    described = [event for event in events(spool) if event["event"] == "dataset"][-1]
    assert described["counts"] == {"pictures": 26, "objects": 26, "shapes": 2}
    skipped = " ".join(described["skipped"])
    for name in ("000000.jpg", "000001.jpg", "000002.xml", "000003.xml", "000004.xml"):
        assert f"{name} is broken (" in skipped
    metrics = json.loads((spool / "figures.json").read_text())["metrics"]
    assert metrics["loss_last"] < 0.9 * metrics["loss_first"] and "data_wait_share" in metrics


def test_a_folder_with_more_at_fault_than_allowed(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "VOC2007")
    for name in ("1", "2"):
        folder.add_photo(name, "flower", 150, 100)
    folder.annotation("2").write_text("<annotation/>")
    data = ["model=faster_rcnn", "model.classes=20", "data=voc", f"data.root={folder.root}"]
    assert "2.xml is broken (annotation has no size/width)" in said(tmp_path, *data)
