"""What lists the modes is as their registry has it."""

from pathlib import Path

import pytest
from pg_graphrag.beside.cli.arguments import MODES
from pg_graphrag.ground.mode_names import REDUCED
from pg_graphrag.search import modes

from docs.modes import ROOT, texts


@pytest.mark.parametrize(
    ("path", "text"), texts().items(), ids=lambda item: item.name if isinstance(item, Path) else ""
)
def test_what_is_written_of_the_modes_is_not_stale(path: Path, text: str) -> None:
    stale = f"{path.relative_to(ROOT)} is stale: python -m docs.modes"
    assert path.read_text() == text, stale


def test_a_mode_is_called_as_its_file() -> None:
    assert all(modes.find(mode.name) is mode for mode in modes.all_modes())


def test_the_help_names_every_mode_the_default_first() -> None:
    names = {mode.name for mode in modes.all_modes()}
    assert MODES.startswith("hybrid (default), ")
    assert set(MODES.replace(" (default)", "").replace(" or ", ", ").split(", ")) == names
    assert {mode.name for mode in modes.all_modes() if mode.answer} == set(REDUCED)
