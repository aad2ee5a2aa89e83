"""The manifests as they are: rendered, matched against the Kubernetes schemas and our policy."""

import os
import tempfile
import unittest

import manifests
import policy
import programs

# The oldest release whose gRPC probes are stable, and the newest one that the schemas cover.
KUBERNETES = ("1.27", "1.37")


def schemas():
    try:
        import kubernetes_validate
    except ImportError:
        programs.absent("kubernetes-validate is not installed, see tests/deploy/requirements.txt")
    return kubernetes_validate


class Manifests(unittest.TestCase):
    def test_every_object_matches_its_schema(self):
        validate = schemas().validate
        sets = {folder: manifests.render(folder) for folder in manifests.RENDERED}
        sets["examples"] = manifests.worker()
        for folder, objects in sets.items():
            self.assertTrue(objects, folder)
            for obj in objects:
                for version in KUBERNETES:
                    with self.subTest(folder, object=manifests.label(obj), kubernetes=version):
                        validate(obj, version, strict=True)

    def test_the_schemas_refuse_a_misspelt_field(self):
        daemonset = manifests.find(manifests.render("base"), "DaemonSet")
        daemonset["spec"]["template"]["spec"]["containers"][0]["redinessProbe"] = {}
        with self.assertRaises(schemas().ValidationError):
            schemas().validate(daemonset, KUBERNETES[0], strict=True)

    def test_every_rendered_set_keeps_the_policy(self):
        for folder in manifests.RENDERED:
            with self.subTest(folder):
                self.assertEqual(policy.check_set(manifests.render(folder)), [])

    def test_the_example_worker_keeps_the_policy(self):
        pod = manifests.worker()[0]
        self.assertEqual(policy.check([pod]), [])
        mount = pod["spec"]["containers"][0]["volumeMounts"][0]
        self.assertEqual((mount["mountPath"], mount["readOnly"]), ("/run/kvtier", True))

    def test_the_agent_lets_the_example_worker_in(self):
        objects = manifests.render("base")
        agent = manifests.pod_of(manifests.find(objects, "DaemonSet"))
        flags = manifests.flags_of(agent, agent["containers"][0], objects)
        worker = manifests.worker()[0]["spec"]["securityContext"]
        self.assertIn(str(worker["runAsUser"]), flags["allow_uids"].split(","))
        self.assertIn(agent["securityContext"]["runAsGroup"], worker["supplementalGroups"])

    def test_only_the_single_node_overlay_runs_anything_as_root(self):
        for folder in set(manifests.RENDERED) - {"overlays/single-node"}:
            pod = manifests.pod_of(manifests.find(manifests.render(folder), "DaemonSet"))
            self.assertNotIn("initContainers", pod, folder)

    def test_the_io_uring_overlay_names_the_shipped_profile_for_the_agent_alone(self):
        objects = manifests.render("overlays/io-uring")
        agent = manifests.pod_of(manifests.find(objects, "DaemonSet"))["securityContext"]
        coordinator = manifests.pod_of(manifests.find(objects, "StatefulSet"))["securityContext"]
        self.assertEqual(agent["seccompProfile"]["type"], "Localhost")
        profile = programs.DEPLOY / "seccomp" / agent["seccompProfile"]["localhostProfile"]
        self.assertTrue(profile.is_file(), profile)
        self.assertEqual(coordinator["seccompProfile"], {"type": "RuntimeDefault"})

    def test_the_encrypted_overlay_mounts_the_secret_where_its_flag_says_and_for_no_others(self):
        objects = manifests.render("overlays/encrypted")
        agent = manifests.pod_of(manifests.find(objects, "DaemonSet"))
        flags = manifests.flags_of(agent, agent["containers"][0], objects)
        mounts = {m["mountPath"]: m for m in agent["containers"][0]["volumeMounts"]}
        mount = mounts[flags["disk_secret_dir"]]
        self.assertTrue(mount["readOnly"])
        secret = next(v for v in agent["volumes"] if v["name"] == mount["name"])["secret"]
        self.assertEqual(secret["defaultMode"], 0o440)
        self.assertNotIn("optional", secret)

    def test_no_pod_starts_on_a_directory_of_tenants_that_is_not_mounted(self):
        for folder in manifests.RENDERED:
            objects = manifests.render(folder)
            agent = manifests.pod_of(manifests.find(objects, "DaemonSet"))
            flags = manifests.flags_of(agent, agent["containers"][0], objects)
            mounts = {m["mountPath"]: m["name"] for m in agent["containers"][0]["volumeMounts"]}
            self.assertEqual("tenants_dir" in flags, folder != "overlays/single-node", folder)
            if "tenants_dir" in flags:
                name = mounts[flags["tenants_dir"]]
                secret = next(v for v in agent["volumes"] if v["name"] == name)["secret"]
                self.assertNotIn("optional", secret, folder)

    def test_a_changed_flag_changes_the_config_map_that_the_pods_name(self):
        names = {manifests.find(manifests.render(folder), "ConfigMap", "kvtier-agent-flags")
                 ["metadata"]["name"] for folder in ("base", "overlays/single-node", "overlays/tenants")}
        self.assertEqual(len(names), 3)

    def test_yamllint_has_no_complaint(self):
        config = str(programs.REPO / "tests" / "deploy" / "yamllint.yaml")
        done = programs.run(programs.find("yamllint"), "--strict", "-c", config,
                            str(manifests.KUSTOMIZE))
        self.assertEqual(done.stdout + done.stderr, "")


class OwnHostDirs(unittest.TestCase):
    """Tests of the init container's script, which really runs on two directories of ours."""

    def test_its_script_needs_no_capability_but_chown_on_the_first_and_second_start(self):
        programs.need_root()
        pod = manifests.pod_of(
            manifests.find(manifests.render("overlays/single-node"), "DaemonSet"))
        container = pod["initContainers"][0]
        with tempfile.TemporaryDirectory() as root:
            os.chmod(root, 0o755)
            script = container["args"][0]
            for path in policy.HOST_PATHS:
                os.makedirs(root + path)
                script = script.replace(path, root + path)
            for _ in range(2):
                done = programs.run(
                    programs.find("setpriv"), "--bounding-set=-all,+chown",
                    "--inh-caps=-all,+chown", "--no-new-privs", *container["command"], script)
                self.assertEqual((done.stderr, done.returncode), ("", 0))
                for path, mode in (("/run/kvtier", 0o750), ("/var/lib/kvtier", 0o700)):
                    stat = os.stat(root + path)
                    self.assertEqual((stat.st_uid, stat.st_gid, stat.st_mode & 0o7777),
                                     (65532, 65532, mode))


if __name__ == "__main__":
    unittest.main()
