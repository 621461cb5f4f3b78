"""The table library: Apache Iceberg tables declared, inspected and maintained, on any of the supported catalogs.

It knows nothing of Kubernetes objects, of kopf or of Spark; the operator and the jobs stand on it.
"""
