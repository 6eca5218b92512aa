"""Data that is missing or damaged: bad_data, and the file is named."""

from pathlib import Path

import pytest
from PIL import Image

from tests.commands import end, only_spool, train

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
