"""Storage as what deletes sees it: what lies in a folder, and files deleted by the thousand, by their exact names.

PyIceberg's file I/O reads, writes and deletes one file at a time, and lists nothing.
"""

from tableformat.storage.opening import open_store
from tableformat.storage.store import Deleted, FileStore, StoredFile

__all__ = ["Deleted", "FileStore", "StoredFile", "open_store"]
