"""The picture of docs/ARCHITECTURE.md, as tables: who may include and link whom."""

TIERS = ("tier_gpu", "tier_host", "tier_disk")

# Folder -> the folders of ours it may include, itself left out.
LAYERS = {
    "core": (),
    "kernels": ("core",),
    "tier_gpu": ("core", "kernels"),
    "tier_host": ("core",),
    "tier_disk": ("core",),
    "proto": ("core",),
    "agent": ("core", "proto", *TIERS),
    "coordinator": ("core", "proto"),
    "client": ("core", "kernels", "proto", "tier_gpu"),
    "cli": ("core", "proto", "client"),
    "examples": ("core", "proto", "client"),
}
# These folders measure and test everything; no folder above may include them.
ON_TOP = ("bench", "tests")
FOLDERS = (*LAYERS, *ON_TOP)

# Part of a tier, or room of the agent -> the parts of it that it may include. Files of the folder itself may include
# any part; a part may include only SHARED_WORDS of them.
PARTS = {
    "tier_gpu/device": (),
    "tier_gpu/plan": ("tier_gpu/device",),
    "tier_gpu/tables": (),
    "tier_disk/io": (),
    "tier_disk/cipher": (),
    "tier_disk/log": ("tier_disk/io", "tier_disk/cipher"),
    "tier_disk/manifest": ("tier_disk/io", "tier_disk/cipher", "tier_disk/log"),
    "tier_disk/directory": ("tier_disk/io", "tier_disk/cipher", "tier_disk/manifest"),
    "tier_disk/admission": (),
    "agent/index": (),
    "agent/disk": ("agent/index",),
    "agent/gpu": ("agent/index",),
    "agent/peers": ("agent/index",),
    "agent/sessions": ("agent/index", "agent/disk", "agent/gpu"),
    "agent/flows": ("agent/index", "agent/disk", "agent/gpu", "agent/peers", "agent/sessions"),
    "agent/services": ("agent/index", "agent/disk", "agent/gpu", "agent/peers", "agent/sessions", "agent/flows",
                       "agent"),
}
SHARED_WORDS = ("tier_disk/disk_block.h", "agent/agent_stats.h", "agent/block_run.h", "agent/limits.h",
                "agent/tenant_shares.h", "agent/tenants.h")

# Headers that the gRPC generator writes are included as kvtier/v1/NAME.pb.h and belong to proto.
GENERATED = "kvtier/v1/"

# Fences: an include that matches PATTERN is allowed only where a file's path matches PLACES.
# On top of these, tests/ may include anything, and bench/ all but what BENCH_FENCES names.
FENCES = (
    # name, pattern of the include, pattern of the places
    ("CUDA", r"^(cuda|cuda_runtime|cuda_runtime_api|cuda_fp\w+|cuda_bf16|cuda_pipeline|mma|nvml|nvtx\w*)\.h$"
             r"|^(cuda|cub|thrust|cooperative_groups|nvtx3)(/|\.h$)|^device_launch_parameters\.h$",
     r"^(kernels|tier_gpu)/"),
    # nvcc compiles kernels, and they run on machines that have nothing else of ours.
    ("core, but for the format of encodings", r"^core/(?!codec_layout\.h$)", r"^(?!kernels/)"),
    ("the GPU tier beyond its tables", r"^tier_gpu/(?!tables/)",
     r"^(tier_gpu|agent|client/lanes|client/host_lanes|client/device_lanes)/"),
    # The plain client needs no device; a program that wants lanes links them.
    ("the worker's lanes", r"^client/lanes/", r"^client/(lanes|host_lanes|device_lanes)/"),
    ("the lanes of host memory", r"^client/host_lanes/", r"^client/(host_lanes|device_lanes|c|python)/"),
    ("the lanes on a device", r"^client/device_lanes/", r"^client/(device_lanes|c|python)/"),
    # The place of an engine's blocks and rows does not depend on a device.
    ("a device of a worker's lanes",
     r"^tier_gpu/(?!tables/|plan/(geometry|stored_blocks)\.h$|device/(adopted_ranges|block_rows)\.h$)|"
     r"^client/lanes/(?!(kv_tensors|stored_form)\.h$)",
     r"^(tier_gpu|agent|client/lanes|client/device_lanes)/"),
    ("liburing", r"^liburing(\.h$|/)", r"^tier_disk/io/"),
    ("RocksDB", r"^rocksdb/", r"^tier_disk/manifest/|^coordinator/settings_store\."),
    ("the segment log", r"^tier_disk/log/", r"^tier_disk/"),
    ("gRPC", r"^grpc(pp)?/|^grpcpp\.h$|\.grpc\.pb\.h$",
     r"_(service|stream|link|transport|main)\.(h|cc)$|^(client|cli)/|^proto/(connection_counts|convert|link|rpc_door)\.(h|cc)$"),
    ("Protobuf", r"^google/protobuf/|\.pb\.h$", r"^(proto|agent|coordinator|client|cli)/"),
    ("command-line flags", r"^absl/flags/", r"_(main|config)\.(h|cc)$"),
    ("xxHash", r"^xxhash\.h$|^xxh3\.h$", r"^core/"),
    # Keys and names in core; a session proves itself to the descriptor socket; a disk is encrypted.
    ("OpenSSL", r"^openssl/", r"^core/|^proto/session_wire\.|^agent/sessions/descriptor_socket\."
                              r"|^tier_disk/cipher/"),
    ("JSON", r"^nlohmann/", r"^bench/"),
    ("Python", r"^Python\.h$|^pybind11/", r"^client/python/"),
    ("GoogleTest", r"^g(test|mock)/", r"^tests/"),
    ("the sanitizers' interface", r"^sanitizer/", r"^tests/"),
)
# Fences that hold in bench/ too, which is also compiled without CUDA.
BENCH_FENCES = ("CUDA",)
# Third-party headers that have no fence: every folder may include Abseil.
OPEN_ROOTS = ("absl/",)
# Headers that are installed for C programs: included, and guarded, by their name alone.
PUBLIC_HEADERS = {"client/c/kvtier.h": "kvtier.h", "client/c/kvtier_copy.h": "kvtier_copy.h",
                  "client/c/kvtier_log.h": "kvtier_log.h",
                  "client/c/kvtier_lanes.h": "kvtier_lanes.h",
                  "client/c/kvtier_memory.h": "kvtier_memory.h",
                  "client/c/kvtier_put_all.h": "kvtier_put_all.h",
                  "client/c/kvtier_sequences.h": "kvtier_sequences.h",
                  "client/c/kvtier_parts.h": "kvtier_parts.h",
                  "client/c/kvtier_kept.h": "kvtier_kept.h",
                  "client/c/kvtier_tickets.h": "kvtier_tickets.h",
                  "client/c/kvtier_traffic.h": "kvtier_traffic.h"}
# System headers that are not one plain NAME.h or a folder of the C library or the kernel.
SYSTEM_FOLDERS = ("sys/", "linux/", "asm/", "arpa/", "net/", "netinet/", "experimental/", "immintrin")

# Reading the environment is for programs and their configuration.
ENVIRONMENT = r"\b(secure_)?getenv\s*\(|\benviron\b"
ENVIRONMENT_PLACES = r"_(main|config)\.(h|cc)$|^(bench|tests)/"

# Link name -> folders that may link it; absl and threads are free.
LINKS = (
    (r"^PkgConfig::uring$|^uring$", ("tier_disk",)),
    (r"^\$\{KVTIER_ROCKSDB\}$|^RocksDB::|^rocksdb$", ("tier_disk", "coordinator")),
    (r"^PkgConfig::grpcpp$|^gRPC::|^protobuf::", ("proto", "agent", "coordinator", "client", "cli")),
    (r"^CUDA::|^cuda(rt)?(_static)?$", ("kernels", "tier_gpu")),
    (r"^PkgConfig::xxhash$", ("core",)),
    (r"^OpenSSL::", ("core", "proto", "agent", "tier_disk")),
    (r"^pybind11::|^Python", ("client",)),
    (r"^GTest::", ("tests",)),
)
TEST_LABELS = ("unit", "model", "sim", "crash", "integration", "fuzz", "mutants", "timing", "gpu", "threads")

# Folders whose comments keep the rules of words; "" is the root.
PLAIN_FOLDERS = (*FOLDERS, "scripts", "cmake", "deploy", ".ci", "")

# Names that do not say what a thing knows.
BANNED_WORDS = ("manager", "helper", "helpers", "util", "utils", "misc", "common", "impl", "engine",
                "handler", "processor")
FAKE_FILES = r"(^|/)(fake|sim|mock|stub)_"
FAKE_CLASSES = r"^\s*(?:class|struct)\s+((?:Fake|Mock|Stub)[A-Z]\w*)\b(?!\s*;)"
FAKE_HOME = "tests/testing/"
# The simulator's own suite carries its subject's name.
FAKE_EXEMPT = r"^tests/sim/sim_|_test\.cc$"
MAX_LINES = 450
