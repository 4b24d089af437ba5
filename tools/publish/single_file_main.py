"""Beginning of the command line in one file: unpacks it into the user's cache, once for each version, and runs it."""

# Without what only a new Python reads, so that an old one gets a sentence instead of a SyntaxError.
import atexit
import os
import shutil
import sys
import tempfile
import zipfile
from pathlib import Path

ARCHIVE = Path(__file__).absolute().parent
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
GLIBC = (2, 28)
"""Oldest version with which the compiled packages for Linux work: that of `manylinux_2_28`."""


def unpack() -> Path:
    """Return the folder with the packages for this Python, which is written once for each version of this file."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        pythons = sorted({each.split("/")[1] for each in archive.namelist() if each.startswith("only/")})
        if PYTHON not in pythons:
            sys.exit(
                f"openstack-operator: this file is for Python {', '.join(pythons)}, and this is Python {PYTHON};"
                f" run it with another one, such as python{pythons[-1]} FILE"
            )
        if sys.platform == "linux" and glibc() < GLIBC:
            sys.exit(
                f"openstack-operator: this file needs glibc {GLIBC[0]}.{GLIBC[1]} or later, which this Linux does not"
                " have (Alpine has musl); run it on another one, or install the wheel of the release with pip"
            )
        build = archive.read("build.txt").decode().strip()
        try:
            parent = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "openstack-operator"
            target = parent / f"{build}-py{PYTHON}"
            parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            owner = parent.stat()
            if owner.st_uid != os.geteuid() or owner.st_mode & 0o022:
                raise PermissionError("another user may write there")
            if target.is_dir():
                return target
            folder = extract(archive, str(parent))
        except (OSError, RuntimeError):
            # Such as a full disk, a user without a home, or the home of another user: nothing in it is run.
            return unpack_for_now(archive)
    try:
        folder.rename(target)
    except OSError:
        # Another process was faster.
        shutil.rmtree(str(folder), ignore_errors=True)
    return target


def unpack_for_now(archive: zipfile.ZipFile) -> Path:
    """Return a temporary folder with the packages, which is removed at the end."""
    try:
        folder = extract(archive, None)
    except OSError as error:
        sys.exit(
            f"openstack-operator: its packages can be written neither to the cache nor to a temporary folder ({error});"
            " make room, or set XDG_CACHE_HOME or TMPDIR to a folder with 50 MB"
        )
    atexit.register(shutil.rmtree, str(folder), ignore_errors=True)
    return folder


def glibc() -> "tuple[int, ...]":
    """Return the version of glibc; (0,) without it."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        return tuple(int(each) for each in version.split(".")[:2]) if name == "glibc" else (0,)
    except (AttributeError, OSError, ValueError):
        # musl does not know the name.
        return (0,)


def extract(archive: zipfile.ZipFile, parent: "str | None") -> Path:
    """Return a new folder with the files for this Python; without a parent, in the system's one for temporary files.
    Raises OSError, and leaves no folder then.
    """
    folder = Path(tempfile.mkdtemp(prefix="openstack-operator-", dir=parent))
    try:
        for name in archive.namelist():
            for prefix in ("all/", f"only/{PYTHON}/"):
                if name.startswith(prefix):
                    path = folder / name[len(prefix) :]
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(archive.read(name))
    except OSError:
        shutil.rmtree(str(folder), ignore_errors=True)
        raise
    return folder


def main() -> None:
    """Run the command line."""
    sys.path.insert(0, str(unpack()))
    from openstack_operator.cli.main import main as run  # noqa: PLC0415

    sys.exit(run())


if __name__ == "__main__":
    main()
