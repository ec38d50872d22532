from tests.fakes.streams import Stream  # noqa: F401
