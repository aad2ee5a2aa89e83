"""The policy can say no: good manifests are damaged one way at a time, and each is caught."""

import unittest

import manifests
import policy


def agent(objects):
    pod = manifests.pod_of(manifests.find(objects, "DaemonSet"))
    return pod, pod["containers"][0]


# Complaint that the policy must make -> the damage to the pod and its agent container.
DAMAGE = {
    "hostIPC is set": lambda pod, c: pod.update(hostIPC=True),
    "hostPID is set": lambda pod, c: pod.update(hostPID=True),
    "hostNetwork is set": lambda pod, c: pod.update(hostNetwork=True),
    "mounts an API token": lambda pod, c: pod.pop("automountServiceAccountToken"),
    "gets every Service": lambda pod, c: pod.pop("enableServiceLinks"),
    "hostPath / is not": lambda pod, c: pod["volumes"][0].update(hostPath={"path": "/"}),
    "image tag is latest": lambda pod, c: c.update(image="r.example/kvtier-agent:latest"),
    "has no tag": lambda pod, c: c.update(image="r.example:5000/kvtier-agent"),
    "agent: privileged": lambda pod, c: c["securityContext"].update(privileged=True),
    "allows privilege escalation":
        lambda pod, c: c["securityContext"].pop("allowPrivilegeEscalation"),
    "filesystem is writable":
        lambda pod, c: c["securityContext"].update(readOnlyRootFilesystem=False),
    "no seccomp profile":
        lambda pod, c: pod["securityContext"].update(seccompProfile={"type": "Unconfined"}),
    "does not drop ALL": lambda pod, c: c["securityContext"].update(capabilities={"drop": []}),
    "adds capabilities": lambda pod, c: c["securityContext"]["capabilities"].update(add=["CHOWN"]),
    "may run as root": lambda pod, c: c["securityContext"].update(runAsUser=0),
    "no memory limit": lambda pod, c: c["resources"]["limits"].pop("memory"),
    "no cpu limit": lambda pod, c: c["resources"]["limits"].pop("cpu"),
    "is not its limit": lambda pod, c: c["resources"]["requests"].update(memory="1Gi"),
    "is below the": lambda pod, c: c["resources"]["limits"].update(memory="9Gi"),
    "startupProbe is not": lambda pod, c: c.pop("startupProbe"),
    "readinessProbe is not":
        lambda pod, c: c["readinessProbe"]["grpc"].update(service="liveness"),
    "livenessProbe is not": lambda pod, c: c["livenessProbe"]["grpc"].update(port=7300),
    "--listen=127.0.0.1:7301": lambda pod, c: c["args"].append("--listen=127.0.0.1:7301"),
    "is not a mounted volume": lambda pod, c: c["args"].append("--disk_dir=/data"),
    "is not a Service": lambda pod, c: c["args"].append("--coordinator=elsewhere:7300"),
}


class Policy(unittest.TestCase):
    def complaints_after(self, folder, damage):
        objects = manifests.render(folder)
        damage(objects)
        return "\n".join(policy.check_set(objects))

    def test_each_damage_to_the_agent_is_named(self):
        for complaint, damage in DAMAGE.items():
            with self.subTest(complaint):
                found = self.complaints_after("base", lambda objects: damage(*agent(objects)))
                self.assertIn(complaint, found)

    def test_a_bigger_host_tier_without_more_memory_is_named(self):
        def damage(objects):
            data = manifests.find(objects, "ConfigMap", "kvtier-agent-flags")["data"]
            data["agent.flags"] = data["agent.flags"].replace("host_bytes=8GiB", "host_bytes=9GiB")
        self.assertIn("is below the", self.complaints_after("base", damage))

    def test_the_directory_owner_gets_no_second_capability(self):
        def damage(objects):
            init = agent(objects)[0]["initContainers"][0]
            init["securityContext"]["capabilities"]["add"].append("FOWNER")
        found = self.complaints_after("overlays/single-node", damage)
        self.assertIn("own-host-dirs: adds capabilities", found)
        self.assertIn("own-host-dirs: may run as root", found)

    def test_a_service_account_with_a_token_is_named(self):
        def damage(objects):
            account = manifests.find(objects, "ServiceAccount", "kvtier-agent")
            account["automountServiceAccountToken"] = True
        self.assertIn("hands out an API token", self.complaints_after("base", damage))

    def test_an_open_network_is_named(self):
        def no_default_deny(objects):
            objects.remove(manifests.find(objects, "NetworkPolicy", "kvtier-default-deny"))

        def any_peer(objects):
            policy_object = manifests.find(objects, "NetworkPolicy", "kvtier-coordinator")
            policy_object["spec"]["ingress"][0].pop("from")
        self.assertIn("denies by default", self.complaints_after("base", no_default_deny))
        self.assertIn("open to every peer", self.complaints_after("base", any_peer))

    def test_a_service_that_selects_nothing_is_named(self):
        def damage(objects):
            service = manifests.find(objects, "Service", "kvtier-coordinator")
            service["spec"]["selector"]["app.kubernetes.io/component"] = "conductor"
        self.assertIn("selects no pod", self.complaints_after("base", damage))

    def test_a_line_that_is_no_flag_is_refused(self):
        for line in ("--host_bytes 8GiB", "host_bytes=8GiB", "--Host=1"):
            with self.subTest(line), self.assertRaises(ValueError):
                manifests.parse_flags([line])


if __name__ == "__main__":
    unittest.main()
