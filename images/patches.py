"""Changes to other projects' code in the images: patch files, each with a header that gives its reason."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from images import locks

FOLDER = Path(__file__).parent / "patches"
FIELDS = ("Reason", "Upstream", "Needed-until", "Images")
"""Fields of a header, all required. A line that begins with a space continues the one before it."""


class Patch(NamedTuple):
    """A patch file, with paths below /usr of an image."""

    name: str
    """`<project>/<number>-<subject>.patch`. The names are the order in which an image applies its patches."""
    header: Mapping[str, str]
    diff: str
    path: Path
    check: Path
    """Program that the build runs after all patches of the image; most patches have none."""

    @property
    def images(self) -> list[str]:
        """Images that apply it, without those on top of them."""
        return self.header["Images"].split()

    def files(self) -> Iterator[tuple[str, Path]]:
        """Yield what a build needs of it, with its path in the build context."""
        yield self.name, self.path
        if self.check.exists():
            yield str(Path(self.name).with_suffix(".check")), self.check


def read(path: Path) -> Patch:
    """Read a patch file. Raises ValueError for a header with other fields than `FIELDS`."""
    head, _, diff = path.read_text(encoding="utf-8").partition("\n\n")
    fields = (line.partition(": ") for line in head.replace("\n ", " ").splitlines())
    header = {name: value for name, _, value in fields}
    if tuple(header) != FIELDS or not all(header.values()):
        raise ValueError(f"{path}: a header has the fields {', '.join(FIELDS)}, in this order")
    return Patch(str(path.relative_to(path.parent.parent)), header, diff, path, path.with_suffix(".check"))


def patches() -> list[Patch]:
    """Return all patches, in the order in which they are applied."""
    return [read(path) for path in sorted(FOLDER.glob("*/*.patch"))]


def of_release(release: str) -> list[Patch]:
    """Return the patches for the images of a release that is made of packages of the index. Their files are those of
    the default release, unless a folder of `remade` has others of the same name, or ones that only this release needs.
    """
    without = not_needed(release)
    names = [patch.name for patch in patches() if patch.name.removesuffix(".patch") not in without]
    names = sorted([*names, *(patch.name for patch in of_release_alone(release))])
    folders = [FOLDER, *remade(release)]
    return [
        read(_last(folders, name))._replace(check=_last(folders, name.removesuffix(".patch") + ".check"))
        for name in names
    ]


def of_release_alone(release: str) -> list[Patch]:
    """Return the patches that such a release needs, and the default release does not."""
    paths = (path for folder in remade(release) for path in sorted(folder.glob("*/*.patch")))
    return [patch for patch in map(read, paths) if not (FOLDER / patch.name).exists()]


def remade(release: str) -> tuple[Path, Path]:
    """Return the folders with patches for other code than that of the default release: that of all such releases, and
    that of this one.
    """
    return locks.FOLDER / "patches", locks.FOLDER / f"patches-{release}"


def _last(folders: list[Path], name: str) -> Path:
    return [path for folder in folders if (path := folder / name).exists() or folder == FOLDER][-1]


def not_needed(release: str) -> dict[str, str]:
    """Return the names of patches that such a release does without, and why."""
    lines = (locks.FOLDER / f"{release}.unpatched").read_text(encoding="utf-8").splitlines()
    return {name: why for name, _, why in (line.partition(": ") for line in lines if line and line[0] != "#")}


def page() -> str:
    """Return the page of the documentation that lists the patches."""
    lines = [
        "# Changes to other projects' code",
        "",
        "Our images carry small changes to the code of other projects, as patch files in `images/patches`. The build",
        "applies them, and fails if the code around one has changed. `python -m images build --pristine` builds the",
        "images without them, and `PRISTINE=1 make e2e` tests a cloud of these. Kolla's images have none.",
        "`python -m images.patches` prints this page.",
        "",
        "Images of OpenStack "
        + " and ".join(locks.releases())
        + " have them, too, but for those that [are not needed](#not-needed).",
        "If the code of these releases differs, the patch has another text.",
        "",
        "| patch | images | reason | reported upstream | needed until |",
        "| --- | --- | --- | --- | --- |",
    ]
    for patch in patches():
        link = f"[{patch.name.removesuffix('.patch')}](../../images/patches/{patch.name})"
        reason, upstream, until, images = (patch.header[field] for field in FIELDS)
        upstream = re.sub(r"https://github\.com/(\S+/\S+)/(?:issues|pull)/(\d+)", r"[\1 \2](\g<0>)", upstream)
        texts = {folder for each in locks.releases() for folder in remade(each) if (folder / patch.name).exists()}
        for folder in sorted(texts):
            releases = folder.name.partition("-")[2] or " ".join(locks.releases())
            link += f" [{releases}](../../images/pypi/{folder.name}/{patch.name})"
        lines.append(f"| {link} | {images} | {reason} | {upstream} | {until} |")
    for release in locks.releases():
        for patch in of_release_alone(release):
            link = f"[{patch.name.removesuffix('.patch')}](../../images/{patch.path.relative_to(locks.FOLDER.parent)})"
            reason, upstream, until, images = (patch.header[field] for field in FIELDS)
            lines.append(f"| {link} (only {release}) | {images} | {reason} | {upstream} | {until} |")
    lines += ["", "## Not needed", "", "| release | patch | why |", "| --- | --- | --- |"]
    lines += [f"| {each} | {name} | {why} |" for each in locks.releases() for name, why in not_needed(each).items()]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
