"""A reverse proxy that refuses now and then, as busy or cautious ones do."""

import contextlib
import http.client
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "host", "content-length"}


@contextlib.contextmanager
def before(url: str, code: int, every: int = 0, largest: int = 0) -> Iterator[tuple[str, Callable[[], int]]]:
    """(the proxy's URL, how often it has refused so far). Of every `every` requests it refuses one with `code`, and
    every call of the tracking API with more than `largest` bytes."""
    target = urllib.parse.urlsplit(url)
    seen, refused, lock = [0], [0], threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            with lock:
                seen[0] += 1
                too_large = largest and len(body) > largest and "/mlflow/" in self.path
                refuses = too_large or (every and seen[0] % every == 0)
                refused[0] += bool(refuses)
            if refuses:
                self.answer(code, b"<html>refused</html>", {"Retry-After": "0", "Content-Type": "text/html"})
                return
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
            connection = http.client.HTTPConnection(target.hostname or "", target.port, timeout=120)
            try:
                connection.request(self.command, self.path, body, headers)
                response = connection.getresponse()
                self.answer(response.status, response.read(), dict(response.getheaders()))
            finally:
                connection.close()

        def answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                if name.lower() not in HOP_BY_HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", lambda: refused[0]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
