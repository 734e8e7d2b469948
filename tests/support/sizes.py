"""Sizes of attacks: as written in ``make test``, by chance from half to four times as much in ``make attack``."""

from __future__ import annotations

import os
import random

_chance = random.Random(os.environ["LEVERET_ATTACK_SEED"]) if "LEVERET_ATTACK_SEED" in os.environ else None


def sized(number: int) -> int:
    return number if _chance is None else round(number * 2 ** _chance.uniform(-1, 2))
