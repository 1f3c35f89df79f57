# make install       through PGXS: the extension's scripts (PG_CONFIG=... picks the server)
# make installcheck  smoke test of the installed extension, on the server that libpq's environment names
# The Python package: docker/install-python, then extension/install-package (docs/install.md).
EXTENSION = pg_graphrag
DATA = $(wildcard scripts/*.sql)
REGRESS = smoke
REGRESS_OPTS = --inputdir=test --encoding=UTF8 $(if $(filter installcheck,$(MAKECMDGOALS)),--outputdir=$(shell mktemp -d))
PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)
