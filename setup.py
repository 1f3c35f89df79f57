"""The build makes what the package has of sql/. An sdist brings it, and no sql/."""

import runpy
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

PROJECT = Path(__file__).resolve().parent


class Build(build_py):
    """The build, which makes the plain schema before its files are listed."""

    def finalize_options(self) -> None:
        super().finalize_options()
        if (PROJECT / "sql").is_dir():
            sys.path.insert(0, str(PROJECT / "python"))
            runpy.run_path(str(PROJECT / "extension/plain_schema.py"))["write"]()


setup(cmdclass={"build_py": Build})
