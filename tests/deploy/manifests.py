"""Renders the kustomizations and reads from the objects what the policy judges."""

import functools
import re

import yaml

import programs

KUSTOMIZE = programs.DEPLOY / "kustomize"
RENDERED = ("base", "overlays/encrypted", "overlays/io-uring", "overlays/single-node", "overlays/tenants")
WORKER = KUSTOMIZE / "examples" / "worker-pod.yaml"
UNITS = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
         "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}


@functools.lru_cache(maxsize=None)
def render_text(folder):
    """Returns the YAML of one kustomization. A warning is an error, because it announces what will stop working."""
    done = programs.run(programs.find("kubectl"), "kustomize", str(KUSTOMIZE / folder))
    if done.returncode != 0 or done.stderr:
        raise AssertionError(f"kubectl kustomize {folder}: {done.stderr or done.returncode}")
    return done.stdout


def render(folder):
    """Returns fresh objects on every call, so that a test may damage them."""
    return list(yaml.safe_load_all(render_text(folder)))


def worker():
    return list(yaml.safe_load_all(WORKER.read_text()))


def label(obj):
    return f"{obj['kind']}/{obj['metadata']['name']}"


def find(objects, kind, name=""):
    """Returns the one object of that kind whose name starts with `name`."""
    found = [o for o in objects if o["kind"] == kind and o["metadata"]["name"].startswith(name)]
    if len(found) != 1:
        raise AssertionError(f"{len(found)} objects are {kind}/{name}*, expected one")
    return found[0]


def pod_of(obj):
    """Returns the pod spec inside a workload, or None when the object makes no pods."""
    if obj["kind"] == "Pod":
        return obj["spec"]
    return obj.get("spec", {}).get("template", {}).get("spec")


def size(text):
    """Returns the bytes of "10Gi" (Kubernetes) or "8GiB" (our flags)."""
    match = re.fullmatch(r"(\d+)([A-Za-z]*)", str(text))
    if not match or match[2] not in UNITS:
        raise ValueError(f"not a size: {text!r}")
    return int(match[1]) * UNITS[match[2]]


def parse_flags(lines):
    """Returns {name: value} of --name=value lines; a later one wins, as on a command line."""
    flags = {}
    for line in lines:
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        match = re.fullmatch(r"--([a-z][a-z0-9_]*)=(.*)", line)
        if not match:
            raise ValueError(f"not a --name=value flag: {line!r}")
        flags[match[1]] = match[2]
    return flags


def flags_of(pod, container, objects):
    """Returns the container's flags: its args, after those in the ConfigMap that --flagfile points at."""
    args = parse_flags(container.get("args", []))
    path = args.pop("flagfile", None)
    if path is None:
        return args
    return parse_flags(config_file(pod, container, objects, path).splitlines()) | args


def config_file(pod, container, objects, path):
    """Returns the text of a file that the container has from a ConfigMap."""
    folder, _, key = path.rpartition("/")
    mount = next(m["name"] for m in container["volumeMounts"] if m["mountPath"] == folder)
    volume = next(v for v in pod["volumes"] if v["name"] == mount)
    return find(objects, "ConfigMap", volume["configMap"]["name"])["data"][key]
