"""The artifacts as objects in S3."""

import urllib.parse
from collections.abc import Iterator
from typing import Any

from tbd.server import mlflow_server, seaweedfs
from tbd.server.settings import Home, Settings


def client(home: Home, settings: Settings) -> Any:
    """Of the server's S3: its own, or the given one with the credentials that boto3 finds."""
    if not settings.s3:
        return seaweedfs.client(home, settings)
    import boto3

    return boto3.client("s3", endpoint_url=settings.s3_endpoint or None, region_name=settings.s3_region or None)


def place(settings: Settings) -> tuple[str, str]:
    """(bucket, prefix) of the artifacts; a prefix ends with a slash, or is empty."""
    parts = urllib.parse.urlsplit(mlflow_server.artifacts(settings))
    prefix = parts.path.strip("/")
    return parts.netloc, f"{prefix}/" if prefix else ""


def keys(s3: Any, bucket: str, prefix: str) -> Iterator[str]:
    """Every object's key below the prefix."""
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for entry in page.get("Contents", []):
            yield entry["Key"]
