"""What code a step runs, as one hash, found by reading the source.

Snakemake does not see imported modules. Each rule therefore carries ``params: code=code_hash("readings")``:
a hash over the syntax trees of the step's command module and of everything that it imports inside the
package, comments and docstrings left out. An edit that can change behaviour reruns what depends on it, and a
comment, a checkout or a newer file time reruns nothing. Nothing is imported to find this out, so a module that a
step finds by its name at run time is named beside it: ``code_hash("estimate", "lensproof.statistics.readings")``.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import json
import os
import sys
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
    _notes().save()
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


def _path(module: str) -> str | None:
    return _find(str(ROOT), module)


@functools.cache
def _find(root: str, module: str) -> str | None:
    # Strings, not Path objects: the Snakefile asks tens of thousands of times before any work starts.
    package, *rest = module.split(".")
    stem = os.path.join(root, *rest)
    candidates = (os.path.join(stem, "__init__.py"), f"{stem}.py") if package == PACKAGE else ()
    return next((path for path in candidates if os.path.isfile(path)), None)


@functools.cache
def _parents(module: str) -> tuple[str, ...]:
    parts = module.split(".")
    names = (".".join(parts[:length]) for length in range(1, len(parts)))
    return tuple(name for name in names if _path(name) is not None)


def _imports(module: str) -> frozenset[str]:
    return _read(module)[0]


def _tree_hash(module: str) -> str:
    return _read(module)[1]


def _read(module: str) -> tuple[frozenset[str], str]:
    """Modules of the package that a module imports, and the hash of its syntax tree; read again only where the file
    changed."""
    path = _path(module)
    status = os.stat(path)
    return _parse(path, status.st_mtime_ns, status.st_size)


@functools.cache
def _parse(path: str, modified: int, size: int) -> tuple[frozenset[str], str]:
    names, tree = _notes().of(Path(path).read_bytes(), path)
    return frozenset(name for name in names if _path(name) is not None), tree


class _Notes:
    """What was found in files by their content, kept beside the package's bytecode: every job of a run asks again."""

    def __init__(self, file: Path) -> None:
        self._file, self._new = file, False
        try:
            self._known = json.loads(file.read_text())
        except (OSError, ValueError):
            self._known = {}

    def of(self, content: bytes, path: str) -> tuple[list[str], str]:
        """Names that a file imports, and the hash of its syntax tree."""
        key = f"{sys.version_info[:2]} {hashlib.sha256(content).hexdigest()}"
        if key not in self._known:
            tree = ast.parse(content, filename=path)
            names = sorted({name for node in ast.walk(tree) for name in _named(node, path)})
            self._known[key] = names, hashlib.sha256(ast.dump(_Bare().visit(tree)).encode()).hexdigest()
            self._new = True
        return tuple(self._known[key])

    def save(self) -> None:
        """Write down what is new."""
        if not self._new:
            return
        self._new = False
        # Several jobs may write at once, or none may: whoever comes later finds a whole file or parses again.
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(exist_ok=True)
            temporary = self._file.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(self._known))
            temporary.replace(self._file)


def _notes() -> _Notes:
    return _notes_in(ROOT / "__pycache__" / "codehash.json")


@functools.cache
def _notes_in(file: Path) -> _Notes:
    return _Notes(file)


def _named(node: ast.AST, path: str) -> list[str]:
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
