"""Each rule catches the violation planted for it, and leaves its lawful neighbour alone."""

import unittest

import include_rules
import link_rules
import name_rules
import picture
import tree


def includes(path, *names):
    """Returns a tree of one file with these includes, and the files that they name."""
    files = {name: "" for name in names if tree.folder_of(name) in picture.FOLDERS}
    return files | {path: "".join(f'#include "{name}"\n' for name in names)}


def guarded(name, body=""):
    return f"// A header.\n#ifndef {name}\n#define {name}\n{body}\n#endif  // {name}\n"


# rule, a tree that breaks it, a part of the complaint
PLANTED = (
    (include_rules.layers, includes("core/space.h", "proto/convert.h"), "core may not include proto"),
    (include_rules.layers, includes("core/space.h", "kvtier/v1/block.pb.h"), "may not include proto"),
    (include_rules.layers, includes("kernels/copy.cu", "tier_gpu/tables/slot_table.h"),
     "kernels may not include tier_gpu"),
    (include_rules.layers, includes("core/space_codec.cc", "kernels/codec.h"),
     "core may not include kernels"),
    (include_rules.layers, includes("tier_host/arena.cc", "tier_disk/io/disk.h"), "tier_disk"),
    (include_rules.layers, includes("tier_disk/io/disk.h", "tier_gpu/device/device.h"), "tier_gpu"),
    (include_rules.layers, includes("tier_disk/io/disk.h", "kernels/copy.h"), "kernels"),
    (include_rules.layers, includes("tier_disk/io/disk.h", "kvtier/v1/peer.pb.h"), "proto"),
    (include_rules.layers, includes("proto/convert.cc", "tier_host/arena.h"), "tier_host"),
    (include_rules.layers, includes("agent/flows/put.cc", "coordinator/locate.h"), "coordinator"),
    (include_rules.layers, includes("agent/flows/put.cc", "client/client.h"), "client"),
    (include_rules.layers, includes("agent/gpu/gpu_load.cc", "kernels/copy.h"), "kernels"),
    (include_rules.layers, includes("coordinator/locate.cc", "agent/flows/fetch.h"), "agent"),
    (include_rules.layers, includes("coordinator/locate.cc", "tier_disk/manifest/manifest.h"), "tier_disk"),
    (include_rules.layers, includes("client/client.cc", "agent/flows/put.h"), "agent"),
    (include_rules.layers, includes("client/client.cc", "tier_host/arena.h"), "tier_host"),
    (include_rules.layers, includes("cli/status.cc", "coordinator/locate.h"), "coordinator"),
    (include_rules.layers, includes("examples/worker.cc", "tier_host/arena.h"), "tier_host"),
    (include_rules.layers, includes("core/space.cc", "tests/testing/blocks.h"), "tests"),
    (include_rules.layers, includes("agent/flows/put.cc", "bench/timer.h"), "bench"),
    (include_rules.parts, includes("tier_disk/io/disk_io.h", "tier_disk/log/record.h"), "tier_disk/log"),
    (include_rules.parts, includes("tier_disk/io/disk_io.h", "tier_disk/disk_tier.h"), "disk_tier"),
    (include_rules.parts, includes("tier_disk/manifest/recovery.cc", "tier_disk/directory/open_disk.h"),
     "tier_disk/directory"),
    (include_rules.parts, includes("agent/index/evict.h", "agent/gpu/node_gpus.h"), "agent/gpu"),
    (include_rules.parts, includes("agent/gpu/gpu_tier.h", "agent/sessions/leases.h"), "agent/sessions"),
    (include_rules.fences, includes("agent/disk/offload.cc", "tier_disk/log/record.h"), "segment log"),
    (include_rules.fences, {"agent/flows/put.cc": "#include <cuda_runtime.h>\n"}, "CUDA"),
    (include_rules.fences, {"tier_host/arena.cc": "#include <cub/cub.cuh>\n"}, "CUDA"),
    (include_rules.fences, {"bench/device_kv.cc": "#include <cuda_runtime_api.h>\n"}, "CUDA"),
    (include_rules.fences, {"tier_host/arena.cc": "#include <liburing.h>\n"}, "liburing"),
    (include_rules.fences, includes("kernels/copy.cu", "core/space.h"), "core, but for"),
    (include_rules.fences, includes("agent/flows/put.cc", "rocksdb/db.h"), "RocksDB"),
    (include_rules.fences, includes("coordinator/locate.cc", "rocksdb/db.h"), "RocksDB"),
    (include_rules.fences, includes("agent/flows/put.cc", "grpcpp/grpcpp.h"), "gRPC"),
    (include_rules.fences, includes("agent/flows/put.cc", "kvtier/v1/peer.grpc.pb.h"), "gRPC"),
    (include_rules.fences, includes("proto/session_wire.cc", "grpcpp/grpcpp.h"), "gRPC"),
    (include_rules.fences, includes("core/report.h", "google/protobuf/message.h"), "Protobuf"),
    (include_rules.fences, includes("agent/agent.cc", "absl/flags/flag.h"), "flags"),
    (include_rules.fences, {"tier_disk/log/record.cc": "#include <xxhash.h>\n"}, "xxHash"),
    (include_rules.fences, {"agent/tenants.cc": "#include <openssl/evp.h>\n"}, "OpenSSL"),
    (include_rules.fences, {"core/task.cc": "#include <sanitizer/asan_interface.h>\n"}, "sanitizers"),
    (include_rules.fences, {"agent/flows/put.cc": "#include <nlohmann/json.hpp>\n"}, "JSON"),
    (include_rules.fences, {"client/client.cc": "#include <Python.h>\n"}, "Python"),
    (include_rules.fences, includes("client/client.cc", "tier_gpu/gpu_pool.h"),
     "the GPU tier beyond its tables"),
    (include_rules.fences, includes("client/paged_kv.cc", "tier_gpu/device/device.h"),
     "the GPU tier beyond its tables"),
    (include_rules.fences, includes("client/client.cc", "client/lanes/worker_lanes.h"),
     "the worker's lanes"),
    (include_rules.fences, includes("client/client.cc", "client/host_lanes/host_lanes.h"),
     "the lanes of host memory"),
    (include_rules.fences, includes("client/client.cc", "client/device_lanes/device_lanes.h"),
     "the lanes on a device"),
    (include_rules.fences, includes("client/host_lanes/host_lanes.cc", "tier_gpu/device/device.h"),
     "a device of a worker's lanes"),
    (include_rules.fences, includes("client/host_lanes/host_lanes.cc", "client/lanes/laid_out.h"),
     "a device of a worker's lanes"),
    (include_rules.fences, {"client/lanes/worker_pool.cc": "#include <cuda_runtime.h>\n"}, "CUDA"),
    (include_rules.fences, includes("core/space.h", "gtest/gtest_prod.h"), "GoogleTest"),
    (include_rules.known, {"core/a.h": '#include "core/gone.h"\n'}, "no such file"),
    (include_rules.known, {"core/a.h": '#include "space.h"\n'}, "neither a path from the root"),
    (include_rules.known, {"tests/core/a.cc": "#include <boost/asio.hpp>\n"}, "no table"),
    (include_rules.environment, {"agent/flows/put.cc": 'auto x = std::getenv("HOME");\n'}, "environment"),
    (name_rules.banned_names, {"core/cache_manager.h": ""}, "cache_manager"),
    (name_rules.banned_names, {"core/utils/text.h": ""}, "utils"),
    (name_rules.banned_names, {"proto/kvtier/v2/common.proto": ""}, "common"),
    (name_rules.banned_names, {"agent/flows/put.h": "class PutHandler {\n"}, "PutHandler"),
    (name_rules.fakes, {"tests/agent/fake_disk.h": ""}, "tests/testing"),
    (name_rules.fakes, {"tier_disk/sim_disk.cc": ""}, "tests/testing"),
    (name_rules.fakes, {"tests/sim/fake_disk.cc": ""}, "tests/testing"),
    (name_rules.fakes, {"tests/agent/put_test.cc": "class FakeLink : public Link {\n"}, "FakeLink"),
    (name_rules.lengths, {"core/a.cc": "\n" * (picture.MAX_LINES + 1)}, "lines"),
    (name_rules.guards, {"core/a.h": guarded("KVTIER_A_H_")}, "KVTIER_CORE_A_H_"),
    (name_rules.guards, {"core/a.h": "#pragma once\n"}, "KVTIER_CORE_A_H_"),
    (name_rules.guards, {"core/a.h": "#ifndef KVTIER_CORE_A_H_\n#define KVTIER_CORE_A_H_\n#endif\n"},
     "KVTIER_CORE_A_H_"),
    (name_rules.one_definition,
     {"client/a.h": "namespace kvtier {\n\nstruct Completion {\n  int tag;\n};\n}\n",
      "tier_gpu/b.cc": "namespace kvtier {\nclass Completion final : public Base {\n};\n}\n"},
     "kvtier::Completion is defined in client/a.h"),
    (link_rules.links, {"core/CMakeLists.txt": "kvtier_library(kvtier_core SOURCES a.cc LINK kvtier_p)",
                        "proto/CMakeLists.txt": "kvtier_library(kvtier_p SOURCES a.cc)"},
     "core may not link proto"),
    (link_rules.links, {"agent/CMakeLists.txt": "kvtier_library(a SOURCES a.cc LINK kvtier_gone)"},
     "no such target"),
    (link_rules.links, {"tier_host/CMakeLists.txt": "kvtier_library(h SOURCES a.cc)\n"
                                                    "target_link_libraries(h PUBLIC PkgConfig::uring)"},
     "PkgConfig::uring"),
    (link_rules.links, {"core/CMakeLists.txt": "kvtier_library(c SOURCES a.cc LINK PkgConfig::grpcpp)"},
     "PkgConfig::grpcpp"),
    (link_rules.links, {"agent/CMakeLists.txt": "kvtier_program(kvtier-agent SOURCES agent_main.cc)",
                        "tests/agent/CMakeLists.txt": "kvtier_test(t SOURCES t.cc LINK kvtier-agent)"},
     "a program is linked"),
    (link_rules.labels, {"tests/core/CMakeLists.txt": "kvtier_test(t SOURCES t.cc LINK c)"}, "LABELS"),
    (link_rules.labels, {"tests/core/CMakeLists.txt": "kvtier_test(t SOURCES t.cc LABELS slow)"}, "slow"),
    (link_rules.sources, {"core/CMakeLists.txt": "kvtier_library(c SOURCES a.cc)", "core/b.cc": ""},
     "no CMakeLists.txt names it"),
    (link_rules.sources, {"core/CMakeLists.txt": "file(GLOB all *.cc)"}, "globbed"),
)

# rule, a tree that keeps it
LAWFUL = (
    (include_rules.layers, includes("tier_gpu/gpu_pool.cc", "kernels/copy.h", "core/tier.h")),
    (include_rules.layers, includes("kernels/codec.h", "core/codec_layout.h")),
    (include_rules.fences, includes("kernels/codec.h", "core/codec_layout.h")),
    (include_rules.layers, includes("agent/flows/put.cc", "core/task.h", "tier_disk/disk_tier.h",
                                    "kvtier/v1/worker.pb.h", "agent/flows/match.h")),
    (include_rules.layers, includes("cli/status.cc", "client/client.h", "proto/convert.h")),
    (include_rules.layers, includes("tests/sim/sim_test.cc", "agent/agent.h", "coordinator/locate.h")),
    (include_rules.layers, {"core/a.h": '// #include "agent/flows/put.h"\n/*\n#include "agent/flows/put.h"\n*/\n'}),
    (include_rules.parts, includes("tier_disk/log/record.cc", "tier_disk/io/disk.h",
                                   "tier_disk/disk_block.h", "core/checksum.h")),
    (include_rules.parts, includes("tier_disk/disk_put.cc", "tier_disk/log/record.h")),
    (include_rules.fences, includes("tier_disk/manifest/manifest.cc", "rocksdb/db.h")),
    (include_rules.fences, includes("coordinator/settings_store.cc", "rocksdb/db.h")),
    (include_rules.fences, includes("client/lanes/worker_pool.cc", "tier_gpu/device/device.h",
                                    "tier_gpu/plan/block_plan.h", "client/lanes/lane_job.h")),
    (include_rules.fences, includes("client/host_lanes/host_tensors.h", "client/lanes/kv_tensors.h",
                                    "tier_gpu/plan/geometry.h")),
    (include_rules.fences, includes("agent/services/peer_service.h", "kvtier/v1/peer.grpc.pb.h")),
    (include_rules.fences, {"kernels/codec.cu": "#include <cuda_runtime.h>\n#include <cuda_bf16.h>\n",
                            "tests/testing/fake_cuda_gpu.h": "#include <cuda.h>\n"}),
    (include_rules.fences, includes("bench/bench_node.cc", "grpcpp/grpcpp.h", "absl/flags/flag.h")),
    (include_rules.fences, includes("agent/agent_config.cc", "absl/flags/flag.h")),
    (include_rules.known, {"core/a.h": "#include <sys/mman.h>\n#include <vector>\n#include <xxhash.h>\n"}),
    (include_rules.environment, {"agent/agent_main.cc": 'getenv("HOME");\n',
                                 "agent/flows/put.cc": '// getenv("HOME")\nlog("getenv(x)");\n'}),
    (name_rules.banned_names, {"core/commons_key.h": "class EngineKey {\nclass FileHandler;\n"}),
    (name_rules.fakes, {"tests/testing/fake_disk.h": "class FakeDisk {", "tests/sim/sim_node.cc": ""}),
    (name_rules.lengths, {"core/a.cc": "\n" * picture.MAX_LINES}),
    (name_rules.guards, {"core/a.h": guarded("KVTIER_CORE_A_H_", "#define X 1\n")}),
    (name_rules.guards, {"client/c/kvtier.h": "#ifndef KVTIER_H_\n#define KVTIER_H_\n"
                                              "#endif  /* KVTIER_H_ */\n"}),
    (name_rules.one_definition,
     {"client/a.h": "namespace kvtier {\nstruct Ticket;\nstruct Ticket {\n};\n}\n",
      "agent/b.cc": "namespace kvtier {\nnamespace {\nstruct Ticket {\n};\n}  // namespace\n}\n",
      "bench/c.h": "namespace kvtier::bench {\nstruct Ticket {\n};\nstruct Ticket::Part {\n};\n}\n"}),
    (link_rules.links, {"core/CMakeLists.txt": "kvtier_library(kvtier_core SOURCES a.cc LINK absl::time)",
                        "tests/CMakeLists.txt": "kvtier_test(t SOURCES t.cc LINK kvtier_core LABELS unit)"}),
    (link_rules.labels, {"tests/core/CMakeLists.txt": "kvtier_test(t SOURCES t.cc LABELS unit timing)"}),
    (link_rules.sources, {"core/CMakeLists.txt": "foreach(n a b)\nkvtier_test(${n} SOURCES ${n}_test.cc)",
                          "core/a_test.cc": "", "core/x/CMakeLists.txt": "add_x(b.cc ../../cli/c.cc)",
                          "core/x/b.cc": "", "cli/c.cc": ""}),
)


class Rules(unittest.TestCase):
    def test_each_planted_violation_is_caught(self):
        for rule, files, complaint in PLANTED:
            with self.subTest(rule.__name__, complaint=complaint, files=sorted(files)):
                found = "\n".join(rule(files))
                self.assertIn(complaint, found)
                self.assertRegex(found, r"^\S+:\d+: ")

    def test_what_is_lawful_is_left_alone(self):
        for rule, files in LAWFUL:
            with self.subTest(rule.__name__, files=sorted(files)):
                self.assertEqual(list(rule(files)), [])

    def test_every_rule_has_a_violation_planted(self):
        rules = {*include_rules.RULES, *name_rules.RULES, *link_rules.RULES}
        self.assertEqual({rule for rule, _, _ in PLANTED}, rules)
        self.assertEqual({rule for rule, _ in LAWFUL}, rules)

    def test_every_fence_has_a_violation_planted(self):
        caught = [message for rule, files, _ in PLANTED if rule is include_rules.fences
                  for message in rule(files)]
        for name, _, _ in picture.FENCES:
            self.assertTrue(any(name in message for message in caught), name)

    def test_a_complaint_names_the_line(self):
        self.assertEqual(list(include_rules.layers({"core/a.h": '\n\n#include "agent/flows/put.h"\n'})),
                         ["core/a.h:3: core may not include agent (agent/flows/put.h)"])


if __name__ == "__main__":
    unittest.main()
