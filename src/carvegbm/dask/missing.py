"""Missing: what is said where Dask is not installed, or not all that its DataFrames need."""

from __future__ import annotations

from carvegbm.errors import CarveError

__all__ = ["NoDaskError"]

_NEEDED = ("dask", "distributed", "fsspec", "pandas", "pyarrow")


class NoDaskError(CarveError, ImportError):
    """An import that failed, and one line that says what to install."""

    @classmethod
    def of(cls, error: ImportError) -> ImportError:
        """What to raise in its place: itself, where another module is to blame."""
        blamed = str(error.name or "").partition(".")[0]
        if blamed not in _NEEDED and "dask" not in str(error).lower():
            return error
        return cls("carvegbm.dask needs dask; pip install 'carvegbm[dask]'")
