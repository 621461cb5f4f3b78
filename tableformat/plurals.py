"""A number with its noun, for everything that people read: 1 file, 2 files, 1,200 rows."""


def plural(number: int, noun: str, several: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"
