from tests.tracking.conftest import client, empty_database, plain_environment, settings  # noqa: F401  fixtures
