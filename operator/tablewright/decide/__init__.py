"""What should happen, as pure functions of what is desired, what was observed, and the time. No I/O, no clock."""
