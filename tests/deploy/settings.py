"""Reads a file of tenants' settings as the agent does: ParseTenantSettings() of core/tenant_settings.cc.

Names and limits are read from the sources, so that a setting which the agent does not know any more is a complaint.
test_settings.py gives the same damaged files to these rules and, where there is a build, to the agent.
"""

import re

import programs

CORE = programs.REPO / "core"
UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}")


def fields():
    """Returns the names of all settings that have a value, such as host_guaranteed."""
    tiers = re.findall(r'return "(gpu|host|disk)";', (CORE / "tier.h").read_text())
    names = re.search(r"kFieldNames\[\] = \{(.*?)\};", (CORE / "tenant_settings.cc").read_text())[1]
    found = {f"{tier}_{field}" for tier in tiers for field in re.findall(r'"(\w+)"', names)}
    if len(found) != 9:
        raise AssertionError(f"core/ names {sorted(found)}, and not three settings of three tiers")
    return found


def largest_weight():
    return int(re.search(r"kMaxShareWeight = (\d+);", (CORE / "tier_share.h").read_text())[1])


def parse(text):
    """Returns {tenant: {setting: value}}: bytes and weights as numbers, members as {tenant: access}.

    Raises ValueError, naming the line, for what the agent refuses."""
    tenants = {}
    for number, line in enumerate(text.splitlines(), 1):
        name, *words = line.partition("#")[0].split() or [None]
        if name is None:
            continue
        try:
            _check_name(name)
            if name in tenants:
                raise ValueError(f"tenant {name} comes twice")
            tenants[name] = _parse_words(name, words)
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
    return tenants


def _check_name(name):
    if not NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no tenant's name")


def _parse_words(name, words):
    values = {}
    for word in words:
        field, _, text = word.partition("=")
        if field == "members":
            values[field] = _parse_members(name, text)
        elif field not in fields():
            raise ValueError(f"{word!r} is no setting")
        elif text == "default":
            values.pop(field, None)
        else:
            values[field] = _parse_weight(text) if field.endswith("_weight") else _parse_size(text)
    for tier in ("gpu", "host", "disk"):
        most = values.get(f"{tier}_maximum")
        if most is not None and values.get(f"{tier}_guaranteed", 0) > most:
            raise ValueError(f"{tier}_guaranteed is above {tier}_maximum")
    return values


def _parse_members(name, text):
    members = {}
    for member in text.split(","):
        tenant, _, access = member.partition(":")
        _check_name(tenant)
        if access not in ("read", "write") or tenant in members or tenant == name:
            raise ValueError(f"{member!r} is no member")
        members[tenant] = access
    return members


def _parse_weight(text):
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= largest_weight():
        raise ValueError(f"{text!r} is no weight")
    return int(text)


def _parse_size(text):
    match = re.fullmatch(r"([0-9]+)([A-Za-z]*)", text)
    if not match or match[2] not in UNITS or int(match[1]) * UNITS[match[2]] >= 2**64:
        raise ValueError(f"{text!r} is no size")
    return int(match[1]) * UNITS[match[2]]


def guaranteed(tenants, tier):
    """Returns the sum of what is guaranteed of a tier."""
    return sum(values.get(f"{tier}_guaranteed", 0) for values in tenants.values())


def check_fit(tenants, flags):
    """Yields a complaint for each tier of which more is guaranteed than an agent with these flags has."""
    # Half of the disk can be guaranteed, without the segment that is kept free for copies.
    disk = (_parse_size(flags["disk_bytes"]) - _parse_size(flags["segment_bytes"])) // 2
    for tier, most in (("host", _parse_size(flags["host_bytes"])), ("disk", disk)):
        named = guaranteed(tenants, tier)
        if named > most:
            yield f"{tier}_guaranteed adds up to {named}, and {most} can be guaranteed"

