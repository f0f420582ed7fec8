"""Imports of optional packages: a package that is missing gives one sentence with the command that installs it."""

from collections.abc import Iterator
from contextlib import contextmanager

from moso import errors
from moso.models.compat import prepare_torchvision
from moso.quiet import quiet_notices


@contextmanager
def needed(package: str, extra: str | None = None) -> Iterator[None]:
    """Turn the failing import of an optional package into an error that names the extra.

    Args:
        package: Name of the package that the block imports.
        extra: Extra that brings the package; by default it has the name of the package.

    Raises:
        PackageMissing: The package is not installed.
        PackageIncompatible: An installed torchvision, which several of these packages import, does not import.

    Example:
        >>> with needed("no_such_package", extra="vision"):
        ...     import no_such_package
        Traceback (most recent call last):
        ...
        moso.errors.PackageMissing: no_such_package is not installed; pip install "moso-prune[vision]" installs it
    """
    prepare_torchvision()
    try:
        with quiet_notices():
            yield
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] != package:
            raise
        raise errors.package_missing(package, extra or package) from problem
