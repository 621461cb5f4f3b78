"""The operator in a cluster: watches, queue, and the rim where the API server is called."""
