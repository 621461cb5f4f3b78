"""Real servers for tests, one small module each. `tests/conftest.py` makes them fixtures."""
