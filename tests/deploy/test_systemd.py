"""The units, the tmpfiles rule and the sysusers rule, each read by systemd's own tools."""

import pathlib
import shutil
import tempfile
import unittest

import programs

SYSTEMD = programs.DEPLOY / "systemd"
UNITS = ("kvtier-agent.service", "kvtier-coordinator.service")
HOST_UNITS = pathlib.Path("/lib/systemd/system")
# systemd-analyze scores 0 (confined) to 10; below 2 takes every protection that a program with
# sockets and files of its own can have. Its scale for --threshold is ten times finer.
EXPOSURE_LIMIT = 20


class Units(unittest.TestCase):
    def setUp(self):
        self.analyze = programs.find("systemd-analyze")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        # Makes a root folder with our units, the units that they depend on, and programs for ExecStart to name.
        self.root = pathlib.Path(folder.name)
        units = self.root / "etc/systemd/system"
        programs_dir = self.root / "usr/bin"
        units.mkdir(parents=True)
        programs_dir.mkdir(parents=True)
        shutil.copytree(HOST_UNITS, self.root / "usr/lib/systemd/system", symlinks=True)
        for unit in UNITS:
            shutil.copy(SYSTEMD / unit, units)
            shutil.copy("/bin/true", programs_dir / unit.removesuffix(".service"))

    def verify(self, unit):
        done = programs.run(self.analyze, "verify", "--man=no", f"--root={self.root}", unit)
        return [line for line in (done.stdout + done.stderr).splitlines() if "kvtier" in line]

    def test_systemd_accepts_every_line(self):
        for unit in UNITS:
            with self.subTest(unit):
                self.assertEqual(self.verify(unit), [])

    def test_a_misspelt_directive_is_noticed(self):
        path = self.root / "etc/systemd/system" / UNITS[0]
        path.write_text(path.read_text().replace("NoNewPrivileges", "NoNewPrivilegs"))
        self.assertIn("NoNewPrivilegs", "\n".join(self.verify(UNITS[0])))

    def test_a_program_that_is_not_there_is_noticed(self):
        (self.root / "usr/bin/kvtier-agent").unlink()
        self.assertIn("/usr/bin/kvtier-agent", "\n".join(self.verify(UNITS[0])))

    def exposed(self, unit):
        done = programs.run(self.analyze, "security", "--offline=true", "--no-pager",
                            f"--threshold={EXPOSURE_LIMIT}", str(unit))
        return done.returncode != 0

    def test_the_units_are_confined(self):
        for unit in UNITS:
            with self.subTest(unit):
                self.assertFalse(self.exposed(SYSTEMD / unit))

    def test_an_unconfined_unit_is_noticed(self):
        path = self.root / UNITS[0]
        kept = [line for line in (SYSTEMD / UNITS[0]).read_text().splitlines()
                if not line.startswith(("SystemCallFilter", "Protect", "CapabilityBoundingSet"))]
        path.write_text("\n".join(kept))
        self.assertTrue(self.exposed(path))


class Files(unittest.TestCase):
    def test_the_tmpfiles_rule_makes_the_directories_that_the_pods_expect(self):
        programs.need_root()
        tool = programs.find("systemd-tmpfiles")
        with tempfile.TemporaryDirectory() as root:
            rule = str(SYSTEMD / "kvtier.tmpfiles")
            done = programs.run(tool, f"--root={root}", "--create", rule)
            self.assertEqual((done.stderr, done.returncode), ("", 0))
            for path, mode in (("run/kvtier", 0o750), ("var/lib/kvtier", 0o700)):
                stat = (pathlib.Path(root) / path).stat()
                self.assertEqual((stat.st_uid, stat.st_gid, stat.st_mode & 0o7777),
                                 (65532, 65532, mode))

    def test_the_sysusers_rule_makes_the_user_of_the_unit(self):
        programs.need_root()
        tool = programs.find("systemd-sysusers")
        with tempfile.TemporaryDirectory() as root:
            (pathlib.Path(root) / "etc").mkdir()
            done = programs.run(tool, f"--root={root}", str(SYSTEMD / "kvtier.sysusers"))
            self.assertEqual(done.returncode, 0, done.stderr)
            for name in ("passwd", "group"):
                self.assertIn("kvtier:", (pathlib.Path(root) / "etc" / name).read_text())


if __name__ == "__main__":
    unittest.main()
