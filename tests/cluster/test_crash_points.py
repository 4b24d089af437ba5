"""The operator killed again and again: whatever it had just written, the cloud comes out the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from .crashing_operator import (
    HA,
    MINIMAL,
    NO_CRASH,
    POINTS,
    changed_secrets,
    cloud,
    crash_points,
    crash_repeatedly,
    deploy_without_crash,
    differences,
)
from .harness import Cluster, eventually

# A deployment of the large one takes several seconds.
EACH = {MINIMAL: NO_CRASH, HA: 20}


@pytest.mark.parametrize("sample", [MINIMAL] if POINTS != "all" else [MINIMAL, HA], ids=lambda path: path.stem)
async def test_killed_again_and_again(cluster: Cluster, sample: Path):
    """Each life makes some more writes, and dies before it hears the answer to the last."""
    calm_writes, expected = await deploy_without_crash(cluster, sample)
    async with cloud(cluster, "chain", sample) as chain:
        lives = await crash_repeatedly(chain, calm_writes)
        assert differences(await chain.objects(), expected) == []
        assert changed_secrets(chain) == []
    print(f"{calm_writes} writes undisturbed; {chain.writes} in {lives} lives")


@pytest.mark.parametrize("sample", [MINIMAL, HA], ids=lambda path: path.stem)
async def test_killed_once_at_any_write(cluster: Cluster, sample: Path):
    """A deployment for each crash point: one life that ends there, and one that finds what it left."""
    checks = 0
    calm_writes, expected = await deploy_without_crash(cluster, sample)
    for point in crash_points(calm_writes, EACH[sample]):
        async with cloud(cluster, f"at-{point}", sample) as crashed:
            await crashed.life(point)
            checks += 1
            assert await crashed.life(NO_CRASH)
            assert differences(await crashed.objects(), expected) == [], f"killed after write {point}"
            assert changed_secrets(crashed) == []
        await eventually(crashed.is_removed)
    assert checks
