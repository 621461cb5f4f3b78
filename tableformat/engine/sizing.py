"""How many files an amount of data should be: one rule for planning and for writing, so that plans converge."""

_ROUND_UP_FROM = 0.6


def files_for(size_bytes: float, target_bytes: int) -> int:
    """Files of 0.8 to 1.6 times the target each (or one smaller file): never so small or large as to be rewritten."""
    return max(1, int(size_bytes / target_bytes + 1 - _ROUND_UP_FROM))
