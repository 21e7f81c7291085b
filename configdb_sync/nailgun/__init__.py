"""Nailgun's REST API, read only: which nodes an environment has, how far they are, and the data they will be given."""
