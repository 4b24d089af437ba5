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


def unpack() -> Path:
    """Return the folder with the packages for this Python, which is written once for each version of this file."""
    with zipfile.ZipFile(ARCHIVE) as archive:
        pythons = sorted({each.split("/")[1] for each in archive.namelist() if each.startswith("only/")})
        if PYTHON not in pythons:
            sys.exit(
                f"openstack-operator: this file is for Python {', '.join(pythons)}, and this is Python {PYTHON};"
                f" run it with another one, such as python{pythons[-1]} FILE"
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
            folder = tempfile.mkdtemp(dir=str(parent))
        except (OSError, RuntimeError):
            # Such as a user without a home, or the home of another user: nothing in it is run.
            folder = tempfile.mkdtemp(prefix="openstack-operator-")
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            target = Path(folder)
        extract(archive, Path(folder))
    if target != Path(folder):
        try:
            Path(folder).rename(target)
        except OSError:
            # Another process was faster.
            shutil.rmtree(folder, ignore_errors=True)
    return target


def extract(archive: zipfile.ZipFile, folder: Path) -> None:
    """Write the files for this Python."""
    for name in archive.namelist():
        for prefix in ("all/", f"only/{PYTHON}/"):
            if name.startswith(prefix):
                path = folder / name[len(prefix) :]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(archive.read(name))


def main() -> None:
    """Run the command line."""
    sys.path.insert(0, str(unpack()))
    from openstack_operator.cli import main as run  # noqa: PLC0415

    sys.exit(run())


if __name__ == "__main__":
    main()
