"""The second host: this package in a process beside a database that has neither the extension nor PL/Python.

`session.Session` is a connection with its transaction and the caller's rights. `database.ProcessDatabase` is
`server.Database` over a session, `shared.SharedDatabase` over all connections of a process to one database. `routines`
says which functions of ``sql/`` are Python, `host` calls them by name, and `schema` makes everything else in a
database. The layers below (`operate`, `search`, `index`, …) do not know on which host they run.
"""
