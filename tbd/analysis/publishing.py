"""Puts what was made of several runs into MLflow: to the run of the sweep that they belong to, which shows it first."""

from collections.abc import Sequence
from pathlib import Path

from tbd.analysis.runs import Library, Run
from tbd.tracking.redaction import redact, without_credentials
from tbd.tracking.store import Settings, opened, patience, tracking_uri

NOTE = "mlflow.note.content"  # what MLflow's page of a run shows as its description


def publish(library: Library, runs: Sequence[Run], files: Sequence[Path], folder: str, note: str = "") -> str:
    """Log the files under `folder`, and the note, in Markdown, as the description, to the sweep's run; gives a line on
    what became of it.

    Never raises: what was made is there in files.
    """
    parents = {run.parent for run in runs}
    sweeps = library.sweeps() if len(parents) == 1 and "" not in parents else []
    sweep = next((one for one in sweeps if {one.spool_id} == parents), None)
    if sweep is None:
        return "MLflow   not logged: the runs are not those of one sweep"
    if not sweep.run_id:
        return "MLflow   not logged: the sweep is not there yet. python -m tbd.sync brings it up"
    uri = tracking_uri(Settings(uri=library.uri))
    try:
        with opened(uri) as client, patience(retries=1, timeout_s=30):
            for file in files:
                client.log_artifact(sweep.run_id, str(file), folder)
            if note:
                client.set_tag(sweep.run_id, NOTE, note)
    except Exception as error:  # MLflow, SQLAlchemy, boto3 and requests raise all sorts
        return f"MLflow   not logged to {without_credentials(uri)}: {redact(' '.join(str(error).split()))}"
    return f"MLflow   logged to the sweep's run {sweep.run_id}, folder {folder}"
