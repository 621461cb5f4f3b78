"""The custom resources as values: Kubernetes objects are parsed here, once, and are frozen models from then on."""
