"""Lists of the options that OpenStack's programs know, from the built images: `python -m images.options`.

Writes `releases/options/RELEASE.txt`: a line `[service]`, for each of its sections a line with the name, and for each
option there a line with the name and what `images/list_options.py` says of it, as JSON. The rules of oslo.policy are
listed as a section, too.
"""

from __future__ import annotations

from images.venv import use_venv

if __name__ == "__main__":
    use_venv("images.options")

import argparse
import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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


Options = Mapping[str, Mapping[str, Mapping[str, Any]]]
"""Descriptions of options by section and name."""


def options_of(image: str) -> Options:
    """Return the options that the packages of a built image register. Raises CalledProcessError."""
    with Buildah().root(catalog.reference(image)) as root:
        shutil.copy(_PROGRAM, root / "tmp" / _PROGRAM.name)
        command = ["unshare", "--mount", "--pid", "--fork", "sh", "-ec", _IN_ROOT, "sh", str(root)]
        program = ["python3", f"/tmp/{_PROGRAM.name}"]
        result = subprocess.run([*command, *program], stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(result.stdout)


def text(options: Mapping[str, Options]) -> str:
    """Return the file with the options of services."""
    lines: list[str] = []
    for service, sections in sorted(options.items()):
        lines.append(f"[{service}]")
        for section, descriptions in sorted(sections.items()):
            lines += [section, *(_line(*each) for each in sorted(descriptions.items()))]
    return "\n".join([*lines, ""])


def _line(name: str, description: Mapping[str, Any]) -> str:
    details = json.dumps(description, separators=(",", ":"), sort_keys=True) if description else ""
    return f"  {name} {details}".rstrip()


def main() -> None:
    """Write the file of a release."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--release", default=catalog.RELEASE)
    release = parser.parse_args().release
    path = ROOT / "releases" / "options" / f"{release}.txt"
    path.parent.mkdir(exist_ok=True)
    images = {service: catalog.name_in(service, release) for service in SERVICES}
    path.write_text(text({service: options_of(image) for service, image in images.items()}), encoding="utf-8")
    print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
