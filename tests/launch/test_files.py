"""conf/ and entrypoints/ are found in a checkout and in an installed wheel."""

from tbd.launch import files


def test_a_checkout_has_them_beside_the_package(monkeypatch, tmp_path):
    monkeypatch.setattr(files, "PACKAGE", tmp_path / "tbd")
    assert files.project_file("conf", "config.yaml") == tmp_path / "conf" / "config.yaml"


def test_a_wheel_has_them_inside_and_looks_nowhere_else(monkeypatch, tmp_path):
    (tmp_path / "tbd" / "_files").mkdir(parents=True)
    (tmp_path / "conf").mkdir()  # another package's
    monkeypatch.setattr(files, "PACKAGE", tmp_path / "tbd")
    assert files.project_file("conf") == tmp_path / "tbd" / "_files" / "conf"


def test_the_frameworks_here():
    assert {"pytorch", "tensorflow"} <= set(files.framework_names())
