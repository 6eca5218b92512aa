"""Where the files that travel with the package are: conf/ and entrypoints/."""

from pathlib import Path

import tbd

PACKAGE = Path(tbd.__file__).resolve().parent


def project_file(*parts: str) -> Path:
    """The file or folder conf/... or entrypoints/...: packed within an installed wheel, else beside it in the checkout.

    An installed package looks at its own files only: beside it, in site-packages, a `conf` would be somebody else's.
    """
    packed = PACKAGE / "_files"
    return (packed if packed.is_dir() else PACKAGE.parent).joinpath(*parts)


def framework_names() -> list[str]:
    """The frameworks that have a project folder here, sorted."""
    return sorted(path.parent.name for path in project_file("entrypoints", "frameworks").glob("*/MLproject"))
