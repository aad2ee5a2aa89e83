"""Every flag in a flag file, a manifest or a unit is one that the program has."""

import re
import unittest

import manifests
import policy
import programs

SYSTEMD = programs.DEPLOY / "systemd"


def uses():
    """Yields (where, program, flags) for everything that deploy/ starts."""
    for folder in manifests.RENDERED:
        objects = manifests.render(folder)
        for kind, program in (("DaemonSet", "agent"), ("StatefulSet", "coordinator")):
            pod = manifests.pod_of(manifests.find(objects, kind))
            flags = manifests.flags_of(pod, pod["containers"][0], objects)
            yield folder, f"kvtier-{program}", flags
    for program in ("agent", "coordinator"):
        unit = (SYSTEMD / f"kvtier-{program}.service").read_text().replace("\\\n", "")
        start = re.search(r"^ExecStart=\S+ (.*)$", unit, re.MULTILINE)[1]
        flags = manifests.parse_flags((SYSTEMD / f"{program}.flags").read_text().splitlines())
        yield "systemd", f"kvtier-{program}", flags | manifests.parse_flags(start.split())


def flags_in_help(program):
    """Returns the names that the binary itself lists; --helpfull is Abseil's list with nothing left out."""
    done = programs.run(programs.built(program), "--helpfull")
    names = set(re.findall(r"^\s+--([a-z][a-z0-9_]*)\b", done.stdout + done.stderr, re.MULTILINE))
    if not names:
        raise AssertionError(f"{program} --helpfull lists no flag: {done.stdout + done.stderr!r}")
    return names


class Flags(unittest.TestCase):
    def test_every_flag_exists_in_its_program(self):
        for where, program, flags in uses():
            with self.subTest(where, program=program):
                self.assertEqual(set(flags) - flags_in_help(program), set())

    def test_a_listener_beyond_loopback_says_that_it_is_insecure(self):
        for where, program, flags in uses():
            with self.subTest(where, program=program):
                loopback = flags["listen"].startswith("127.0.0.1:")
                self.assertEqual(flags.get("insecure_listen"), None if loopback else "true")

    def test_the_unit_s_memory_holds_the_tiers_of_its_flag_file(self):
        flags = manifests.parse_flags((SYSTEMD / "agent.flags").read_text().splitlines())
        unit = (SYSTEMD / "kvtier-agent.service").read_text()
        limit = manifests.size(re.search(r"^MemoryMax=(\d+G)$", unit, re.MULTILINE)[1] + "iB")
        container = {"resources": {"limits": {"memory": str(limit)}}}
        self.assertEqual(list(policy.check_agent_memory(container, flags)), [])


if __name__ == "__main__":
    unittest.main()
