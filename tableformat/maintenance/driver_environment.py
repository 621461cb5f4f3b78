"""The environment variables of a driver, by which whoever starts one tells it what to do and where it runs.

The operator and the driver never import each other, so a name that only one of them changed would show on a cluster
alone: they are here for both.
"""

JOB = "TABLEWRIGHT_JOB"
"""The MaintenanceJob, as JSON."""
EXECUTOR_POD = "TABLEWRIGHT_EXECUTOR_POD"
"""The template of its executors' pods, as JSON; where there is none it works alone."""
POD_NAME = "TABLEWRIGHT_POD_NAME"
POD_NAMESPACE = "TABLEWRIGHT_POD_NAMESPACE"
POD_IP = "TABLEWRIGHT_POD_IP"
LOG_FORMAT = "TABLEWRIGHT_LOG_FORMAT"
"""`text`, the default, or `json`."""
TERMINATION_LOG = "TABLEWRIGHT_TERMINATION_LOG"
"""The file that it leaves its JobReport in; by default where Kubernetes looks for a container's last word."""
PROGRESS_LOG = "TABLEWRIGHT_PROGRESS_LOG"
"""A file that gets a line of JSON as often as there is news, where somebody shows a bar."""
