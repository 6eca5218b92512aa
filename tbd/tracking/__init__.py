"""The record of a run: its folder, what is sampled beside it, and MLflow.

MLflow would tell its makers of every call, from a thread that wakes ten times a second beside what is being measured.
It looks at this variable when it is imported, which nothing of the controller does before this.
"""

import os

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
