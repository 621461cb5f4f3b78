"""What the API server would say of an object, without one: the CRDs' schemas and CEL rules, applied here.

For `validate`, `plan` and `apply` on a folder: people learn in their editor or pull request what a cluster would tell
them later. The CRDs themselves are the rules, so there is nothing to keep in step; a test sends the same objects to a
real API server and compares the verdicts.
"""

from tablewright.api.admission.admit import admit, as_stored
from tablewright.api.admission.problems import Path, Problem
from tablewright.api.admission.schemas import known_kinds

__all__ = ["Path", "Problem", "admit", "as_stored", "known_kinds"]
