"""The Spark jobs that maintain tables."""
