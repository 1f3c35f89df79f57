"""What imports do not need waits until somebody asks for it, and is then the module itself."""

import subprocess
import sys

import pytest

LOADED = """
import sys
sys.modules["plpy"] = type(sys)("plpy")
import pg_graphrag.server, pg_graphrag.search.search
from pg_graphrag.ground.numeric import np
"""


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "script",
    [
        'assert not {"inspect", "ast", "pickle", "platform", "numpy._typing"} & sys.modules.keys(), sys.modules.keys()',
        # dataclasses ask for a signature where a class has no docstring.
        "from dataclasses import dataclass\n@dataclass\nclass Pair:\n    left: int\nassert Pair.__doc__ == 'Pair(left: int)'",
        "import inspect\nassert inspect.isfunction(inspect.cleandoc) and str(inspect.signature(lambda a: a)) == '(a)'",
        "assert np.unique(np.array([2, 1, 2])).tolist() == [1, 2] and 'numpy.ma' not in sys.modules",
        "assert np.ma.masked_less(np.arange(3), 1).sum() == 3 and np.ma is sys.modules['numpy.ma']",
        "import numpy.ma\nassert np.ma.masked_less(np.arange(3), 1).sum() == 3",
        "import pickle\nassert (pickle.loads(pickle.dumps(np.arange(3))) == np.arange(3)).all()",
        "import io\nfile = io.BytesIO()\nnp.save(file, np.arange(3))\nfile.seek(0)\nassert np.load(file).sum() == 3",
        "assert np.dtype('2i4, (3,)f8').names == ('f0', 'f1') and np.matrix('1 2; 3 4').trace() == 5",
        "from numpy.typing import NDArray\nassert NDArray[np.float64].__origin__ is np.ndarray",
        "assert np.linalg.eig(np.eye(2)).eigenvalues.sum() == 2",
    ],
)
def test_modules_that_were_left_out_are_there_when_they_are_used(script: str) -> None:
    subprocess.run([sys.executable, "-c", LOADED + script], check=True)


def test_a_module_that_the_session_has_stays() -> None:
    before, after = (
        "import inspect, ast\nbefore = inspect, ast",
        "assert (sys.modules['inspect'], sys.modules['ast']) == before",
    )
    subprocess.run([sys.executable, "-c", before + LOADED + after], check=True)


def test_beside_a_database_numpy_is_whole() -> None:
    script = "from pg_graphrag.ground.numeric import np\n"
    script += "assert 'ufunc' in np.ufunc.__doc__.lower() and 'array' in np.array.__doc__"
    subprocess.run([sys.executable, "-c", script], check=True)
