"""The doctor tells what is here and what mends each thing missing; its exit code, whether a run can start."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tbd import doctor
from tbd.doctor import FAILED, LATER, NONE, OK, Check


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("TBD_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)


def test_json_has_every_area_and_agrees_with_the_exit_code(capsys):
    code = doctor.main(["--json"])
    found = json.loads(capsys.readouterr().out)
    areas = {check["area"] for check in found["checks"]}
    assert areas == {"controller", "managers", "frameworks", "devices", "counters", "tracking", "space", "data"}
    assert code == (0 if found["ready"] else 1)
    assert not [check for check in found["checks"] if "looking at it" in check["name"]], "a check broke"


def test_the_table_shows_what_is_found_and_below_it_what_mends(monkeypatch, capsys):
    checks = [Check("data", "sentences", FAILED, "no catalogue", "python -m pip install django")]
    monkeypatch.setattr(doctor, "AREAS", [lambda: iter(checks)])
    assert doctor.main([]) == 1
    shown = capsys.readouterr().out
    assert "no catalogue" in shown and "sentences: python -m pip install django" in shown


@pytest.mark.parametrize("state, code", [(OK, 0), (LATER, 0), (NONE, 0), (FAILED, 1)])
def test_only_what_the_main_job_needs_fails(monkeypatch, capsys, state, code):
    monkeypatch.setattr(doctor, "AREAS", [lambda: iter([Check("a", "b", OK, "c"), Check("a", "d", state, "e")])])
    assert doctor.main(["--json"]) == code


def test_a_check_that_breaks_is_told_and_stops_no_other(monkeypatch):
    def broken():
        raise RuntimeError("no /proc here")

    monkeypatch.setattr(doctor, "AREAS", [broken, lambda: iter([Check("a", "b", OK, "c")])])
    first, second = doctor.examine()
    assert (first.state, first.found) == (FAILED, "RuntimeError: no /proc here")
    assert second.state == OK


def test_an_environment_that_is_not_built_is_built_by_the_first_run():
    states = {check.name: check for check in doctor.frameworks()}
    assert states["pytorch"].state == LATER
    assert "framework=pytorch" in states["pytorch"].mend


def test_without_any_way_to_make_environments_the_main_job_cannot_run(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor.managers, "missing", lambda manager, loaded: f"no {manager}")
    states = {check.name: check for check in doctor.frameworks()}
    assert (states["tensorflow"].state, states["pytorch"].state) == (FAILED, NONE)
    assert "no interpreter; no pyenv; no uv; no conda" in states["tensorflow"].found
    mends = {check.name: check.mend for check in doctor.environment_managers() if check.name != "uv"}
    assert "apt-get install python3.11" in mends["Python 3.11"]


@pytest.fixture
def server():
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200 if self.path == "/health" else 404)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_server_that_answers_is_fine_and_one_that_does_not_is_not(server):
    assert doctor.store_problem(server) is None
    assert doctor.store_problem(server + "/") is None
    assert "Not Found" in str(doctor.store_problem(server + "/elsewhere"))
    assert "refused" in str(doctor.store_problem("http://127.0.0.1:9"))
    assert "refused" in str(doctor.store_problem("postgresql://user@127.0.0.1:9/mlflow"))


def test_a_store_of_no_known_kind_is_told(tmp_path):
    assert "sqlite:///" in str(doctor.store_problem(f"file://{tmp_path}"))


def test_a_database_file_must_be_one(tmp_path):
    assert doctor.store_problem(f"sqlite:///{tmp_path}/new.db") is None
    assert "can't be written" in str(doctor.store_problem(f"sqlite:///{tmp_path}/no/such/folder/new.db"))
    (tmp_path / "broken.db").write_text("not a database at all, though long enough for its header " * 10)
    assert "not a database" in str(doctor.store_problem(f"sqlite:///{tmp_path}/broken.db"))


def test_passwords_are_not_shown(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://user:pa55word@127.0.0.1:9")
    (check,) = doctor.tracking()
    assert check.state == FAILED and "pa55word" not in check.found
    assert "tracking=offline" in check.mend


def test_an_energy_counter_for_root_only_comes_with_its_command(tmp_path, monkeypatch):
    zone = tmp_path / "intel-rapl:0"
    zone.mkdir()
    (zone / "energy_uj").write_text("1")
    monkeypatch.setattr(doctor, "POWERCAP", tmp_path)
    assert next(doctor.counters()).state == OK
    monkeypatch.setattr(doctor.os, "access", lambda path, mode: False)
    assert next(doctor.counters()).mend == f"sudo chmod a+r {tmp_path}/intel-rapl:*/energy_uj"


def test_too_little_space_is_told_with_the_way_out(tmp_path):
    check = doctor.room("runs", tmp_path / "not" / "yet", needed_gb=1e9, setting="tracking.runs")
    assert check.state == FAILED and "GB free" in check.found and "tracking.runs" in check.mend
    assert doctor.room("runs", tmp_path, needed_gb=0, setting="tracking.runs").state == OK


def test_without_sentences_the_main_job_cannot_run(monkeypatch, tmp_path):
    monkeypatch.setattr("tbd.data.gettext.catalogue_folders", lambda: [str(tmp_path)])
    (check,) = doctor.data()
    assert (check.state, check.mend) == (FAILED, "python -m pip install django")
