"""Rules for what a kvtier object may not do. Pure functions: parsed objects in, sentences of complaint out.

An empty list is a pass. test_policy.py damages good manifests in every way named here and expects
the complaint, so a rule that cannot fail does not survive.
"""

import manifests
from manifests import label, pod_of, size

# Overhead of the agent beside its host tier; agent-daemonset.yaml explains the arithmetic.
FIXED_OVERHEAD_BYTES = 2**30
TIER_BYTES_PER_INDEX_BYTE = 256
DISK_OVERHEAD_BYTES = 32 * 2**20  # kMaxMemoryPerDisk of agent/limits.h.

HOST_PATHS = {"/run/kvtier", "/var/lib/kvtier"}
PROGRAMS = {"agent": 7301, "coordinator": 7300}  # container name -> gRPC port


def check(objects):
    """Returns every complaint about a set of objects that is applied together."""
    complaints = []
    for obj in objects:
        pod = pod_of(obj)
        if pod is not None:
            complaints += [f"{label(obj)}: {c}" for c in check_pod(pod)]
            for container in containers_of(pod):
                complaints += [f"{label(obj)}/{container['name']}: {c}"
                               for c in check_container(pod, container, objects)]
        if obj["kind"] == "ServiceAccount" and obj.get("automountServiceAccountToken") is not False:
            complaints.append(f"{label(obj)}: hands out an API token")
    return complaints


def check_set(objects):
    """Yields complaints about mistakes that only a whole installation can have."""
    return check(objects) + list(check_network(objects)) + list(check_services(objects))


def containers_of(pod):
    return pod.get("initContainers", []) + pod["containers"]


def check_pod(pod):
    for field in ("hostIPC", "hostPID", "hostNetwork"):
        if pod.get(field):
            yield f"{field} is set"
    if pod.get("automountServiceAccountToken") is not False:
        yield "mounts an API token"
    if pod.get("enableServiceLinks") is not False:
        yield "gets every Service as environment variables"
    for volume in pod.get("volumes", []):
        path = volume.get("hostPath", {}).get("path")
        if path is not None and path not in HOST_PATHS:
            yield f"hostPath {path} is not one of ours"


def check_container(pod, container, objects):
    yield from check_image(container["image"])
    yield from check_security(pod, container)
    yield from check_resources(container)
    if container["name"] in PROGRAMS:
        yield from check_probes(container)
        yield from check_flags(pod, container, objects)


def check_image(image):
    name, _, tag = image.rpartition(":")
    if not name or "/" in tag:
        yield f"image {image} has no tag"
    elif tag == "latest":
        yield "image tag is latest"


def check_security(pod, container):
    own, shared = container.get("securityContext", {}), pod.get("securityContext", {})
    effective = shared | own
    if own.get("privileged"):
        yield "privileged"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "allows privilege escalation"
    if own.get("readOnlyRootFilesystem") is not True:
        yield "root filesystem is writable"
    if effective.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield "no seccomp profile"
    capabilities = own.get("capabilities", {})
    if capabilities.get("drop") != ["ALL"]:
        yield "does not drop ALL capabilities"
    if is_directory_owner(container):
        return
    if capabilities.get("add"):
        yield f"adds capabilities {capabilities['add']}"
    if effective.get("runAsNonRoot") is not True or not effective.get("runAsUser"):
        yield "may run as root"


def is_directory_owner(container):
    """Returns whether a container is the one exception to "never root": the init container of
    components/own-host-dirs, which has no capability but CHOWN and sees only the two directories."""
    return (container["name"] == "own-host-dirs"
            and container["securityContext"]["capabilities"].get("add") == ["CHOWN"]
            and container["securityContext"].get("seccompProfile") == {"type": "RuntimeDefault"}
            and {m["mountPath"] for m in container["volumeMounts"]} == HOST_PATHS)


def check_resources(container):
    requests = container.get("resources", {}).get("requests", {})
    limits = container.get("resources", {}).get("limits", {})
    for resource in ("cpu", "memory"):
        if resource not in limits:
            yield f"no {resource} limit"
        elif requests.get(resource) != limits[resource]:
            yield f"{resource} request {requests.get(resource)} is not its limit {limits[resource]}"


def check_probes(container):
    port = PROGRAMS[container["name"]]
    for probe, service in (("startupProbe", "liveness"), ("readinessProbe", "readiness"),
                           ("livenessProbe", "liveness")):
        if container.get(probe, {}).get("grpc") != {"port": port, "service": service}:
            yield f"{probe} is not gRPC {service} on port {port}"


def check_flags(pod, container, objects):
    flags = manifests.flags_of(pod, container, objects)
    port = PROGRAMS[container["name"]]
    if flags.get("listen") != f"0.0.0.0:{port}":
        yield f"--listen={flags.get('listen')} is not where the probes and Services look"
    mounts = {m["mountPath"] for m in container["volumeMounts"]}
    for name in ("socket_dir", "disk_dir", "tenants_dir", "data_dir"):
        for path in flags.get(name, "").split(","):
            if path and path not in mounts:
                yield f"--{name}={path} is not a mounted volume"
    if container["name"] == "agent":
        yield from check_agent_memory(container, flags)


def all_disks(flags):
    """Returns the bytes of all disks: --disk_bytes has one size for all of --disk_dir, or a size for each."""
    sizes = [size(one) for one in flags["disk_bytes"].split(",")]
    disks = len(flags.get("disk_dir", "").split(","))  # A systemd unit adds its one itself.
    return sizes[0] * disks if len(sizes) == 1 else sum(sizes)


def check_agent_memory(container, flags):
    host, disk = size(flags["host_bytes"]), all_disks(flags)
    disks = len(flags.get("disk_dir", "").split(","))  # A systemd unit adds its one itself.
    needed = (host + FIXED_OVERHEAD_BYTES + disks * DISK_OVERHEAD_BYTES
              + (host + disk) // TIER_BYTES_PER_INDEX_BYTE)
    memory = container.get("resources", {}).get("limits", {}).get("memory")
    if memory is not None and size(memory) < needed:
        yield f"memory limit {memory} is below the {needed} bytes that its tiers need"


def check_network(objects):
    policies = [o for o in objects if o["kind"] == "NetworkPolicy"]
    deny = [p for p in policies
            if p["spec"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}]
    if not deny:
        yield "no NetworkPolicy denies by default"
    for policy in policies:
        for rule in policy["spec"].get("ingress", []) + policy["spec"].get("egress", []):
            if not rule.get("ports") or not (rule.get("from") or rule.get("to")):
                yield f"{label(policy)}: a rule is open to every peer or every port"


def check_services(objects):
    """Checks that every Service selects pods that exist, and that the agents' --coordinator is a Service."""
    pods = [o["spec"]["template"]["metadata"]["labels"] for o in objects if "template" in
            o.get("spec", {})]
    addresses = set()
    for service in (o for o in objects if o["kind"] == "Service"):
        selector = service["spec"]["selector"].items()
        if not any(selector <= labels.items() for labels in pods):
            yield f"{label(service)}: selects no pod"
        addresses |= {f"{service['metadata']['name']}:{p['port']}"
                      for p in service["spec"]["ports"]}
    pod = pod_of(manifests.find(objects, "DaemonSet"))
    flags = manifests.flags_of(pod, pod["containers"][0], objects)
    if flags.get("coordinator") not in addresses:
        yield f"--coordinator={flags.get('coordinator')} is not a Service"
