"""Everything that deploy/ starts does start here: each flag file and each manifest, with its coordinator and its agent.

Each program reads its flag file as shipped. Flags behind it replace folders, ports and names of hosts, and tiers: they
are divided until host memory is two slabs and a disk four segments, and so are the tenants' shares.
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

    def folder(self, path):
        made = self.root / path.lstrip("/")
        made.mkdir(parents=True, exist_ok=True, mode=0o700)
        return made

    def mount(self, pod, container, objects):
        """Makes what the container mounts: its ConfigMaps, its Secrets (present as the overlay says), empty folders."""
        volumes = {v["name"]: v for v in pod.get("volumes", [])}
        for mount in container["volumeMounts"]:
            volume, files = volumes.get(mount["name"], {}), {}
            if "configMap" in volume:
                files = manifests.find(objects, "ConfigMap", volume["configMap"]["name"])["data"]
            elif "secret" in volume and not volume["secret"].get("optional"):
                files = {name: name.ljust(32, ".") for name in SECRETS[mount["name"]]}
            inside = self.folder(mount["mountPath"])
            for name, text in files.items():
                (inside / name).write_text(text)
                (inside / name).chmod(0o600)

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
    """Returns the flags behind the flag file of a start in `place`, with small tiers."""
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
    def start(self, program, file, flags, place, socket):
        log = place.root / f"{program}.log"
        words = [f"--flagfile={file}", *(f"--{name}={value}" for name, value in flags.items())]
        with log.open("wb") as output:
            process = subprocess.Popen([programs.built(program), *words], stderr=output, stdout=output)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        wait_until_it_answers(process, pathlib.Path(flags["socket_dir"]) / socket, log)
        return log

    def start_both(self, files, flags, places):
        """Starts a coordinator and its agent, each with its flag file; the agent's is the first of each two."""
        log = self.start("kvtier-coordinator", files[1], small(flags[1], places[1]), places[1], "kvtier-coordinator.sock")
        agent = small(flags[0], places[0])
        if agent.get("coordinator"):
            port = re.search(r"listening on .*?:(\d+)", log.read_text())[1]
            agent["coordinator"] = f"127.0.0.1:{port}"
        if "tenant_settings" in agent:
            shares = pathlib.Path(agent["tenant_settings"])
            shares.write_text(small_settings(shares.read_text(), flags[0]))
        self.start("kvtier-agent", files[0], agent, places[0], "kvtier-admin.sock")

    def test_every_manifest_starts(self):
        for folder in manifests.RENDERED:
            with self.subTest(folder), tempfile.TemporaryDirectory() as root:
                objects, files, flags, places = manifests.render(folder), [], [], []
                for kind in ("DaemonSet", "StatefulSet"):
                    pod = manifests.pod_of(manifests.find(objects, kind))
                    container = pod["containers"][0]
                    places.append(Place(f"{root}/{kind}"))
                    places[-1].mount(pod, container, objects)
                    files.append(places[-1].inside(manifests.parse_flags(container["args"])["flagfile"]))
                    flags.append(manifests.flags_of(pod, container, objects))
                flags[0] |= {"node_id": "here", "advertise": "127.0.0.1:7301"}
                self.start_both(files, flags, places)
                self.doCleanups()

    def test_the_units_start(self):
        with tempfile.TemporaryDirectory() as root:
            place, flags = Place(root), []
            files = [SYSTEMD / f"{program}.flags" for program in ("agent", "coordinator")]
            for file in files:
                unit = (SYSTEMD / f"kvtier-{file.stem}.service").read_text().replace("\\\n", "")
                words = re.search(r"^ExecStart=\S+ (.*)$", unit, re.MULTILINE)[1]
                for short, long in (("%H", "here"), ("%t", "/run"), ("%S", "/var/lib")):
                    words = words.replace(short, long)
                flags.append(manifests.parse_flags(file.read_text().splitlines()) | manifests.parse_flags(words.split()))
                del flags[-1]["flagfile"]
                for name, value in flags[-1].items():
                    if name.endswith("_dir"):
                        place.folder(value)
            self.start_both(files, flags, [place, place])
            self.doCleanups()


if __name__ == "__main__":
    unittest.main()
