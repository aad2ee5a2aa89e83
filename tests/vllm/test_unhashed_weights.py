"""An engine whose weights, or a request whose adapter, are not hashed yet: nothing is shared until they are."""

import fcntl
import json
import os
import unittest
from types import SimpleNamespace
from unittest import mock

import stand_ins
import vllm_stub
from agent_rig import eventually
from kvtier.vllm import file_digests, weights
from kvtier.vllm.metadata import StepPlan
from kvtier.vllm.options import parse_options
from kvtier.vllm.scheduler_side import SchedulerSide
from kvtier.vllm.space import digest_of_epoch
from stand_ins import BLOCK_TOKENS, Step, make_keys, make_request
from test_connector import WithConnector  # Puts stubs where the engine is imported from.
from test_weights import SIZE, WithFolder
from vllm_config import make_config

from kvtier.vllm.connector import KvtierReport


class WithUnhashedWeights(WithFolder, WithConnector):
    """An engine on a folder that nothing has hashed yet; another process, which hashes it, has the turn."""

    def configuration(self):
        config = make_config(self.POLICY, {"weights_digest": ""})
        config.model_config.model = str(self.folder)
        return config

    def setUp(self):
        WithFolder.setUp(self)
        self.memory.mkdir(parents=True)
        self.memory.chmod(0o700)
        self.turn = os.open(self.memory / file_digests._name_of_memory([self.shard]), os.O_RDWR | os.O_CREAT, 0o600)
        self.addCleanup(lambda: self.turn is None or os.close(self.turn))
        fcntl.flock(self.turn, fcntl.LOCK_EX)
        WithConnector.setUp(self)
        self.addCleanup(self.worker.shutdown)

    def end_turn(self):
        os.close(self.turn)
        self.turn = None
        self.assertTrue(eventually(lambda: self.worker._weights.digest()))

    def assert_both_sides_have_the_space_of_the_weights(self):
        worker, scheduler = (client.registered[-1].spec for client in self.clients)
        self.assertEqual((worker, worker.weights_digest), (scheduler, self.digest()))


class UntilTheDigestIsKnown(WithUnhashedWeights):
    def looks(self):
        return sum(client.looks + len(client.prefetches) + len(client.advices) for client in self.clients)

    def begin(self):
        """Has the engine compute a request of 200 tokens."""
        self.assertEqual(self.scheduler.get_num_new_matched_tokens(make_request("a", 200), 0), (0, False))
        self.step(Step().new("a", 0, 200, list(range(1, 8))))

    def test_nothing_is_looked_up_or_saved_and_nothing_waits(self):
        self.begin()
        for computed in range(200, 264):
            self.step(Step().cached("a", computed, 1))
        self.assertEqual([job for lanes in self.lanes for job in lanes.offloads + lanes.onboards], [])
        self.assertEqual(self.looks(), 0)
        self.assertEqual(self.worker.get_handshake_metadata().specs[0].weights_digest, weights.UNKNOWN_WEIGHTS)
        self.assertEqual(self.clients[-1].registered, [])
        self.scheduler.request_finished(make_request("a", 200), [1])
        self.assertEqual(self.looks(), 0)

    def test_then_it_reaches_the_scheduler_with_a_step_and_what_was_computed_is_saved(self):
        self.begin()
        self.end_turn()
        output = self.step(Step().cached("a", 200, 1))
        [[spec]] = output.kv_connector_worker_meta.spaces.values()
        self.assertEqual(spec.weights_digest, self.digest())
        self.assertEqual(self.lanes[-1].offloads, [])
        self.assertIsNone(self.step(Step().cached("a", 201, 1)).kv_connector_worker_meta)
        [save] = self.lanes[-1].offloads
        self.assertEqual((save.keys, save.blocks, save.parent), (make_keys(6), [1, 2, 3, 4, 5, 6], None))
        self.assert_both_sides_have_the_space_of_the_weights()
        opened = len(self.lanes)
        self.clients[-1].put(self.clients[-1].registered[-1], make_keys(3))
        self.start_load("b", 3, first=11)
        self.step(Step())
        self.assertEqual((len(self.lanes[-1].onboards), len(self.lanes)), (1, opened))

    def test_blocks_of_before_a_reset_are_not_saved(self):
        self.begin()
        self.scheduler.reset_cache()
        self.end_turn()
        for computed in range(200, 203):
            self.step(Step().cached("a", computed, 1))
        self.assertEqual([job for lanes in self.lanes for job in lanes.offloads], [])
        worker, scheduler = (client.registered[-1].spec for client in self.clients)
        self.assertEqual(worker, scheduler)
        self.assertNotIn(worker.weights_digest, (self.digest(), weights.UNKNOWN_WEIGHTS))

    def test_memory_that_goes_and_comes_back_meanwhile_changes_nothing(self):
        self.worker.unregister_kv_caches()
        self.worker.restore_kv_caches()
        self.begin()
        self.end_turn()
        self.worker.unregister_kv_caches()
        self.worker.restore_kv_caches()
        for computed in range(200, 203):
            self.step(Step().cached("a", computed, 1))
        self.assertEqual([len(lanes.offloads) for lanes in self.lanes if not lanes.closed], [1])
        self.assertEqual(self.clients[0].registered[-1].spec.weights_digest, self.digest())

    def test_an_engine_that_starts_again_knows_it_at_once(self):
        self.end_turn()
        sizes = self.hashed_bytes()
        WithConnector.setUp(self)
        self.assertEqual(self.worker.get_handshake_metadata().specs[0].weights_digest, self.digest())
        self.assertEqual(sizes, [])
        self.put(3)
        self.start_load("a", 3)

    def test_a_rank_that_knew_it_at_its_start_keeps_its_space_when_others_learn_it(self):
        self.end_turn()
        WithConnector.setUp(self)
        left, client = [], self.clients[0]
        client.unregister_space = left.append
        self.worker.handle_preemptions(SimpleNamespace(plan=StepPlan(weights_digest=self.digest())))
        self.assertEqual((left, len(self.lanes)), ([], 1))


class InsideMultiConnector(WithUnhashedWeights):
    """The engine hands nothing over at the start, so spaces and digests come with the answers to steps alone."""

    def setUp(self):
        vllm_stub.TransferGroup.connector = object()  # Not this connector.
        self.addCleanup(setattr, vllm_stub.TransferGroup, "connector", None)
        super().setUp()

    def test_requests_wait_for_the_first_answer_and_none_for_the_digest(self):
        request = make_request("a", 200)
        self.assertEqual(self.scheduler.get_num_new_matched_tokens(request, 0), (None, False))
        self.step(Step())
        self.assertEqual(self.scheduler.get_num_new_matched_tokens(request, 0), (0, False))
        self.assertEqual(self.clients[-1].registered, [])
        self.step(Step().new("a", 0, 200, list(range(1, 8))))
        self.end_turn()
        self.step(Step().cached("a", 200, 1))
        self.assertEqual(self.lanes[-1].offloads, [])
        self.step(Step().cached("a", 201, 1))
        self.assertEqual([save.keys for save in self.lanes[-1].offloads], [make_keys(6)])
        self.assert_both_sides_have_the_space_of_the_weights()

    def test_a_digest_that_is_found_before_the_first_step_comes_with_its_answer(self):
        self.end_turn()
        self.step(Step())
        self.assertIsNone(self.step(Step()).kv_connector_worker_meta)
        self.assert_both_sides_have_the_space_of_the_weights()
        self.put(3)
        self.start_load("a", 3)
        self.step(Step())
        self.assertEqual(len(self.lanes[-1].onboards), 1)


class Adapters(WithFolder):
    """An adapter that was replaced under its own name and path had the keys of the one before, also after a restart."""

    def setUp(self):
        super().setUp()
        (self.folder / "adapter_config.json").write_text(json.dumps({"r": 8, "base_model_name_or_path": "x"}))
        self.open()

    def open(self):
        """Starts the engine's scheduler."""
        self.client = stand_ins.TableClient()
        self.side = SchedulerSide(self.client, parse_options({"peers": False}), BLOCK_TOKENS, False, stand_ins.Clock())
        self.side.accept_spaces({(0, 0): [stand_ins.spec()]})
        self.addCleanup(self.side.close)

    def request(self, name, path=None):
        adapter = SimpleNamespace(lora_name="x", lora_path=path or str(self.folder))
        return make_request(name, 200, lora_request=adapter)

    def saved(self, name):
        """Returns the keys of a new request's blocks, as they are saved."""
        self.assertEqual(self.side.matched_tokens(self.request(name), 0), (0, False))
        plan = self.side.plan(Step().new(name, 0, 200, list(range(1, 8))))
        computed = 200
        while not plan.saves and self.side._adapters._finder is not None:
            self.assertTrue(eventually(self.side._adapters._finder.ended))
            plan = self.side.plan(Step().cached(name, computed, 1))
            computed += 1
        [save] = plan.saves
        self.assertEqual(len(save.keys), 6)
        return save.keys

    def test_other_files_have_other_keys(self):
        keys = self.saved("a")
        self.assertEqual(self.saved("b"), keys)
        self.change(self.shard, SIZE // 2)
        self.open()
        other = self.saved("a")
        self.assertTrue(set(other).isdisjoint(keys))
        (self.folder / "adapter_config.json").write_text(json.dumps({"r": 16}))
        self.open()
        self.assertTrue(set(self.saved("a")).isdisjoint([*keys, *other]))

    def test_a_reset_looks_at_the_files_again(self):
        keys = self.saved("a")
        self.change(self.shard, SIZE // 2)
        self.side.reset()
        self.assertTrue(set(self.saved("b")).isdisjoint(keys))

    def test_nothing_of_it_is_looked_up_until_its_files_are_read_and_others_are(self):
        file = self.memory / file_digests._name_of_memory([self.shard])
        self.memory.mkdir(parents=True, mode=0o700)
        turn = os.open(file, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(turn, fcntl.LOCK_EX)
        request = self.request("a")
        self.assertEqual(self.side.matched_tokens(request, 0), (0, False))
        self.assertEqual(self.side.plan(Step().new("a", 0, 200, list(range(1, 8)))).saves, [])
        self.assertEqual(self.client.looks, 0)
        self.client.put(self.client.registered[0], make_keys(3))
        self.assertEqual(self.side.matched_tokens(make_request("b", 200), 0), (96, True))
        os.close(turn)
        self.assertTrue(eventually(self.side._adapters._finder.ended))
        [save] = self.side.plan(Step().cached("a", 200, 1)).saves
        self.assertEqual(len(save.keys), 6)

    def test_an_adapter_without_a_folder_or_without_weights_has_no_identity_of_files(self):
        self.assertEqual(self.side._adapters.digest_of("org/adapter"), "")
        self.shard.unlink()
        with self.assertRaisesRegex(ValueError, "set weights_digest"):
            self.side._adapters.digest_of(str(self.folder))
        self.assertIsNone(self.side._adapters.digest_of(str(self.folder)))

    def test_are_bounded_and_hashed_one_after_the_other(self):
        adapters = self.side._adapters
        with mock.patch("kvtier.vllm.adapters._MOST_ADAPTERS", 2):
            for name in ("a", "b", "c"):
                folder = self.folder / name
                folder.mkdir()
                (folder / "adapter_model.safetensors").write_bytes(name.encode())
                while not adapters.digest_of(str(folder)):
                    self.assertTrue(eventually(adapters._finder.ended))
                self.assertLessEqual(len(adapters._digests), 2)


class Ranks(unittest.TestCase):
    """Digests that come with the reports of several ranks."""

    def open(self, *digests):
        self.client = stand_ins.TableClient()
        side = SchedulerSide(self.client, parse_options({"peers": False}), BLOCK_TOKENS, False, stand_ins.Clock())
        side.accept_spaces(self.told(*digests))
        return side

    def told(self, *digests):
        """Returns what ranks tell whose weights have these digests; None: the rank is silent."""
        return {(0, rank): [stand_ins.spec(tp_rank=rank, tp_size=len(digests), weights_digest=digest)]
                for rank, digest in enumerate(digests) if digest is not None}

    def digests(self):
        return [space.spec.weights_digest for space in self.client.registered]

    def test_all_must_be_known(self):
        side = self.open("unknown", "unknown")
        for digests in ((None, None), ("w", "unknown"), ("w", None)):
            side.accept_spaces(self.told(*digests))
            self.assertEqual((self.digests(), side.plan(Step()).weights_digest, side.asks_spaces), ([], None, True))
        side.accept_spaces(self.told(None, "w"))
        self.assertEqual((self.digests(), side.plan(Step()).weights_digest, side.asks_spaces), (["w", "w"], "w", False))

    def test_all_must_have_told_their_spaces(self):
        side = self.open("w", None)
        self.assertEqual((self.digests(), side.asks_spaces), ([], True))
        side.accept_spaces(self.told(None, "w"))
        self.assertEqual((self.digests(), side.asks_spaces), (["w", "w"], False))

    def test_their_reports_are_joined(self):
        first, second = KvtierReport(7, self.told("w", None)), KvtierReport(7, self.told(None, "v"))
        self.assertEqual(first.aggregate(second), KvtierReport(7, self.told("w", "v")))
        self.assertEqual(KvtierReport(7, {}).aggregate(second), second)
        self.assertEqual(first.aggregate(KvtierReport(7, {})), first)

    def test_a_rank_that_knew_at_its_start_is_one_of_them(self):
        side = self.open("w", "unknown")
        self.assertEqual((self.digests(), side.plan(Step()).weights_digest), ([], None))
        side.accept_spaces(self.told(None, "w"))
        self.assertEqual((self.digests(), side.plan(Step()).weights_digest), (["w", "w"], "w"))

    def test_a_reset_before_it_counts(self):
        side = self.open("unknown")
        side.reset()
        self.assertEqual(self.digests(), [])
        side.accept_spaces(self.told("w"))
        self.assertEqual(self.digests(), [digest_of_epoch("w", side._epoch)])

    def test_different_weights_are_never_shared(self):
        for given in (("unknown", "unknown"), ("v", "unknown")):
            side = self.open(*given)
            with self.assertLogs("vllm.kvtier", "ERROR") as logged:
                side.accept_spaces(self.told("v", "w"))
            self.assertEqual((len(logged.output), self.digests(), side.asks_spaces), (1, [], False))
            side.reset()
            self.assertEqual(self.digests(), [])
            self.assertEqual(side.matched_tokens(make_request("a", 200), 0), (0, False))

    def test_the_same_space_of_several_ranks_is_one(self):
        side = SchedulerSide(stand_ins.TableClient(), parse_options({"peers": False}), BLOCK_TOKENS, False, stand_ins.Clock())
        side.accept_spaces({(0, rank): [stand_ins.spec(tp_size=8)] for rank in range(8)})
        side._client.put(side._client.registered[0], make_keys(3))
        self.assertEqual((side.matched_tokens(make_request("a", 200), 0), side._client.looks), ((96, True), 2))


if __name__ == "__main__":
    unittest.main()
