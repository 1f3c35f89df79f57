"""The build makes what stands in no commit: the plain schema and the blocking client. An sdist brings them, and no sql/."""

import runpy
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

PROJECT = Path(__file__).resolve().parent


class Build(build_py):
    """The build, which makes files of the package before they are listed."""

    def finalize_options(self) -> None:
        super().finalize_options()
        if (PROJECT / "sql").is_dir():
            sys.path.insert(0, str(PROJECT / "python"))
            for script in ("plain_schema", "blocking_client"):
                runpy.run_path(str(PROJECT / f"extension/{script}.py"))["write"]()


setup(cmdclass={"build_py": Build})
