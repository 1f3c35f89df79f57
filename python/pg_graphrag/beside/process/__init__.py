"""The second host: this package in a process beside a database that has neither the extension nor PL/Python.

`session.Session` is a connection with its transaction and the caller's rights; `database.ProcessDatabase` is `server.Database`
over it, `shared.SharedDatabase` over all connections of a process to one database. `routines` says which functions of
``sql/`` are Python, and `host` calls them by name; `schema` makes the rest in a database. Nothing below knows which host it
runs in.
"""
