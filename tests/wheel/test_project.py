"""pyproject.toml, CMake, the scripts and the pages agree about versions and names."""

import pathlib
import re
import subprocess
import tomllib
import unittest

import kvtier

REPO = pathlib.Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))


def text(name):
    return (REPO / name).read_text(encoding="utf-8")


def numbers(version):
    return tuple(int(part) for part in version.split("."))


def lies_in(version, bounds):
    """Returns whether a version satisfies bounds as in "name>=1.1,<2"."""
    least, below = re.fullmatch(r"[\w-]+>=([\d.]+),<([\d.]+)", bounds).groups()
    return numbers(least) <= numbers(version) < numbers(below)


class Version(unittest.TestCase):
    def setUp(self):
        source = PROJECT["tool"]["scikit-build"]["metadata"]["version"]
        self.version = re.search(source["regex"], text(source["input"]))["value"]

    def test_the_package_and_the_programs_have_the_one_of_cmake(self):
        self.assertEqual(kvtier.__version__, self.version)
        programs = pathlib.Path(kvtier.__file__).parents[2] / "bin"
        said = subprocess.run([programs / "kvtier", "version"], capture_output=True, text=True)
        self.assertIn(f"kvtier {self.version},", said.stdout)

    def test_changelog_and_images_have_it_too(self):
        self.assertIn(f"\n## {self.version}", text("CHANGELOG.md"))
        for tag in re.findall(r"kvtier-\w+:([\d.]+)", text("deploy/docker/Dockerfile")):
            self.assertEqual(tag, self.version)


class Requirements(unittest.TestCase):
    def test_what_scripts_install_satisfies_the_bounds_of_pip(self):
        pinned = dict(re.findall(r"^([\w-]+)==([\d.]+)$", text("client/python/requirements.txt") +
                                 text("client/python/wheel-requirements.txt"), re.M))
        for bounds in PROJECT["build-system"]["requires"]:
            self.assertTrue(lies_in(pinned[re.match(r"[\w-]+", bounds)[0]], bounds), bounds)

    def test_cmake_asks_for_no_newer_pybind11_than_pip(self):
        least = re.search(r"find_package\(pybind11 ([\d.]+) REQUIRED\)",
                          text("client/python/CMakeLists.txt"))[1]
        self.assertIn(f"pybind11>={least},<4", PROJECT["build-system"]["requires"])

    def test_cmake_scripts_and_metadata_want_the_same_python(self):
        least = PROJECT["project"]["requires-python"].removeprefix(">=")
        versions = re.search(r"^versions=\((.*)\)$", text("scripts/wheel"), re.M)[1].split()
        self.assertEqual(versions[0], least)
        self.assertIn(f"find_package(Python {least} REQUIRED", text("client/python/CMakeLists.txt"))
        self.assertEqual([f"Programming Language :: Python :: {version}" for version in versions],
                         [c for c in PROJECT["project"]["classifiers"] if ":: Python ::" in c])

    def test_the_bounds_of_vllm_hold_the_version_that_its_page_tells_of(self):
        page = text("docs/engines/vllm-interface.md")
        tested = re.search(r"^# vLLM ([\d.]+):", page)[1]
        for bounds in PROJECT["project"]["optional-dependencies"]["vllm"]:
            self.assertTrue(lies_in(tested, bounds), bounds)


class Build(unittest.TestCase):
    def test_what_it_builds_is_what_the_cmake_file_of_the_wheel_installs(self):
        cmake = text("cmake/Wheel.cmake")
        for target in PROJECT["tool"]["scikit-build"]["build"]["targets"]:
            self.assertRegex(cmake, rf"(install\(TARGETS|custom_target\().*\b{target}\b")

    def test_all_files_of_the_package_are_in_the_build_tree_too(self):
        package = REPO / PROJECT["tool"]["scikit-build"]["wheel"]["packages"][0]
        built = pathlib.Path(kvtier.__file__).parent
        for path in package.rglob("*.py*"):
            if path.suffix != ".pyc":
                self.assertTrue((built / path.relative_to(package)).is_file(), path.name)

    def test_the_script_refuses_what_is_no_fitting_python(self):
        for wrong, complaint in (("/bin/false", "is no Python that runs"),
                                 ("/nowhere/python", "is no Python that runs")):
            refused = subprocess.run([REPO / "scripts" / "wheel", wrong], capture_output=True,
                                     text=True, stdin=subprocess.DEVNULL)
            self.assertEqual(refused.returncode, 1)
            self.assertIn(f"wheel: {wrong} {complaint}", refused.stderr)


if __name__ == "__main__":
    unittest.main()
