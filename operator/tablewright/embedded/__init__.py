"""The same core without a cluster: a folder of YAML, SQLite and a local warehouse, Spark in local mode."""
