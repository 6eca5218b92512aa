from tests.server.stack import stack

__all__ = ["stack"]
