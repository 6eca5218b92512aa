"""The shared server: MLflow for a team, on PostgreSQL and S3."""


class Refused(Exception):
    """What was asked for can't be done. The message is one line: the cause, the value and the way out."""
