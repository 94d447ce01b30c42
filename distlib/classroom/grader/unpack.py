"""Unpacking what a learning management system gives: a zip file of a class, and the zip files that students hand in.

`SafeExtractor` is a step of `nbgrader zip_collect` (nbgrader_config.py names it). nbgrader's own unpacks tar files too,
whose members may land in any folder, and stops at the first zip file that is damaged or has such members: nobody after
it is collected.
"""

from __future__ import annotations

import os
import shutil
import zipfile
import zlib
from pathlib import Path

from nbgrader.plugins.zipcollect import ExtractorPlugin

from distlib.printable import printable

MOST_BYTES = 2 << 30  # of what a student's zip file holds
_DAMAGES = (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, OSError, ValueError)


class SafeExtractor(ExtractorPlugin):
    """Unpacks zip files, each into a folder of its name. What can't be unpacked is named, and the rest goes on."""

    def extract(self, archive_path: str, extracted_path: str) -> None:
        """Copy or unpack every file of a folder into another one.

        Args:
            archive_path: what the learning management system gave.
            extracted_path: an empty folder.
        """
        source, target = Path(archive_path), Path(extracted_path)
        for path in sorted(path for path in source.rglob("*") if path.is_file() and not path.is_symlink()):
            copy = target / path.relative_to(source)
            if path.suffix == ".zip":
                self._unpack(path, copy.with_suffix(""))
            else:
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, copy)
        for path in sorted(target.rglob("*.zip")):  # those of students; no deeper
            if path.is_file():
                self._unpack(path, path.with_suffix(""), most_bytes=MOST_BYTES)
                path.unlink()

    def _unpack(self, path: Path, folder: Path, most_bytes: int | None = None) -> None:
        try:
            with zipfile.ZipFile(path) as archive:
                members = archive.infolist()
                if most_bytes is not None and sum(member.file_size for member in members) > most_bytes:
                    raise ValueError(f"it holds more than {most_bytes >> 20} MiB")
                for member in members:
                    self._unpack_member(archive, member, folder)
        except _DAMAGES as error:
            self.log.warning("Not unpacked: %s (%s)", printable(str(path)), error)

    def _unpack_member(self, archive: zipfile.ZipFile, member: zipfile.ZipInfo, folder: Path) -> None:
        """Unpack one file. zipfile makes a link an ordinary file, and removes .. and / from the beginning of a name."""
        place = folder / member.filename
        if ".." in place.parts or os.path.isabs(member.filename):
            self.log.warning("Not unpacked: %r in %s, it leads out", member.filename, printable(archive.filename or ""))
            return
        try:
            archive.extract(member, folder)
        except _DAMAGES as error:
            self.log.warning("Not unpacked: %r in %s (%s)", member.filename, printable(archive.filename or ""), error)
