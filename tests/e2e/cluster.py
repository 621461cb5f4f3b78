"""The cluster that the suite works on: one that is made for it, kind's, or somebody's own.

What tests need to know of it fits into one environment variable, because the tests of a cluster of our own run in
namespaces that only begin once everything that takes the network is there.
"""

import json
import os
from dataclasses import asdict, dataclass

_VARIABLE = "TABLEWRIGHT_E2E"


@dataclass(frozen=True)
class ClusterChoice:
    address: str
    """Where pods reach servers that run on this machine."""
    operator_image: str
    jobs_image: str
    kubeconfig: str | None = None
    """Of a cluster that is there; none where the suite makes its own node."""
    pause_image: str = ""
    archives: tuple[str, ...] = ()
    """Images for a node of our own."""
    control_group: str = ""
    """Of a node of our own."""

    @property
    def is_our_own(self) -> bool:
        return self.kubeconfig is None

    def to_environment(self) -> dict[str, str]:
        return {**os.environ, _VARIABLE: json.dumps(asdict(self))}

    @classmethod
    def from_environment(cls) -> "ClusterChoice":
        value = json.loads(os.environ[_VARIABLE])
        return cls(**(value | {"archives": tuple(value["archives"])}))
