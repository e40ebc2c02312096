"""What code a step runs, as one hash, found by reading the source.

Snakemake does not see imported modules. Each rule therefore carries ``params: code=code_hash("readings")``:
a hash over the syntax trees of the step's command module and of everything that it imports inside the
package, comments and docstrings left out. An edit that can change behaviour reruns what depends on it, and a
comment, a checkout or a newer file time reruns nothing. Nothing is imported to find this out, so a module that a
step finds by its name at run time is named beside it: ``code_hash("estimate", "lensproof.statistics.readings")``.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from pathlib import Path

ROOT = Path(__file__).parent
PACKAGE = ROOT.name


def code_hash(*modules: str) -> str:
    """Hash of the named modules and of all that they import inside the package.

    Args:
        modules: dotted names, ``"lensproof.frames.flow"``, or a command's bare name, ``"readings"``.

    Returns:
        Sixteen hexadecimal digits.

    Raises:
        ModuleNotFoundError: a named module does not exist.
    """
    names = [name if "." in name else f"{PACKAGE}.commands.{name}" for name in modules]
    digest = hashlib.sha256()
    for module in sorted(closure(*names)):
        digest.update(f"{module} {_tree_hash(module)}\n".encode())
    return digest.hexdigest()[:16]


def closure(*modules: str) -> set[str]:
    """The named modules and every module of the package that they import, directly or not.

    Imports inside functions count; so do the ``__init__`` files of the folders on the way.
    """
    found: set[str] = set()
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        if module in found:
            continue
        if _path(module) is None:
            raise ModuleNotFoundError(f"no module {module} in {ROOT}")
        found.add(module)
        waiting.extend(_parents(module))
        waiting.extend(_imports(module))
    return found


def _path(module: str) -> Path | None:
    stem = ROOT.joinpath(*module.split(".")[1:])
    for path in (stem / "__init__.py", stem.with_suffix(".py")):
        if module.split(".")[0] == PACKAGE and path.is_file():
            return path
    return None


def _parents(module: str) -> list[str]:
    parts = module.split(".")
    names = [".".join(parts[:length]) for length in range(1, len(parts))]
    return [name for name in names if _path(name) is not None]


def _imports(module: str) -> set[str]:
    return {name for name in _read(module)[0] if _path(name) is not None}


def _tree_hash(module: str) -> str:
    return _read(module)[1]


def _read(module: str) -> tuple[frozenset[str], str]:
    """Names that a module imports, and the hash of its syntax tree; read again only where the file changed."""
    path = _path(module)
    status = path.stat()
    return _parse(path, status.st_mtime_ns, status.st_size)


@functools.cache
def _parse(path: Path, modified: int, size: int) -> tuple[frozenset[str], str]:
    tree = ast.parse(path.read_bytes(), filename=str(path))
    names = frozenset(name for node in ast.walk(tree) for name in _named(node, path))
    return names, hashlib.sha256(ast.dump(_Bare().visit(tree)).encode()).hexdigest()


def _named(node: ast.AST, path: Path) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    if node.level:
        raise ImportError(f"{path}: relative imports are not followed; write the full name")
    return [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]


class _Bare(ast.NodeTransformer):
    """Takes docstrings out of a tree (comments are not in it to begin with)."""

    def _strip(self, node):
        self.generic_visit(node)
        first = node.body[0] if node.body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            node.body = node.body[1:]
        return node

    visit_Module = visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _strip
