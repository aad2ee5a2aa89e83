"""Everything that deploy/ starts does start here: each flag file and each manifest, with its coordinator and its agent.

Folders, ports and names of hosts are this test's. Tiers are divided until host memory is two slabs and a disk four
segments, and so are the tenants' shares; everything else is as shipped.
"""

import pathlib
import re
import subprocess
import tempfile
import time
import unittest

import manifests
import programs

SYSTEMD = programs.DEPLOY / "systemd"
SLAB_BYTES = 64 << 20  # The default of --slab_bytes.
SECRETS = {"tenants": ("acme", "beta"), "disk-secret": ("master",)}  # Files of a volume that is a Secret.
SMALL = {"host": 2 * SLAB_BYTES, "disk": 4 * 256 << 20}


class Place:
    """The folder that stands for / of a host or of a container."""

    def __init__(self, root):
        self.root = pathlib.Path(root)

    def folder(self, path, mode=0o700):
        made = self.root / path.lstrip("/")
        made.mkdir(parents=True, exist_ok=True)
        made.chmod(mode)
        return made

    def write(self, path, content):
        file = self.folder(str(pathlib.PurePosixPath(path).parent)) / pathlib.PurePosixPath(path).name
        file.write_bytes(content)
        file.chmod(0o400)

    def mount(self, pod, container, objects):
        """Makes what the container mounts: its ConfigMaps, its Secrets (present as the overlay says), empty folders."""
        volumes = {v["name"]: v for v in pod.get("volumes", [])}
        for mount in container["volumeMounts"]:
            volume = volumes.get(mount["name"], {})
            self.folder(mount["mountPath"])
            if "configMap" in volume:
                data = manifests.find(objects, "ConfigMap", volume["configMap"]["name"])["data"]
                for key, text in data.items():
                    self.write(f"{mount['mountPath']}/{key}", text.encode())
            elif "secret" in volume and not volume["secret"].get("optional"):
                for key in SECRETS[mount["name"]]:
                    self.write(f"{mount['mountPath']}/{key}", key.encode().ljust(32, b"."))

    def inside(self, value):
        return f"{self.root}{value}" if value.startswith("/") else value


def divisor(flags, tier):
    """Returns by what to divide a tier's sizes, so that it is small here; 1 where it is small as shipped."""
    return max(1, manifests.size(flags.get(f"{tier}_bytes", "0")) // SMALL[tier])


def small_settings(text, flags):
    """Returns a file of tenants' settings whose shares are divided as the tiers are."""

    def divided(match):
        return f"{match[1]}_{match[2]}={manifests.size(match[3]) // divisor(flags, match[1])}"

    return re.sub(r"\b(host|disk)_(guaranteed|maximum)=(\d\w*)", divided, text)


def small(flags, place):
    """Returns the flags of a start in `place`, with small tiers."""
    here = {name: place.inside(value) for name, value in flags.items()}
    for name in ("host", "disk"):
        if f"{name}_bytes" in flags:
            here[f"{name}_bytes"] = str(manifests.size(flags[f"{name}_bytes"]) // divisor(flags, name))
    for name in ("listen", "advertise"):
        if name in here:
            here[name] = re.sub(r":\d+$", ":0" if name == "listen" else ":7301", here[name])
    return here


def wait_until_it_answers(process, socket, log):
    """Returns nothing once `kvtier status` is answered at the socket; the program's own words are the complaint."""
    deadline = time.monotonic() + programs.TIMEOUT_S
    option = "--agent" if "admin" in socket.name else "--coordinator"
    while process.poll() is None and time.monotonic() < deadline:
        if socket.exists() and programs.run(programs.built("kvtier"), "status", option, f"unix:{socket}").returncode == 0:
            return
        time.sleep(0.1)
    raise AssertionError(f"status {process.poll()}: {log.read_text()}")


class Starts(unittest.TestCase):
    def start(self, program, flags, place, socket):
        log = place.root / f"{program}.log"
        words = [f"--{name}={value}" for name, value in flags.items()]
        with log.open("wb") as output:
            process = subprocess.Popen([programs.built(program), *words], stderr=output, stdout=output)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        wait_until_it_answers(process, pathlib.Path(flags["socket_dir"]) / socket, log)
        return log

    def start_both(self, agent, coordinator, places):
        """Starts a coordinator and its agent with the flags that deploy/ has for them."""
        log = self.start("kvtier-coordinator", small(coordinator, places[1]), places[1], "kvtier-coordinator.sock")
        flags = small(agent, places[0])
        if flags.get("coordinator"):
            port = re.search(r"listening on .*?:(\d+)", log.read_text())[1]
            flags["coordinator"] = f"127.0.0.1:{port}"
        if "tenant_settings" in flags:
            shares = pathlib.Path(flags["tenant_settings"])
            shares.chmod(0o600)
            shares.write_text(small_settings(shares.read_text(), agent))
        self.start("kvtier-agent", flags, places[0], "kvtier-admin.sock")

    def test_every_manifest_starts(self):
        for folder in manifests.RENDERED:
            with self.subTest(folder), tempfile.TemporaryDirectory() as root:
                objects, flags, places = manifests.render(folder), [], []
                for kind in ("DaemonSet", "StatefulSet"):
                    pod = manifests.pod_of(manifests.find(objects, kind))
                    container = pod["containers"][0]
                    places.append(Place(f"{root}/{kind}"))
                    places[-1].mount(pod, container, objects)
                    flags.append(manifests.flags_of(pod, container, objects))
                flags[0] |= {"node_id": "here", "advertise": "127.0.0.1:7301"}
                self.start_both(*flags, places)
                self.doCleanups()

    def test_the_units_start(self):
        with tempfile.TemporaryDirectory() as root:
            place, flags = Place(root), []
            for program in ("agent", "coordinator"):
                unit = (SYSTEMD / f"kvtier-{program}.service").read_text().replace("\\\n", "")
                words = re.search(r"^ExecStart=\S+ (.*)$", unit, re.MULTILINE)[1]
                for short, long in (("%H", "here"), ("%t", "/run"), ("%S", "/var/lib")):
                    words = words.replace(short, long)
                lines = (SYSTEMD / f"{program}.flags").read_text().splitlines()
                flags.append(manifests.parse_flags(lines) | manifests.parse_flags(words.split()))
                del flags[-1]["flagfile"]
                for name, value in flags[-1].items():
                    if name.endswith("_dir"):
                        place.folder(value)
            self.start_both(*flags, [place, place])
            self.doCleanups()


if __name__ == "__main__":
    unittest.main()
