"""A page as its reader has it."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """The tags and the visible text of a page, a line for each piece of it."""

    def __init__(self, text: str):
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data + "\n"
