"""What mkdocs does beside building: pages that are parts of other files, and links that lead out of docs/."""

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
# {page: (file, its section; "" for all of it)}: the page's own text stands before it
PARTS = {
    "index.md": ("README.md", ""),
    "contributing.md": ("CONTRIBUTING.md", ""),
    "own-model.md": ("CONTRIBUTING.md", "Add a model"),
    "own-framework.md": ("CONTRIBUTING.md", "Add a framework"),
    "own-metric.md": ("CONTRIBUTING.md", "Add a metric"),
}
CONFIGURATION = "configuration.md"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    name = page.file.src_uri
    if name in PARTS:
        file, section = PARTS[name]
        markdown += "\n\n" + part((ROOT / file).read_text(), section)
    if name == CONFIGURATION:
        markdown += "\n\n" + configuration()
    return links(markdown)


def part(text: str, section: str) -> str:
    """The text below the heading `section`, to the next one."""
    return re.split(rf"^## {section}\n", text, flags=re.MULTILINE)[1].split("\n## ")[0] if section else text


def configuration() -> str:
    """Every file of conf/ as it is, with its comments."""
    files = [
        ROOT / "conf" / "config.yaml",
        *sorted((ROOT / "conf").glob("[!h]*/*.yaml")),
        *sorted((ROOT / "conf").glob("hardware/*.yaml")),
    ]
    titles = [str(file.relative_to(ROOT / "conf").with_suffix("")) for file in files]
    return "\n\n".join(
        f"## {title}\n\n```yaml\n{file.read_text()}```" for title, file in zip(titles, files, strict=True)
    )


def links(markdown: str) -> str:
    """Links to pages as the site has them; those to other files of the repository become the files' names."""
    markdown = re.sub(r"\]\(docs/", "](", markdown).replace("](CONTRIBUTING.md", "](contributing.md")
    return re.sub(r"\[[^\]]*\]\((?:\.\./)+([^)]*)\)", r"`\1`", markdown)
