"""The agent's seccomp profile: well formed, lets io_uring through, and still confines."""

import errno
import json
import pathlib
import platform
import sys
import tempfile
import unittest

import programs
import seccomp_sandbox

PROFILE = programs.DEPLOY / "seccomp" / "kvtier-agent.json"
SANDBOX = str(pathlib.Path(seccomp_sandbox.__file__))

# Python source of one system call each; it prints the errno, 0 for success.
CALL = """
import ctypes, socket
libc = ctypes.CDLL(None, use_errno=True)
def call(*a): print(ctypes.get_errno() if libc.syscall(*a) < 0 else 0)
buffer = ctypes.create_string_buffer(256)
"""
IO_URING_SETUP = CALL + "call(425, 1, buffer)"
REFUSED = {
    "a user namespace by clone": CALL + "call(56, 0x10000011, 0, 0, 0, 0)",
    "a user namespace by unshare": CALL + "call(272, 0x10000000)",
    "ptrace": CALL + "call(101, 0, 0, 0, 0)",
    "mount": CALL + "call(165, 0, 0, 0, 0, 0)",
    "bpf": CALL + "call(321, 0, buffer, 64)",
    "perf_event_open": CALL + "call(298, buffer, 0, -1, -1, 0)",
    "another process's memory": CALL + "call(310, 1, buffer, 0, buffer, 0, 0)",
    "a vsock socket": CALL + "call(41, 40, 1, 0)",
    "a raw packet socket": CALL + "call(41, 17, 3, 0)",
    "the kernel keyring": CALL + "call(250, 0, -3, 0)",
    "setting the clock": CALL + "call(227, 0, buffer)",
}
ALLOWED = {
    "a thread": "import threading; t = threading.Thread(target=int); t.start(); t.join(); print(0)",
    "a child": "import subprocess; print(subprocess.call(['/bin/true']))",
    "a Unix socket": CALL + "call(41, 1, 1, 0)",
    "an IPv6 socket": CALL + "call(41, 10, 1, 0)",
    "a memfd": CALL + "call(319, b'arena', 0)",
    "locked memory": CALL + "call(149, buffer, 256)",
}


class Profile(unittest.TestCase):
    def setUp(self):
        if seccomp_sandbox.library() is None:
            programs.absent("libseccomp is not installed")
        self.profile = json.loads(PROFILE.read_text())

    def under(self, profile, *command):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(profile, file)
            file.flush()
            return programs.run(sys.executable, SANDBOX, file.name, *command)

    def errno_under(self, profile, source):
        done = self.under(profile, sys.executable, "-c", source)
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(done.stdout)

    def need_x86_64(self):
        if platform.machine() != "x86_64":
            self.skipTest("the probes use x86-64 system call numbers")

    def test_each_rule_has_the_fields_that_runtimes_read(self):
        self.assertEqual(self.profile["defaultAction"], "SCMP_ACT_ERRNO")
        self.assertEqual(self.profile["architectures"], ["SCMP_ARCH_X86_64", "SCMP_ARCH_AARCH64"])
        for rule in self.profile["syscalls"]:
            self.assertLessEqual(set(rule), {"comment", "names", "action", "args", "errnoRet"})
            self.assertIn(rule["action"], seccomp_sandbox.ACTIONS)
            for argument in rule.get("args", []):
                self.assertLessEqual({"index", "value", "op"}, set(argument))

    def test_no_call_is_named_twice_but_by_its_arguments(self):
        names = [n for r in self.profile["syscalls"] if "args" not in r for n in r["names"]]
        self.assertEqual(len(names), len(set(names)))
        filtered = {n for r in self.profile["syscalls"] if "args" in r for n in r["names"]}
        self.assertEqual(filtered & set(names), set())

    def test_an_unknown_call_is_refused_at_load(self):
        self.profile["syscalls"][0]["names"].append("io_urin_setup")
        done = self.under(self.profile, "/bin/true")
        self.assertIn("knows no system call io_urin_setup", done.stderr)

    def test_io_uring_passes_as_it_does_unconfined(self):
        self.need_x86_64()
        outside = int(programs.run(sys.executable, "-c", IO_URING_SETUP).stdout)
        self.assertEqual(self.errno_under(self.profile, IO_URING_SETUP), outside)

    def test_without_its_rule_io_uring_is_refused(self):
        self.need_x86_64()
        self.profile["syscalls"] = [
            r for r in self.profile["syscalls"] if "io_uring_setup" not in r["names"]]
        self.assertEqual(self.errno_under(self.profile, IO_URING_SETUP), errno.EPERM)

    def test_what_the_agent_has_no_use_for_is_refused(self):
        self.need_x86_64()
        for what, source in REFUSED.items():
            with self.subTest(what):
                self.assertEqual(self.errno_under(self.profile, source), errno.EPERM)

    def test_threads_sockets_and_memory_work(self):
        self.need_x86_64()
        for what, source in ALLOWED.items():
            with self.subTest(what):
                self.assertEqual(self.errno_under(self.profile, source), 0)

    def test_the_agent_starts_under_it(self):
        agent = programs.built("kvtier-agent")
        done = self.under(self.profile, agent, "--helpfull")
        self.assertIn("host_bytes", done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
