"""The second host: this package in a process beside a database that has neither the extension nor PL/Python.

`session.Session` is a connection with its transaction and the caller's rights; `database.ProcessDatabase` is `server.Database`
over it, `shared.SharedDatabase` over all connections of a process to one database. `routines` says which functions of
``sql/`` are Python, `schema` makes a plain script of the rest, and `host` calls the former by name. Nothing below knows which
host it runs in.
"""
