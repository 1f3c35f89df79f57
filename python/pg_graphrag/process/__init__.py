"""The second host: this package in a process beside a database that has neither the extension nor PL/Python.

`database.ProcessDatabase` is `server.Database` over a connection; `routines` says which functions of ``sql/`` are Python,
`schema` makes a plain script of the rest, and `host` calls the former by name. Nothing below knows which host it runs in.
"""
