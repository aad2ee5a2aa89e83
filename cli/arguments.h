// The command line of `kvtier`, parsed: one verb, its words and its options. What is
// unknown, repeated, misplaced or malformed is an error that names it.
#ifndef KVTIER_CLI_ARGUMENTS_H_
#define KVTIER_CLI_ARGUMENTS_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/size_question.h"
#include "cli/tenant_question.h"
#include "cli/verbs.h"
#include "core/block_key.h"
#include "core/tier.h"

namespace kvtier::cli {

inline constexpr const char* kDefaultSocketDir = "/run/kvtier";
inline constexpr const char* kDefaultAgent = "unix:/run/kvtier/kvtier-admin.sock";
inline constexpr absl::Duration kDefaultTimeout = absl::Seconds(2);

enum class Format { kTable, kJson };

// A block as an engine and its tenant name it.
struct EngineName {
  std::string tenant;
  SpaceDigest space;
  EngineKey key;
};

struct Arguments {
  Verb verb = Verb::kHelp;
  std::vector<std::string> agents;         // gRPC addresses, never empty strings.
  std::optional<std::string> coordinator;  // gRPC address.
  Format format = Format::kTable;
  absl::Duration timeout = kDefaultTimeout;  // 1 ms to 60 s, for the whole of one RPC.

  // Block of `lookup`, which has exactly one of the two names, and of `prefix drop`, which has
  // engine_name.
  std::optional<BlockKey> block_key;
  std::optional<EngineName> engine_name;

  // Tier and confirmation of `evict`, which always has both.
  std::optional<Tier> tier;
  // Confirmation, also of `tenant erase`, `tenants drop`, `tenants import` and `prefix drop`.
  bool yes = false;

  // Tenant of `tenant erase`, never empty.
  std::string erased_tenant;

  // Arguments of `pins`.
  std::string pins_tenant;  // Tenant of the pins, never empty for drop; for list, empty means all.
  uint64_t pin = 0;         // Pin that pins drop ends; 0: all of the tenant's.

  // Arguments of `tenants describe`, `tenants set` and `tenants drop`.
  TenantQuestion tenant;

  // Arguments of `tenants import` and `tenants init`.
  std::string import_file;
  uint64_t replaced_store = 0;  // 0: none.

  // Arguments of `gpu resize` and `host resize`.
  uint64_t resize_bytes = 0;  // New size, never 0.
  std::string gpu_device;     // UUID of the GPU; empty: the node's only one.

  // Arguments of `doctor`.
  std::string socket_dir = kDefaultSocketDir;  // The agent's --socket_dir.
  std::vector<std::string> disk_dirs;  // Directories of the disks; empty: those of the agent.
  std::optional<uint32_t> uid;         // User of the worker; nullopt: this process's.

  // Rate of `disk verify`, in bytes a second of each disk; 0: as the agent chooses.
  uint64_t rate = 0;

  // Arguments of `settings get [NAME]` and `settings set NAME=VALUE`.
  std::string setting_name;
  std::optional<std::string> setting_value;  // Present for `set` only.

  SizeQuestion size;

  // Verb whose help is asked for; null: all verbs.
  const VerbEntry* helped = nullptr;
  std::string man_dir;  // Directory that the manual pages are written to.
};

// Parses `words`, the command line without the program's name. Leaves `agents` empty when only a
// coordinator was named; with neither, it has kDefaultAgent. Errors: kInvalidArgument, one line for
// a person.
absl::StatusOr<Arguments> ParseArguments(std::span<const std::string> words);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_ARGUMENTS_H_
