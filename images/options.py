"""Lists of the options that OpenStack's programs know, from the built images: `python -m images.options`.

Writes `releases/options/RELEASE.txt`: a line `[service]`, and for each of its sections a line with the names.
"""

from __future__ import annotations

from images.venv import use_venv

if __name__ == "__main__":
    use_venv("images.options")

import argparse
import json
import shutil
import subprocess
from pathlib import Path

from images import catalog
from images.engine import Buildah

ROOT = Path(__file__).parent.parent
SERVICES = (
    *("barbican", "cinder", "designate", "glance", "heat"),
    *("keystone", "neutron", "nova", "octavia", "placement"),
)
_PROGRAM = Path(__file__).parent / "list_options.py"
# Its own /proc and /dev, since some packages look there when they are imported.
_IN_ROOT = 'mount --rbind /dev "$1/dev" && mount -t proc proc "$1/proc" && exec chroot "$@"'


def options_of(image: str) -> dict[str, list[str]]:
    """Return the options that the packages of a built image register, by section. Raises CalledProcessError."""
    with Buildah().root(catalog.reference(image)) as root:
        shutil.copy(_PROGRAM, root / "tmp" / _PROGRAM.name)
        command = ["unshare", "--mount", "--pid", "--fork", "sh", "-ec", _IN_ROOT, "sh", str(root)]
        program = ["python3", f"/tmp/{_PROGRAM.name}"]
        result = subprocess.run([*command, *program], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout)


def text(options: dict[str, dict[str, list[str]]]) -> str:
    """Return the file with the options of services."""
    lines: list[str] = []
    for service, sections in sorted(options.items()):
        lines.append(f"[{service}]")
        lines += [f"{section}: {' '.join(names)}" for section, names in sorted(sections.items())]
    return "\n".join([*lines, ""])


def main() -> None:
    """Write the file of a release."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", default="2025.1")
    release = parser.parse_args().release
    path = ROOT / "releases" / "options" / f"{release}.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text({service: options_of(service) for service in SERVICES}), encoding="utf-8")
    print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
