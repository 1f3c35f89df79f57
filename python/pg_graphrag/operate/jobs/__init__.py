"""The worker: takes jobs and serves each kind."""
