# make test       everything that ./test does
# make docs       build/site: the README and docs/ as a static site, every link checked
# make reference  docs/reference.md, from the statements and comments of sql/
# make packages-lock  docker/packages.lock, from the server's root that `bin/graphrag-server prepare` builds of today's Debian
# make pgxn       dist/pg_graphrag-VERSION.zip: what PGXN takes, for `make install` through PGXS without a checkout
# make sbom       dist/pg_graphrag-VERSION.cdx.json: what we carry, with hashes and licences, as CycloneDX
# make deb        dist/*.deb: Debian's packages, in a root of their own (extension/packaging/make-deb)
# make dist       pgxn and sbom, the Python package as wheel and sdist, and SHA256SUMS: twice the same bytes
VERSION := $(shell sed -n 's/^__version__ *= *"\(.*\)"/\1/p' python/pg_graphrag/__init__.py)
NAME = pg_graphrag-$(VERSION)
BUNDLE = build/bundle/$(NAME)
SDIST = build/sdist/$(NAME)
DIST = dist
PYTHON ?= python3
# What is packed has the time of the last commit (315532800: the first that a zip can say).
SOURCE_DATE_EPOCH ?= $(or $(shell git log -1 --format=%ct 2> /dev/null),315532800)
export SOURCE_DATE_EPOCH
# The tools of `docs`, `dist` and `sbom`, as pyproject.toml names them: others where it names others.
VENV := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/pg_graphrag/tools-$(shell sed -n '/^docs = \|^dist = /p' pyproject.toml | sha256sum | cut -c 1-12)
TOOLS = $(VENV)/bin/python
PAGES = README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE docs bench

.PHONY: test docs reference packages-lock pgxn sbom dist deb
test:
	./test

# By one build at a time: all checkouts share it. macOS has no flock.
$(VENV)/complete:
	mkdir -p $(dir $(VENV))
	exec 9> $(VENV).lock; ! command -v flock > /dev/null || flock 9; [ -e $@ ] || { $(PYTHON) -m venv --clear $(VENV) && \
	    $(PYTHON) -c 'import tomllib; extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; print(*extras["docs"], *extras["dist"], sep="\n")' | \
	    $(VENV)/bin/python -m pip install -qq --disable-pip-version-check --progress-bar off -r /dev/stdin && touch $@; }

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

pgxn: $(TOOLS)
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
	$(PYTHON) extension/packaging/archive.py $(BUNDLE) $(DIST)/$(NAME).zip

sbom: $(VENV)/complete
	mkdir -p $(DIST)
	$(TOOLS) -m extension.packaging.sbom $(DIST)/$(NAME).cdx.json

# Of a copy: builds leave files beside their sources, and take what former ones left.
dist: pgxn sbom $(VENV)/complete
	rm -rf build/source build/sdist
	mkdir -p build/source
	cp -r LICENSE README.md pyproject.toml setup.py extension python sql build/source
	find build/source '(' -name __pycache__ -o -name '*.egg-info' ')' -prune -exec rm -rf {} +
	$(TOOLS) -m build --no-isolation --sdist --outdir build/sdist build/source
	tar -xzf $(SDIST).tar.gz -C build/sdist
	$(PYTHON) extension/packaging/archive.py $(SDIST) $(DIST)/$(NAME).tar.gz
	rm -rf $(SDIST)
	umask 022 && tar -xzf $(DIST)/$(NAME).tar.gz -C build/sdist
	umask 022 && $(TOOLS) -m build --no-isolation --wheel --outdir $(DIST) $(SDIST)
	$(VENV)/bin/twine check --strict $(DIST)/$(NAME)*.tar.gz $(DIST)/$(NAME)-py3-none-any.whl
	cd $(DIST) && sha256sum $(NAME).zip $(NAME).cdx.json $(NAME).tar.gz $(NAME)-py3-none-any.whl > SHA256SUMS

deb: pgxn sbom
	extension/packaging/make-deb $(BUNDLE) $(DIST)/$(NAME).cdx.json $(DIST)
