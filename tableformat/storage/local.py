"""Folders of this machine. Symbolic links are neither followed nor listed: what they lead to is not the table's."""

import os
from collections.abc import Collection, Iterator
from pathlib import Path

from tableformat.locations import Place
from tableformat.storage.store import Deleted, StoredFile


class LocalStore:
    def files(self, folder: str) -> Iterator[StoredFile]:
        place = Place.of(folder)
        # As asked for: PyIceberg cuts a file:// location at # and ?, and takes a plain path as it is.
        prefix = "file://" if place.scheme else ""
        pending = [os.path.normpath(place.path)]
        while pending:
            current = pending.pop()
            try:
                entries = os.scandir(current)
            except FileNotFoundError:  # never made, or removed meanwhile with all that was in it
                continue
            with entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        try:
                            status = entry.stat(follow_symlinks=False)
                        except FileNotFoundError:  # deleted since the folder was read
                            continue
                        yield StoredFile(f"{prefix}{entry.path}", status.st_size, int(status.st_mtime * 1000))

    def delete(self, locations: Collection[str]) -> Deleted:
        deleted, missing, failed = [], [], {}
        for location in locations:
            try:
                Path(Place.of(location).path).unlink()
                deleted.append(location)
            except FileNotFoundError:
                missing.append(location)
            except OSError as error:
                failed[location] = error.strerror or str(error)
        return Deleted(tuple(deleted), tuple(missing), failed)
