# make test       everything that ./test does
# make docs       build/site: the README and docs/ as a static site, every link checked
# make reference  docs/reference.md, from the statements and comments of sql/
# make packages-lock  docker/packages.lock, from the server's root that `bin/graphrag-server prepare` builds of today's Debian
# make bundle     dist/pg_graphrag-VERSION.zip: what PGXN takes, for `make install` through PGXS without a checkout
# make dist       that, and the Python package as wheel and sdist
VERSION := $(shell sed -n 's/^__version__ *= *"\(.*\)"/\1/p' python/pg_graphrag/__init__.py)
NAME = pg_graphrag-$(VERSION)
BUNDLE = build/bundle/$(NAME)
DIST = dist
PYTHON ?= python3
# The tools of `docs` and `dist`, as pyproject.toml names them.
VENV = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/pg_graphrag/tools
TOOLS = $(VENV)/bin/python
PAGES = README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE docs bench

.PHONY: test docs reference packages-lock bundle dist
test:
	./test

$(VENV)/complete: pyproject.toml
	$(PYTHON) -m venv --clear $(VENV)
	$(PYTHON) -c 'import tomllib; extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; print(*extras["docs"], *extras["dist"], sep="\n")' | \
	    $(VENV)/bin/python -m pip install -qq --disable-pip-version-check --progress-bar off -r /dev/stdin
	touch $@

$(VENV)/bin/python: $(VENV)/complete

# The pages lie in the site as they lie here, so that one set of links serves both.
docs: $(VENV)/complete
	rm -rf build/pages
	mkdir -p build/pages
	ln -s $(PAGES:%=../../%) build/pages
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict

reference: $(VENV)/complete
	PYTHONPATH=python $(VENV)/bin/python -m docs.reference

packages-lock:
	GRAPHRAG_INSTANCE=packages-lock GRAPHRAG_RUNTIME=$(if $(filter 0,$(shell id -u)),chroot,bubblewrap) bin/graphrag-server prepare > /dev/null
	GRAPHRAG_INSTANCE=packages-lock bin/graphrag-server exec sh -s < docker/lock-packages > docker/packages.lock

bundle: $(TOOLS)
	$(MAKE) --no-print-directory -C extension PG_CONFIG=false all
	rm -rf build/bundle
	mkdir -p $(BUNDLE)/scripts $(BUNDLE)/test $(BUNDLE)/extension/released $(BUNDLE)/docker $(DIST)
	cp README.md CHANGELOG.md SECURITY.md LICENSE extension/META.json extension/pg_graphrag.control $(BUNDLE)
	cp extension/bundle.mk $(BUNDLE)/Makefile
	cp extension/released/*.sql $(BUNDLE)/scripts
	cp extension/build/*.sql $(BUNDLE)/scripts
	cp -r extension/sql extension/expected $(BUNDLE)/test
	cp extension/install-package $(BUNDLE)/extension
	cp extension/released/*.tar.xz $(BUNDLE)/extension/released
	cp -rL python docs $(BUNDLE)
	cp docker/install-python docker/fetch-models docker/*.lock docker/packages.txt $(BUNDLE)/docker
	$(PYTHON) -m extension.blocking_client $(BUNDLE)/python/pg_graphrag/beside/client/blocking.py
	PYTHONPATH=python $(TOOLS) -m extension.plain_schema $(BUNDLE)/python/pg_graphrag/beside/process/plain
	find $(BUNDLE) '(' -name __pycache__ -o -name '*.egg-info' ')' -prune -exec rm -rf {} +
	$(PYTHON) -c 'import shutil, sys; shutil.make_archive(*sys.argv[1:])' $(DIST)/$(NAME) zip build/bundle $(NAME)

dist: bundle $(VENV)/complete
	$(VENV)/bin/python -m build --outdir $(DIST) .
