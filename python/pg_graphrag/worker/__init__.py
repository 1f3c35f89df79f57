"""The worker: takes jobs and sees to each kind of them."""
