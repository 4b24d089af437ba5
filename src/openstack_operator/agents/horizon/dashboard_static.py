"""Collects and compresses the dashboard's static files, with the files of a user's theme if there are any."""

from __future__ import annotations

import os
import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

BRANDING = Path("/etc/horizon-branding")
"""Folder of a user's files, by the names that a ConfigMap allows."""
STYLES = ("_variables.scss", "_styles.scss")
IMAGES = frozenset({".gif", ".ico", ".jpeg", ".jpg", ".png", ".svg", ".webp"})
"""Suffixes of files that a theme may publish."""


def make_theme(files: Path, base: Path, theme: Path) -> None:
    """Make a theme of a user's files over those of another theme: a style replaces the one of its name, and an image is
    added. Other files are left out, since everybody could read them.
    """
    shutil.rmtree(theme, ignore_errors=True)
    static = theme / "static"
    shutil.copytree(base / "static" if (base / "static").is_dir() else base, static)
    if (base / "templates").is_dir():
        shutil.copytree(base / "templates", theme / "templates")
    (static / "img").mkdir(exist_ok=True)
    for file in sorted(files.iterdir()):
        # The folder of a volume also has links to its versions.
        if not file.is_file() or file.name.startswith(".."):
            continue
        if file.name in STYLES:
            shutil.copyfile(file, static / file.name)
        elif file.suffix.lower() in IMAGES:
            shutil.copyfile(file, static / "img" / file.name)
        else:
            print(f"{file.name} is neither an image nor {' or '.join(STYLES)}, and not part of the theme", flush=True)


def _main() -> None:
    settings: Any = import_module("dashboard_settings")
    if BRANDING.is_dir():
        horizon = Path(str(import_module("openstack_dashboard").__file__)).parent
        make_theme(BRANDING, horizon / "themes" / os.environ["BASE_THEME"], settings.THEME)
    settings.load()
    import_module("django").setup()
    call: Any = import_module("django.core.management").call_command
    call("collectstatic", interactive=False, clear=True, verbosity=0)
    call("compress", force=True)


if __name__ == "__main__":
    _main()
