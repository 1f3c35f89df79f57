"""Every public function, method and class of the package says what it does, in its own docstring or that of what it overrides."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pg_graphrag

PACKAGE = Path(pg_graphrag.__file__).parent
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def _public(body: list[ast.stmt]) -> Iterator[Definition]:
    return (node for node in body if isinstance(node, Definition) and not node.name.startswith("_"))


def _overrides(method: Definition, base_names: list[str], classes: dict[str, ast.ClassDef]) -> bool:
    """Whether a class of these names, or one above it, documents a method of the same name."""
    bases = [classes[name] for name in base_names if name in classes]
    return any(
        any(node.name == method.name and ast.get_docstring(node) for node in _public(base.body))
        or _overrides(method, _bases(base), classes)
        for base in bases
    )


def _bases(node: ast.ClassDef) -> list[str]:
    return [base.id for base in node.bases if isinstance(base, ast.Name)]


def test_everything_public_says_what_it_does() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")}
    classes = {node.name: node for tree in trees.values() for node in tree.body if isinstance(node, ast.ClassDef)}
    silent = []
    for path, tree in trees.items():
        for node in _public(tree.body):
            bases = _bases(node) if isinstance(node, ast.ClassDef) else []
            methods = _public(node.body) if isinstance(node, ast.ClassDef) else ()
            of_node = [method for method in methods if not _overrides(method, bases, classes)]
            silent += [f"{path}: {each.name}" for each in (node, *of_node) if not ast.get_docstring(each)]
    assert silent == [] and len(trees) > 400
