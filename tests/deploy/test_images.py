"""Tests of the Dockerfile, read without an engine: its stages, its copies, and the user it runs as."""

import dataclasses
import json
import os
import pathlib
import re
import unittest

import programs

DOCKERFILE = programs.DEPLOY / "docker" / "Dockerfile"
PROGRAMS = {"agent": "kvtier-agent", "coordinator": "kvtier-coordinator", "cli": "kvtier"}


@dataclasses.dataclass
class Stage:
    name: str
    base: str
    steps: list  # (instruction, arguments)


def parse(text):
    """Returns ({ARG: default} before the first stage, {name: Stage}). A stage has to have a name."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    arguments, stages, current = {}, {}, None
    for line in re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines():
        if not line.strip():
            continue
        instruction, _, rest = line.strip().partition(" ")
        if instruction == "FROM":
            match = re.fullmatch(r"(\S+) AS (\S+)", rest)
            if not match:
                raise ValueError(f"stage without a name: {line}")
            current = stages[match[2]] = Stage(match[2], match[1], [])
        elif current is None:
            name, _, default = rest.partition("=")
            arguments[name] = default
        else:
            current.steps.append((instruction, rest))
    return arguments, stages


def user_of(stage, stages):
    """Returns the last USER on the way from the base image, or "" if it stays root."""
    users = [rest for instruction, rest in stage.steps if instruction == "USER"]
    if users:
        return users[-1]
    return user_of(stages[stage.base], stages) if stage.base in stages else ""


def missing_sources(stages, repo):
    """Yields each file that the context should hold and does not, and each copy from a stage that is not there."""
    for stage in stages.values():
        for instruction, rest in stage.steps:
            binds = re.findall(r"type=bind,source=([^,\s]+)", rest)
            words = rest.split()
            options = [w for w in words if w.startswith("--")]
            if instruction == "COPY":
                origin = next((o[7:] for o in options if o.startswith("--from=")), None)
                if origin is None:
                    binds += [w for w in words if not w.startswith("--")][:-1]
                elif origin not in stages:
                    yield f"stage {origin}"
            yield from (path for path in binds if not (repo / path).exists())


class Dockerfile(unittest.TestCase):
    def setUp(self):
        self.arguments, self.stages = parse(DOCKERFILE.read_text())

    def test_its_stages_are_the_three_images_and_two_to_make_them(self):
        self.assertEqual(list(self.stages), ["build", "runtime", *PROGRAMS])

    def test_its_base_image_is_a_debian_12_point_release(self):
        self.assertRegex(self.arguments["DEBIAN_IMAGE"], r"^debian:12\.\d+-slim(@sha256:\w+)?$")
        bases = {stage.base for stage in self.stages.values()} - set(self.stages)
        self.assertEqual(bases, {"${DEBIAN_IMAGE}"})

    def test_everything_it_copies_or_binds_exists(self):
        self.assertEqual(list(missing_sources(self.stages, programs.REPO)), [])

    def test_a_copy_of_what_is_not_there_is_noticed(self):
        _, stages = parse("FROM a AS one\nCOPY --from=two /x /y\nCOPY nothing /z\n"
                          "RUN --mount=type=bind,source=gone,target=/t \\\n  true\n")
        self.assertEqual(list(missing_sources(stages, programs.REPO)),
                         ["stage two", "nothing", "gone"])

    def test_a_stage_without_a_name_is_refused(self):
        with self.assertRaises(ValueError):
            parse("FROM debian:12.12-slim\n")

    def test_the_scripts_it_runs_know_the_groups_it_asks_for(self):
        calls = re.findall(r"/mnt/(scripts/\S+) (\w+)", DOCKERFILE.read_text())
        self.assertEqual([group for _, group in calls], ["build", "runtime"])
        for script, group in calls:
            self.assertTrue(os.access(programs.REPO / script, os.X_OK), script)
            done = programs.run(str(programs.REPO / "scripts" / "packages"), group)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue(done.stdout.split(), group)

    def test_each_image_runs_its_program_as_the_user_of_the_manifests(self):
        for name, program in PROGRAMS.items():
            with self.subTest(name):
                stage = self.stages[name]
                start = json.dumps([f"/usr/local/bin/{program}"])
                self.assertIn(("ENTRYPOINT", start), stage.steps)
                self.assertEqual(user_of(stage, self.stages), "65532:65532")

    def test_the_binaries_come_from_where_the_release_preset_puts_them(self):
        presets = json.loads((programs.REPO / "CMakePresets.json").read_text())
        configure = {p["name"]: p for p in presets["configurePresets"]}
        self.assertIn("release", {p["name"] for p in presets["buildPresets"]})
        preset = configure["release"]
        while "binaryDir" not in preset:
            preset = configure[preset["inherits"]]
        folder = preset["binaryDir"].removeprefix("${sourceDir}/")
        folder = folder.replace("${presetName}", "release")
        for name, program in PROGRAMS.items():
            for copied in (program, "kvtier"):  # The image has the CLI for kubectl exec.
                self.assertIn(("COPY", f"--from=build /src/{folder}/bin/{copied} "
                                       f"/usr/local/bin/{copied}"), self.stages[name].steps)

    def test_the_linter_has_no_complaint(self):
        done = programs.run(programs.find("hadolint"), "--no-color", str(DOCKERFILE))
        self.assertEqual(done.stdout + done.stderr, "")

    def test_the_context_leaves_builds_out(self):
        ignored = pathlib.Path(f"{DOCKERFILE}.dockerignore").read_text().splitlines()
        self.assertLessEqual({".git", "build"}, set(ignored))


if __name__ == "__main__":
    unittest.main()
