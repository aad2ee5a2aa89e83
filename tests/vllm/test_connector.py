"""KvtierConnector as the engine calls it, in the order that was recorded, with vllm's classes stubbed."""

import importlib.util
import subprocess
import sys
import unittest
from types import SimpleNamespace
from unittest import mock

import kvtier
import stand_ins
import vllm_stub
from vllm_config import (BLOCKS, HEADS, LAYERS, NAMES, MambaSpec, MLAAttentionSpec, SlidingWindowSpec, attention,
                         make_cache_config, make_config)
from stand_ins import BLOCK_TOKENS, Step, make_keys, make_request
from tensor import Storage, Tensor

vllm_stub.install()
from kvtier.vllm import connector as connector_module  # noqa: E402 (the stubs come first)
from kvtier.vllm import KvtierConnector  # noqa: E402


class WithConnector(unittest.TestCase):
    POLICY = "recompute"
    SPECS = ()
    DEVICE = "cpu"

    def setUp(self):
        self.clients, self.lanes, self.devices = [], [], []
        for name, stand_in in (("Client", self.open_client), ("Lanes", self.open_lanes)):
            patch = mock.patch.object(kvtier, name, stand_in)
            patch.start()
            self.addCleanup(patch.stop)
        config, cache_config = self.configuration(), make_cache_config(*self.SPECS)
        self.worker = KvtierConnector(config, vllm_stub.KVConnectorRole.WORKER, kv_cache_config=cache_config)
        storage = Storage(LAYERS * BLOCKS * HEADS * 32 * 128 * 4)
        self.worker.register_kv_caches({
            name: Tensor((BLOCKS, HEADS, 32, 128), storage, offset=i * BLOCKS * HEADS * 32 * 128, device=self.DEVICE)
            for i, name in enumerate(NAMES)})
        self.scheduler = KvtierConnector(config, vllm_stub.KVConnectorRole.SCHEDULER, kv_cache_config=cache_config)
        self.scheduler.set_xfer_handshake_metadata_pp_aware(
            {(0, 0): data} if (data := self.worker.get_handshake_metadata()) else {})

    def configuration(self):
        return make_config(self.POLICY)

    def open_client(self, *arguments):
        self.clients.append(stand_ins.TableClient())
        return self.clients[-1]

    def open_lanes(self, client, space, memory, device, threads):
        self.lanes.append(stand_ins.RecordedLanes())
        self.devices.append((device, threads))
        return self.lanes[-1]

    def put(self, count, tier="host"):
        client = self.clients[-1]
        for space in client.registered:
            client.put(space, make_keys(count), tier)

    def step(self, scheduled, finished=frozenset()):
        """Makes one step in the recorded order. Returns the workers' output, which the scheduler has taken."""
        meta = self.scheduler.build_connector_meta(scheduled)
        self.worker.handle_preemptions(meta)
        self.worker.bind_connector_metadata(meta)
        for name in NAMES:
            self.worker.wait_for_layer_load(name)
            self.worker.save_kv_layer(name, None, None)
        self.worker.start_load_kv(None)
        self.worker.wait_for_save()
        results = self.worker.get_transfer_results(set(finished))
        output = SimpleNamespace(finished_sending=results.finished_sending, finished_recving=results.finished_recving,
                                 failed_recving=results.failed_recving,
                                 invalid_block_ids=self.worker.get_block_ids_with_load_errors(),
                                 kv_connector_worker_meta=self.worker.build_connector_worker_meta())
        self.worker.clear_connector_metadata()
        self.scheduler.update_connector_output(output)
        return output

    def start_save(self):
        """Makes the connector save blocks 8 and 9 of a new request "s"."""
        self.scheduler.get_num_new_matched_tokens(make_request("s", 200), 0)
        self.step(Step().new("s", 0, 64, [8, 9]))

    def start_load(self, name, blocks, first=1):
        """Makes the connector load the leading blocks of a new request of 200 tokens. Returns the request."""
        request = make_request(name, 200)
        self.assertEqual(self.scheduler.get_num_new_matched_tokens(request, 0), (blocks * BLOCK_TOKENS, True))
        ids = tuple(list(range(first, first + blocks)) for _ in range(len(self.SPECS) or 1))
        self.scheduler.update_state_after_alloc(request, SimpleNamespace(get_block_ids=lambda: ids), blocks * BLOCK_TOKENS)
        return request


class OnAGpu(WithConnector):
    DEVICE = "cuda:1"

    def test_lanes_are_the_gpus_and_copies_come_behind_the_engines_stream(self):
        self.assertEqual(self.devices, [("cuda:1", 1)])
        self.put(2)
        self.start_load("a", 2)
        self.step(Step())
        self.start_save()
        self.assertEqual(self.lanes[0].streams, [vllm_stub.CUDA_STREAM] * 2)
        [spec] = self.worker.get_handshake_metadata().specs
        self.assertNotIn("AVX2", spec.model)


class Protocol(WithConnector):
    def test_only_a_step_that_computes_nothing_waits_for_a_load(self):
        self.put(3)
        self.start_load("a", 3)
        self.step(Step())
        [job] = self.lanes[0].onboards
        self.assertEqual(len(job.waits), 1)
        self.start_save()
        self.assertEqual(len(job.waits), 1)
        self.step(Step())
        self.assertEqual(len(job.waits), 2)

    def test_a_load_between_steps(self):
        self.put(3)
        self.start_load("a", 3)
        self.assertEqual(self.step(Step()).finished_recving, set())  # The load has a step of its own, without tokens.
        [job] = self.lanes[0].onboards
        self.assertEqual((job.keys, job.blocks), (make_keys(3), [1, 2, 3]))
        job.end()
        output = self.step(Step())
        self.assertEqual((output.finished_recving, output.invalid_block_ids), ({"a"}, set()))
        self.step(Step().new("a", 96, 104, list(range(1, 8))))
        [save] = self.lanes[0].offloads
        self.assertEqual((save.keys, save.blocks, save.parent), (make_keys(6)[3:], [4, 5, 6], make_keys(3)[2]))

    def test_a_load_that_fails_is_answered_and_never_asked_for_again(self):
        self.put(3)
        request = self.start_load("a", 3)
        self.step(Step())
        self.lanes[0].onboards[0].end([True, False, False])
        output = self.step(Step())
        self.assertEqual((output.finished_recving, output.invalid_block_ids), ({"a"}, {2, 3}))
        self.assertEqual(output.failed_recving, set())  # With one group, the invalid blocks report the failure.
        self.assertEqual(self.scheduler.get_num_new_matched_tokens(request, 0), (0, False))
        self.step(Step().new("a", 32, 168, list(range(1, 8))))
        self.assertEqual(self.lanes[0].offloads[0].keys, make_keys(6)[1:])  # The two blocks that failed are put again.

    def test_an_id_is_never_answered_twice_also_of_a_request_that_was_aborted(self):
        self.put(3)
        request = self.start_load("a", 3)
        self.step(Step())
        self.assertEqual(self.scheduler.request_finished_all_groups(request, ([1, 2, 3],)), (False, None))
        self.lanes[0].onboards[0].end()
        answers = [self.step(Step(), {"a"}).finished_recving for _ in range(4)]
        self.assertEqual(answers, [{"a"}, set(), set(), set()])

    def test_no_request_waits_for_its_saves(self):
        request = make_request("a", 200)
        self.scheduler.get_num_new_matched_tokens(request, 0)
        output = self.step(Step().new("a", 0, 200, list(range(1, 8))))
        self.assertEqual(self.scheduler.request_finished(request, list(range(1, 8))), (False, None))
        self.assertEqual(output.finished_sending, set())
        self.assertFalse(self.scheduler.requires_kv_delivery)
        # Another request has the blocks now: the step that writes them lets the copies end first.
        self.step(Step().new("b", 0, 64, [3, 9]))
        self.assertEqual([blocks for blocks, _ in self.lanes[0].awaited], [[3]])

    def test_a_reset_is_told_to_the_workers_with_the_next_step(self):
        self.put(3)
        self.start_load("a", 3)
        self.step(Step())
        self.assertIs(self.scheduler.reset_cache(), True)
        output = self.step(Step())
        self.assertEqual(output.invalid_block_ids, {1, 2, 3})
        self.assertEqual(len(self.lanes), 2)
        worker, scheduler = (client.registered[-1].spec for client in self.clients)
        self.assertEqual(worker, scheduler)
        self.assertNotEqual(worker, self.clients[0].registered[0].spec)

    def test_why_a_request_ended_is_told_by_the_name_of_its_status(self):
        told = {"FINISHED_STOPPED": "stop", "FINISHED_LENGTH_CAPPED": "length", "FINISHED_ABORTED": "cancelled",
                "FINISHED_IGNORED": None, "FINISHED_ERROR": None}
        for name in told:
            request = make_request(name, 64)
            request.status = SimpleNamespace(name=name)
            self.scheduler.get_num_new_matched_tokens(request, 0)
            self.assertEqual(self.scheduler.request_finished_all_groups(request, ([1, 2],)), (False, None))
        self.step(Step())
        advices = self.clients[-1].advices
        self.assertEqual([sequences[0].finish for sequences, _, _ in advices], [end for end in told.values() if end])
        self.assertEqual(advices[0][0][0].keys, make_keys(2))

    def test_hundreds_of_requests_without_an_end_of_any_save_leave_nothing(self):
        for i in range(300):
            request = make_request(f"r{i}", 64)
            self.scheduler.get_num_new_matched_tokens(request, 0)
            self.lanes[0].full = i > 10
            self.step(Step().new(f"r{i}", 0, 64, [30, 31]))
            self.scheduler.request_finished_all_groups(request, ([30, 31],))
        self.assertLess(len(self.lanes[0].offloads), 12)
        self.assertLess(len(self.worker._worker._saves), 12)
        self.assertEqual(self.scheduler._scheduler._requests, {})


class SeveralGroups(WithConnector):
    SPECS = (attention(), attention(SlidingWindowSpec))

    def test_failures_come_by_request_and_no_block_is_named(self):
        self.put(3)
        self.start_load("a", 3)
        self.step(Step())
        self.lanes[0].onboards[0].end()
        self.lanes[1].onboards[0].end([True, True, False])
        output = self.step(Step())
        self.assertEqual((output.finished_recving, output.failed_recving, output.invalid_block_ids), ({"a"}, {"a"}, set()))

    def test_each_group_has_a_space_of_its_own(self):
        specs = self.worker.get_handshake_metadata().specs
        self.assertEqual(len({spec.model for spec in specs}), 2)


class InsideMultiConnector(WithConnector):
    """The engine's connector is a MultiConnector: it hands to each of its connectors what the first of them returns."""

    def setUp(self):
        vllm_stub.TransferGroup.connector = object()  # Not this connector.
        self.addCleanup(setattr, vllm_stub.TransferGroup, "connector", None)
        super().setUp()

    # The first request once ended the engine: ValueError: Connector 'KvtierConnector' is not registered.
    def test_is_found_by_the_name_of_its_class_from_the_import_on(self):
        name = KvtierConnector.__name__
        self.assertIs(vllm_stub.KVConnectorFactory.get_connector_class_by_name(name), KvtierConnector)
        again = importlib.util.spec_from_file_location("kvtier.vllm.again", connector_module.__file__)
        again.loader.exec_module(importlib.util.module_from_spec(again))  # A second import is no error.

    # NixlConnector refuses data that is not its own, and the start failed with its own in this connector.
    def test_hands_no_data_to_other_connectors_and_takes_none_of_theirs(self):
        self.assertIsNone(self.worker.get_handshake_metadata())
        self.scheduler.set_xfer_handshake_metadata_pp_aware({(0, 0): vllm_stub.KVConnectorHandshakeMetadata()})
        self.assertEqual(self.clients[-1].registered, [])

    def test_the_spaces_come_with_the_answer_to_the_first_step_and_the_first_request_hits(self):
        request = make_request("a", 200)
        self.assertEqual(self.scheduler.get_num_new_matched_tokens(request, 0), (None, False))
        answer = self.step(Step()).kv_connector_worker_meta
        self.assertEqual({(0, 0): [space.spec for space in self.clients[-1].registered]}, answer.spaces)
        self.put(3)
        self.assertEqual(self.scheduler.get_num_new_matched_tokens(request, 0), (96, True))
        self.assertIsNone(self.step(Step()).kv_connector_worker_meta)  # They are told once.
        # A step that overlapped the first has the same answer.
        self.scheduler.update_connector_output(SimpleNamespace(
            invalid_block_ids=None, finished_recving=None, kv_connector_worker_meta=answer))
        self.assertEqual(len(self.clients[-1].registered), 1)

    def test_the_spaces_of_all_ranks_are_in_the_order_of_the_ranks(self):
        specs = [stand_ins.spec(tp_rank=tensor, tp_size=2, pp_rank=pipeline, pp_size=2)
                 for pipeline in range(2) for tensor in range(2)]
        first, *others = [connector_module.KvtierReport(0, {(spec.pp_rank, spec.tp_rank): [spec]}) for spec in reversed(specs)]
        for other in others:
            first = first.aggregate(other)
        self.scheduler.update_connector_output(SimpleNamespace(
            invalid_block_ids=None, finished_recving=None, kv_connector_worker_meta=first))
        self.assertEqual([space.spec for space in self.clients[-1].registered], specs)


class Start(unittest.TestCase):
    def refuse(self, said, config=None, cache_config=None):
        with self.assertRaisesRegex(ValueError, said):
            KvtierConnector(config or make_config(), vllm_stub.KVConnectorRole.WORKER,
                            kv_cache_config=cache_config or make_cache_config())

    def test_refuses_what_is_not_supported_by_name(self):
        config = make_config()
        config.kv_transfer_config.kv_role = "kv_producer"
        self.refuse("kv_role is 'kv_producer'", config)
        self.refuse("speculative_config.method is 'eagle3'", make_config(method="eagle3"))
        self.refuse("speculative_config.method is 'draft_model'", make_config(method="draft_model"))
        self.refuse("decode_context_parallel_size is 2", make_config(decode_context_parallel_size=2))
        self.refuse("make 32 spaces", make_config(tensor_parallel_size=16, pipeline_parallel_size=2))
        KvtierConnector(make_config(tensor_parallel_size=16, pipeline_parallel_size=2), vllm_stub.KVConnectorRole.WORKER,
                        kv_cache_config=make_cache_config(attention(MLAAttentionSpec)))  # 2 spaces.
        self.refuse(r"kv_cache_groups\[1\] is a MambaSpec", None, make_cache_config(attention(), attention(MambaSpec)))
        self.refuse(r"kv_cache_groups\[1\].block_size is 16", None, make_cache_config(attention(), attention(tokens=16)))
        with mock.patch.object(connector_module, "base", SimpleNamespace(**{
                name: value for name, value in vars(connector_module.base).items() if name != "KVConnectorTransferResults"})):
            self.refuse("kv_cache_groups has 2 groups; must have 1, because this vLLM", None,
                        make_cache_config(attention(), attention(SlidingWindowSpec)))
        self.refuse("enable_sleep_mode is True", make_config(model={"enable_sleep_mode": True}))
        zeroed = make_cache_config()
        zeroed.needs_kv_cache_zeroing = True
        config = make_config()
        config.use_v2_model_runner = True
        self.refuse("use_v2_model_runner is True and the KV cache needs zeroing", config, zeroed)
        KvtierConnector(make_config(method="ngram"), vllm_stub.KVConnectorRole.WORKER, kv_cache_config=make_cache_config())

    def test_refuses_options_that_cannot_be_by_field_and_value(self):
        for extra, said in (({"socket_dri": "/x"}, "has 'socket_dri'; must be one of"),
                            ({"socket_dir": 3}, "socket_dir is 3; must be a str"), ({"socket_dir": ""}, "must not be empty"),
                            ({"peers": 1}, "peers is 1; must be a bool"), ({"max_tokens": -1}, "max_tokens is -1"),
                            ({"max_tokens": True}, "max_tokens is True"), ({"max_wait_s": 61}, "max_wait_s is 61"),
                            ({"recompute_tokens_per_s": -1}, "recompute_tokens_per_s is -1"),
                            ({"lane_threads": 0}, "lane_threads is 0"), ({"preemption_wait_s": 11}, "preemption_wait_s is 11")):
            with self.subTest(said):
                self.refuse(said, make_config(extra=extra))

    def test_refuses_a_secret_that_cannot_be_read(self):
        with self.assertRaisesRegex(ValueError, "tenant_secret_file is '/nowhere'; must be a file that can be read: .*No such file"):
            KvtierConnector(make_config(extra={"tenant_secret_file": "/nowhere"}), vllm_stub.KVConnectorRole.SCHEDULER,
                            kv_cache_config=make_cache_config())

    def test_warns_of_the_policy_that_loses_requests(self):
        for policy, level in (("fail", True), ("recompute", False)):
            with self.subTest(policy), mock.patch.object(kvtier, "Client", lambda *arguments: stand_ins.TableClient()):
                check = self.assertLogs if level else self.assertNoLogs
                with check("vllm.kvtier", "WARNING"):
                    KvtierConnector(make_config(policy), vllm_stub.KVConnectorRole.SCHEDULER,
                                    kv_cache_config=make_cache_config())

    def test_warns_of_keys_that_other_processes_may_not_compute(self):
        config = make_config()
        config.cache_config.prefix_caching_hash_algo = "sha256"
        with mock.patch.object(kvtier, "Client", lambda *arguments: stand_ins.TableClient()), \
                self.assertLogs("vllm.kvtier", "WARNING") as logged:
            KvtierConnector(config, vllm_stub.KVConnectorRole.SCHEDULER, kv_cache_config=make_cache_config())
        self.assertIn("prefix_caching_hash_algo is 'sha256'", logged.output[0])

    def test_says_that_an_agent_is_to_be_started_only_where_none_listens(self):
        for error, said in (("connect: UNAVAILABLE: no agent listens at /run/kvtier/kvtier-fd.sock: No such file", True),
                            ("connect: PERMISSION_DENIED: the agent serves no tenant 'x' with this secret", False)):
            client = stand_ins.TableClient()
            client.connected, client.last_error = False, error
            check = self.assertLogs if said else self.assertNoLogs
            with self.subTest(error), mock.patch.object(kvtier, "Client", lambda *arguments, client=client: client), \
                    check("vllm.kvtier", "WARNING"):
                KvtierConnector(make_config(), vllm_stub.KVConnectorRole.SCHEDULER, kv_cache_config=make_cache_config())

    def test_importing_the_package_needs_neither_vllm_nor_torch(self):
        code = ("import sys, kvtier, kvtier.vllm, kvtier.vllm.scheduler_side, kvtier.vllm.worker_side, kvtier.vllm.space\n"
                "assert not {'vllm', 'torch'} & set(sys.modules), sorted(sys.modules)")
        subprocess.run([sys.executable, "-c", code], check=True)


class Measurement(WithConnector):
    def test_a_step_that_prefills_comes_back_with_its_number_and_others_do_not(self):
        output = self.step(Step().new("a", 0, 200, list(range(1, 8))))
        self.assertEqual(output.kv_connector_worker_meta.step, 1)
        answer = output.kv_connector_worker_meta
        self.assertEqual(answer.aggregate(answer), answer)
        self.assertNotEqual(self.scheduler.get_kv_connector_stats().data["recompute_tokens_per_s"], 4000)
        self.assertIsNone(self.step(Step().cached("a", 200, 1)).kv_connector_worker_meta)


class Statistics(WithConnector):
    def test_are_those_of_a_step_and_can_be_summed(self):
        self.assertIsNone(self.worker.get_kv_connector_stats())
        self.put(3)
        self.start_load("a", 3)
        self.step(Step())
        self.lanes[0].onboards[0].end()
        self.step(Step())
        stats = self.worker.get_kv_connector_stats()
        self.assertEqual(stats.data["loaded_blocks"], 3)
        self.assertEqual(self.scheduler.get_kv_connector_stats().data["offered_tokens"], 96)
        stats.aggregate(KvtierConnector.build_kv_connector_stats({"loaded_blocks": 2, "saved_blocks": 1}))
        self.assertEqual((stats.reduce()["loaded_blocks"], stats.reduce()["saved_blocks"]), (5, 1))
        stats.aggregate(KvtierConnector.build_kv_connector_stats({"recompute_tokens_per_s": 300}))
        stats.aggregate(KvtierConnector.build_kv_connector_stats({"recompute_tokens_per_s": 200}))
        self.assertEqual(stats.reduce()["recompute_tokens_per_s"], 200)  # The last value counts.
        stats.reset()
        self.assertTrue(stats.is_empty())

    def test_are_counters_of_the_engines_metrics(self):
        made = {}

        class Metric:
            def __init__(self, name, documentation, labelnames, multiprocess_mode=""):
                made[name] = self
                self.value = 0

            def labels(self, *values):
                return self

            def inc(self, amount):
                self.value += amount

            def set(self, value):
                self.value = value

        metrics = KvtierConnector.build_prom_metrics(None, {"Counter": Metric, "Gauge": Metric}, ["model_name", "engine"],
                                                     {0: ["m", 0]})
        metrics.observe({"loaded_blocks": 3, "of_another_version": 1, "recompute_tokens_per_s": 4000})
        metrics.observe({"loaded_blocks": 4, "recompute_tokens_per_s": 300}, engine_idx=0)
        self.assertEqual(made["vllm:kvtier_loaded_blocks"].value, 7)
        self.assertEqual(made["vllm:kvtier_recompute_tokens_per_s"].value, 300)


if __name__ == "__main__":
    unittest.main()
