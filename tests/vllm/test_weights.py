"""The identity of weights: every byte of their files, hashed on a thread, and remembered."""

import hashlib
import json
import os
import tempfile
import threading
import unittest
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

from kvtier.vllm import file_digests, weights

SIZE = 3 * 1024 * 1024
COMMIT = "0123456789" * 4


class WithFolder(unittest.TestCase):
    """A model's folder, and a home of the test's own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        home = mock.patch.dict(os.environ, {"XDG_CACHE_HOME": f"{folder.name}/cache"})
        home.start()
        self.addCleanup(home.stop)
        self.memory = Path(folder.name, "cache", "kvtier")
        self.folder = Path(folder.name, "model")
        self.folder.mkdir()
        self.shard = self.folder / "model.safetensors"
        self.shard.write_bytes(bytes(SIZE))
        (self.folder / "config.json").write_text(json.dumps({"rope_theta": 1, "_name_or_path": "x"}))

    def digest(self, commit=None):
        return weights.weights_digest(str(self.folder), commit)

    def known(self):
        return weights.known_digest(str(self.folder), None)

    def change(self, path, place, value=1):
        """Changes one byte in place; size and modification time stay."""
        facts = path.stat()
        with path.open("r+b") as file:
            file.seek(place)
            file.write(bytes([value]))
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    def hashed_bytes(self, behind=lambda: None):
        """Returns a list that gets the size of each piece of a file that is hashed from now on; calls `behind` after each."""
        sizes, real = [], hashlib.sha256

        class Counted:
            def __init__(self, data=b""):
                self._hash = real(data)

            def update(self, data):
                if isinstance(data, memoryview):  # A piece of a file, and no name.
                    sizes.append(len(data))
                    behind()
                self._hash.update(data)

            def __getattr__(self, name):
                return getattr(self._hash, name)

        patch = mock.patch.object(file_digests.hashlib, "sha256", Counted)
        patch.start()
        self.addCleanup(patch.stop)
        return sizes


class KvOfOtherWeightsIsAMiss(WithFolder):
    """The first and last 64 KiB of each shard were hashed: with all MLPs changed, the old model's KV was a hit."""

    def test_one_byte_anywhere_makes_another_digest(self):
        seen = {self.digest()}
        for place in (0, 65_536, SIZE // 3, SIZE // 2, SIZE - 65_537, SIZE - 1):
            self.change(self.shard, place)
            seen.add(self.digest())
        self.assertEqual(len(seen), 7)

    def test_in_each_kind_of_file_that_an_engine_may_load(self):
        for name in ("pytorch_model.bin", "consolidated.00.pth", "model.pt", "model.gguf", "model.tensors"):
            other = self.folder / name
            other.write_bytes(bytes(SIZE))
            before = self.digest()
            self.change(other, SIZE // 2)
            self.assertNotEqual(self.digest(), before, name)

    def test_differs_with_names_sizes_and_configuration(self):
        seen = {self.digest()}
        self.shard.write_bytes(bytes(SIZE + 1))
        seen.add(self.digest())
        self.shard.rename(self.folder / "renamed.safetensors")
        seen.add(self.digest())
        (self.folder / "more.safetensors").write_bytes(b"")
        seen.add(self.digest())
        (self.folder / "config.json").write_text(json.dumps({"rope_theta": 2}))
        seen.add(self.digest())
        for name in ("hf_quant_config.json", "params.json", "model.safetensors.index.json"):
            (self.folder / name).write_text(json.dumps({"a": 1}))
            seen.add(self.digest())
        self.assertEqual(len(seen), 8)

    def test_is_the_same_for_the_same_bytes_wherever_they_are(self):
        before = self.digest()
        self.folder = self.folder.rename(self.folder.with_name("moved"))
        (self.folder / "config.json").write_text(json.dumps({"_name_or_path": "y", "rope_theta": 1}))
        (self.folder / "README.md").write_text("of no weight")
        self.assertEqual(self.digest("any"), before)

    def test_a_file_that_is_written_while_it_is_read_is_refused_by_name(self):
        self.hashed_bytes(lambda: self.change(self.shard, 7))
        with self.assertRaisesRegex(ValueError, "model.safetensors changes while it is read"):
            self.digest()
        self.assertEqual(self.known(), weights.UNKNOWN_WEIGHTS)


class Hub(WithFolder):
    """A model hub's cache: snapshots link to blobs, which have the digests of their content as names."""

    def link(self, name):
        blob = self.folder.parent / "models--org--m" / "blobs" / name
        blob.parent.mkdir(parents=True, exist_ok=True)
        self.shard.rename(blob)
        self.shard.symlink_to(blob)
        return blob

    def test_a_blob_counts_by_its_name_and_is_not_read(self):
        copied = self.digest()
        self.link(hashlib.sha256(bytes(SIZE)).hexdigest())
        sizes = self.hashed_bytes()
        self.assertEqual(self.known(), copied)  # So a copy and the hub's own files share.
        self.assertEqual(self.digest(), copied)
        self.assertEqual(sizes, [])

    def test_a_name_that_is_no_sha256_proves_nothing(self):
        blob = self.link("a" * 40)
        before = self.digest()
        self.change(blob, SIZE // 2)
        self.assertNotEqual(self.digest(), before)
        self.assertEqual(weights.known_digest(str(self.folder), None), self.digest())

    def test_such_a_name_elsewhere_proves_nothing(self):
        other = self.folder.parent / "blobs" / ("a" * 64)
        other.parent.mkdir()
        self.shard.rename(other)
        self.shard.symlink_to(other)
        before = self.digest()
        self.change(other, SIZE // 2)
        self.assertNotEqual(self.digest(), before)

    def test_a_model_without_a_folder_is_its_commit_and_no_branch(self):
        models = (("org/m", COMMIT), ("org/m", COMMIT[::-1]), ("org/n", COMMIT))
        self.assertEqual(len({weights.known_digest(*model) for model in models}), 3)
        self.assertEqual(weights.known_digest(*models[0]), weights.weights_digest(*models[0]))
        for commit in (None, "main", "v1.0"):
            with self.assertRaisesRegex(ValueError, "model is 'org/m'.*weights_digest"):
                weights.known_digest("org/m", commit)

    def test_the_commit_is_the_weights_own(self):
        class Resolved(str):
            resolved = COMMIT[::-1]

        def commit(revision=None, configuration=None, of=None):
            return weights.commit_of(SimpleNamespace(model="org/m", revision=revision, hf_config_path=of,
                                                     hf_config=SimpleNamespace(_commit_hash=configuration)))

        self.assertEqual(commit(COMMIT, COMMIT[::-1]), COMMIT)
        self.assertEqual(commit(Resolved("main"), COMMIT), COMMIT[::-1])
        self.assertEqual(commit("main", COMMIT), COMMIT)
        self.assertIsNone(commit("main", COMMIT, of="org/n"))  # It is another model's.
        self.assertIsNone(commit("main"))
        self.assertIsNone(weights.commit_of(SimpleNamespace(model="org/m", revision="main")))


class Memory(WithFolder):
    def test_files_are_read_once_until_they_change(self):
        sizes = self.hashed_bytes()
        self.assertEqual(self.known(), weights.UNKNOWN_WEIGHTS)
        before = self.digest()
        self.assertEqual(sum(sizes), SIZE)
        self.assertEqual((self.digest(), self.known(), sum(sizes)), (before, before, SIZE))
        self.change(self.shard, SIZE // 2)
        self.assertEqual(self.known(), weights.UNKNOWN_WEIGHTS)
        self.assertNotEqual(self.digest(), before)
        self.assertEqual(sum(sizes), 2 * SIZE)

    def test_a_file_that_was_swapped_for_one_of_the_same_size_and_time_is_read_again(self):
        before, facts = self.digest(), self.shard.stat()
        other = self.folder / "other"
        other.write_bytes(bytes(SIZE - 1) + b"1")
        os.utime(other, ns=(facts.st_atime_ns, facts.st_mtime_ns))
        other.rename(self.shard)
        self.assertEqual(self.known(), weights.UNKNOWN_WEIGHTS)
        self.assertNotEqual(self.digest(), before)

    def test_is_a_file_of_the_users_own(self):
        os.umask(os.umask(0))
        self.digest()
        [file] = self.memory.iterdir()
        self.assertEqual((self.memory.stat().st_mode & 0o777, file.stat().st_mode & 0o777), (0o700, 0o600))

    def plant(self):
        """Has the memory say another digest. Returns the right one, and the memory's file."""
        right = self.digest()
        [file] = self.memory.iterdir()
        [identity] = json.loads(file.read_text())
        file.write_text(json.dumps({identity: "0" * 64}))
        self.assertNotEqual(self.digest(), right)  # The user's own file is believed.
        return right, file

    def test_what_others_may_write_is_not_believed(self):
        right, file = self.plant()
        for path, mode, own in ((self.memory, 0o770, 0o700), (self.memory, 0o707, 0o700), (file, 0o620, 0o600),
                                (file, 0o602, 0o600)):
            path.chmod(mode)
            with self.assertLogs("vllm.kvtier", "WARNING") as logged:
                self.assertEqual(self.digest(), right)
            self.assertIn(f"{path} has the mode {mode:o}", logged.output[0])
            self.assertEqual(self.known(), weights.UNKNOWN_WEIGHTS)
            path.chmod(own)

    def test_what_belongs_to_another_user_is_not_believed(self):
        right, _ = self.plant()
        with mock.patch.object(file_digests.os, "geteuid", lambda: os.getuid() + 1), \
                self.assertLogs("vllm.kvtier", "WARNING") as logged:
            self.assertEqual(self.digest(), right)
            self.assertEqual(self.known(), weights.UNKNOWN_WEIGHTS)
        self.assertIn("belongs to user", logged.output[0])

    def test_links_are_not_followed(self):
        right, file = self.plant()
        for path in (file, self.memory):
            elsewhere = path.with_name("elsewhere")
            path.rename(elsewhere)
            path.symlink_to(elsewhere)
            with self.assertLogs("vllm.kvtier", "WARNING"):
                self.assertEqual(self.digest(), right)
            self.assertEqual(self.known(), weights.UNKNOWN_WEIGHTS)
            path.unlink()
            elsewhere.rename(path)

    def test_a_memory_that_was_written_in_part_or_by_others_is_not_believed(self):
        right = self.digest()
        [file] = self.memory.iterdir()
        whole = file.read_text()
        [identity] = json.loads(whole)
        for content in (whole[:-1], "", "[]", "7", *(json.dumps({identity: value}) for value in ("x", 7, None))):
            file.write_text(content)
            self.assertEqual(self.known(), weights.UNKNOWN_WEIGHTS, content)
            self.assertEqual(self.digest(), right)
            self.assertEqual(self.known(), right)

    def test_without_a_home_every_start_hashes(self):
        before = self.digest()
        self.memory.parent.rename(self.memory.parent.with_name("other"))
        self.memory.parent.write_text("no folder")
        with self.assertLogs("vllm.kvtier", "WARNING"):
            self.assertEqual(self.digest(), before)
        self.assertEqual(self.known(), weights.UNKNOWN_WEIGHTS)

    def test_keeps_the_latest_digests(self):
        with mock.patch.object(file_digests, "_MOST_REMEMBERED", 2):
            for name in ("a.bin", "b.bin"):
                (self.folder / name).write_bytes(b"1")
            self.digest()
        [file] = self.memory.iterdir()
        self.assertEqual(len(json.loads(file.read_text())), 2)
        longest = f"{2**64}:{2**64}:{2**64}:{2**64}:{2**64}"
        fullest = json.dumps({f"{longest}{i:04}": "0" * 64 for i in range(file_digests._MOST_REMEMBERED)})
        self.assertLess(len(fullest), file_digests._MEMORY_BYTES)
        self.assertLessEqual(len({file_digests._name_of_memory([Path(f"/m{i}")]) for i in range(5000)}), 256)

    def test_of_all_ranks_of_a_node_one_hashes(self):
        sizes, digests = self.hashed_bytes(), []
        ranks = [threading.Thread(target=lambda: digests.append(self.digest())) for _ in range(8)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
        self.assertEqual((len(digests), len(set(digests)), sum(sizes)), (8, 1, SIZE))


class Finder(WithFolder):
    def test_ends_in_the_middle_of_a_file_and_of_its_turn(self):
        with self.shard.open("r+b") as file:
            file.truncate(1 << 40)  # Its hash would take minutes.
        self.memory.mkdir(parents=True, mode=0o700)
        found = []
        finders = [weights.WeightsFinder(str(self.folder), None, found.append) for _ in range(2)]
        for finder in finders:
            finder.close()
            self.assertFalse(finder._thread.is_alive())
            self.assertEqual(finder.digest(), "")
        self.assertEqual(found, [])

    def test_a_file_that_cannot_be_read_is_said_once(self):
        for made in (lambda: self.shard.chmod(0), lambda: (self.folder / "config.json").write_text("{")):
            made()
            if os.access(self.shard, os.R_OK) and self.shard.stat().st_mode & 0o777 == 0:
                continue  # The superuser reads it.
            with self.assertLogs("vllm.kvtier", "ERROR") as logged:
                finder = weights.WeightsFinder(str(self.folder), None, lambda digest: None)
                finder._thread.join()
            self.assertEqual(finder.digest(), "")
            self.assertRegex(logged.output[0], f"weights in {self.folder} cannot be found.*start the engine again")


if __name__ == "__main__":
    unittest.main()
