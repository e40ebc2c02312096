"""The ``lensproof`` command. Each subcommand is a module of ``lensproof.commands``, imported when it is called."""

from __future__ import annotations

import importlib
import logging
import pkgutil
import sys
import traceback
from pathlib import Path

import click

import lensproof
import lensproof.commands
from lensproof.errors import LensproofError


class Commands(click.Group):
    """Finds subcommands by module name, so that ``lensproof claim`` never imports torch."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(name.replace("_", "-") for _, name, _ in pkgutil.iter_modules(lensproof.commands.__path__))

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in self.list_commands(ctx):
            return None
        return importlib.import_module(f"lensproof.commands.{name.replace('-', '_')}").command


def _named_log(context: click.Context, option: click.Parameter, path: Path | None) -> Path | None:
    """It is written before anything is read: an input given by mistake would be lost."""
    if path is not None and path.suffix != ".log":
        raise LensproofError(f"cannot write {path}: a log's name must end in .log")
    return path


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(lensproof.__version__, prog_name="lensproof")
@click.option(
    "--log", type=click.Path(path_type=Path), callback=_named_log, help="Also write messages and errors to this .log."
)
def cli(log: Path | None) -> None:
    """Rebuild, check and use what two papers say about reading a transformer's residual stream."""
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)]
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        handlers.append(logging.FileHandler(log, mode="w", encoding="utf-8"))
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=handlers, force=True)


def main() -> None:
    """Run the command line: a user's error is one line and status 2, anything else keeps its traceback."""
    try:
        status = cli.main(prog_name="lensproof", standalone_mode=False)
        sys.exit(status if isinstance(status, int) else 0)
    except LensproofError as error:
        logging.getLogger("lensproof").error("lensproof: %s", error)
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        sys.exit(130)
    except Exception:
        logging.getLogger("lensproof").error(traceback.format_exc())
        sys.exit(1)


if __name__ == "__main__":
    main()
