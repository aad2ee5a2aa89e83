"""The tenants' settings that deploy/ ships: the agent takes them, they fit, and the rules can say no."""

import pathlib
import tempfile
import unittest

import manifests
import programs
import settings

TENANTS = "overlays/tenants"

# Settings that the rules and the agent must refuse, and what is wrong with them.
REFUSED = {
    "acme host_garanteed=1GiB": "no such setting",
    "acme cpu_weight=3": "no such tier",
    "acme host_guaranteed": "no value",
    "acme host_guaranteed=1Gi": "no such unit",
    "acme host_guaranteed=-1": "a negative size",
    "acme host_guaranteed=1.5GiB": "not a whole number",
    "acme host_maximum=99999999TiB": "a size beyond 64 bits",
    "acme host_weight=0": "a weight below 1",
    "acme host_weight=1001": "a weight above the largest",
    "acme host_weight=1GiB": "a weight with a unit",
    "acme host_guaranteed=2GiB host_maximum=1GiB": "a guarantee above the maximum",
    "acme host_weight=1\nacme host_weight=2": "a tenant twice",
    "-acme host_weight=1": "a name that begins with a sign",
    "prompts members=acme:own": "no such access",
    "prompts members=acme:read,acme:write": "a member twice",
    "prompts members=prompts:read": "its own member",
}
# Settings that both must take.
TAKEN = (
    "",
    "# acme host_weight=0",
    "acme",
    "acme host_guaranteed=10GiB host_maximum=10GiB host_weight=1000 # to the end",
    "acme disk_guaranteed=4096 gpu_guaranteed=default gpu_weight=1",
    "prompts host_guaranteed=512MiB members=acme:write,beta:read",
)


def shipped(folder):
    """Returns the flags of a folder's agent, its pod, and the text of its file of settings; None without a file."""
    objects = manifests.render(folder)
    pod = manifests.pod_of(manifests.find(objects, "DaemonSet"))
    container = pod["containers"][0]
    flags = manifests.flags_of(pod, container, objects)
    path = flags.get("tenant_settings")
    return flags, pod, None if path is None else manifests.config_file(pod, container, objects, path)


def agent_refuses(text, host_bytes="16GiB"):
    """Returns what the agent says of a file of settings; empty: it takes the file. It ends soon in each case, as its
    disk cannot be opened."""
    with tempfile.TemporaryDirectory() as root:
        folder = pathlib.Path(root)
        (folder / "tenants").mkdir()
        (folder / "tenants" / "acme").write_bytes(bytes(32))
        (folder / "tenants" / "acme").chmod(0o600)
        (folder / "settings").write_text(text)
        (folder / "file").touch()
        (folder / "sockets").mkdir()
        done = programs.run(
            programs.built("kvtier-agent"), f"--socket_dir={folder}/sockets", f"--tenants_dir={folder}/tenants",
            f"--tenant_settings={folder}/settings", f"--host_bytes={host_bytes}", f"--disk_dir={folder}/file/disk",
            "--disk_bytes=64GiB", "--node_id=settings", "--listen=127.0.0.1:0")
        if "--tenant_settings=" in done.stderr:
            return done.stderr
        if "cannot create directory" not in done.stderr:
            raise AssertionError(f"the agent did not come to its disk: {done.stderr!r}")
        return ""


class Settings(unittest.TestCase):
    def test_the_rules_refuse_what_is_no_setting(self):
        for text, why in REFUSED.items():
            with self.subTest(why), self.assertRaises(ValueError):
                settings.parse(text)
        for text in TAKEN:
            with self.subTest(text):
                settings.parse(text)

    def test_the_agent_refuses_the_same(self):
        for text, why in REFUSED.items():
            with self.subTest(why):
                self.assertNotEqual(agent_refuses(text), "")
        for text in TAKEN:
            with self.subTest(text):
                self.assertEqual(agent_refuses(text), "")

    def test_the_agent_refuses_guarantees_that_its_memory_has_no_room_for(self):
        refused = agent_refuses("acme host_guaranteed=10GiB", "64MiB")
        self.assertIn("host_guaranteed: 10737418240", refused)
        self.assertEqual(agent_refuses("acme host_guaranteed=64MiB", "64MiB"), "")

    def test_every_shipped_file_is_read_and_fits_its_agent(self):
        for folder in manifests.RENDERED:
            flags, _, text = shipped(folder)
            if text is not None:
                with self.subTest(folder):
                    self.assertEqual(list(settings.check_fit(settings.parse(text), flags)), [])

    def test_the_agent_takes_the_file_of_the_tenants_overlay(self):
        self.assertEqual(agent_refuses(shipped(TENANTS)[2]), "")

    def test_guarantees_that_do_not_fit_are_named(self):
        flags = {"host_bytes": "8GiB", "disk_bytes": "64GiB", "segment_bytes": "256MiB"}
        for text, tier in (("acme host_guaranteed=5GiB\nbeta host_guaranteed=4GiB", "host"),
                           ("acme disk_guaranteed=32GiB", "disk")):
            complaints = list(settings.check_fit(settings.parse(text), flags))
            self.assertEqual(len(complaints), 1, text)
            self.assertIn(f"{tier}_guaranteed", complaints[0])

    def test_the_tenants_overlay_has_tenants_with_every_kind_of_share(self):
        tenants = settings.parse(shipped(TENANTS)[2])
        self.assertEqual(set(tenants), {"acme", "beta"})
        for tenant, values in tenants.items():
            self.assertIn("host_guaranteed", values, tenant)
            self.assertIn("disk_guaranteed", values, tenant)
        named = {field.partition("_")[2] for values in tenants.values() for field in values}
        self.assertEqual(named, {"guaranteed", "maximum", "weight"})

    def test_the_tenants_overlay_takes_the_secrets_from_a_secret_with_a_key_for_each_tenant(self):
        flags, pod, text = shipped(TENANTS)
        mount = next(m for m in pod["containers"][0]["volumeMounts"] if m["mountPath"] == flags["tenants_dir"])
        secret = next(v for v in pod["volumes"] if v["name"] == mount["name"])["secret"]
        self.assertTrue(mount["readOnly"])
        self.assertEqual(secret["defaultMode"], 0o440)
        self.assertNotIn("optional", secret)
        # The command that the overlay shows makes the keys of that Secret.
        shown = (manifests.KUSTOMIZE / TENANTS / "kustomization.yaml").read_text()
        self.assertIn(f"create secret generic {secret['secretName']} ", shown)
        for tenant in settings.parse(text):
            self.assertIn(f"--from-file={tenant}=", shown)

    def test_no_secret_is_shipped(self):
        for folder in manifests.RENDERED:
            self.assertNotIn("Secret", [o["kind"] for o in manifests.render(folder)], folder)


if __name__ == "__main__":
    unittest.main()
