#include "bench/residency_figures.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/block_load.h"
#include "bench/empty_call.h"
#include "bench/figure.h"
#include "bench/plain_space.h"
#include "client/c/kvtier.h"
#include "client/client.h"
#include "core/status_macros.h"

namespace kvtier::bench {
namespace {

constexpr size_t kRun = 1000;     // Number of keys.
constexpr size_t kKeyBytes = 32;  // Same as an engine's SHA-256.
constexpr uint64_t kBlockBytes = 4096;
constexpr int kSamples = 300;
// Looks at one key in a row: with a single look the clock's time would matter.
constexpr int kLooks = 50;

using KeyBytes = std::array<char, kKeyBytes>;

KeyBytes KeyOf(uint64_t number) {
  KeyBytes key{};
  std::memcpy(key.data(), &number, sizeof(number));
  return key;
}

// Ways are one client's functions to look up keys.
struct Ways {
  std::string name;
  // Looks up an absent key; returns false if the answer was wrong.
  std::function<bool()> absent_key;
  std::function<bool()> run;
};

absl::Status PrintFigures(EmptyCall* empty_call, const Ways& ways) {
  std::vector<double> empty;
  std::vector<double> absent;
  std::vector<double> run;
  bool right = true;
  for (int i = 0; i < kSamples && right; ++i) {
    empty.push_back(Seconds([&] { right = empty_call->Send().ok(); }));
    absent.push_back(Seconds([&] {
                       for (int look = 0; look < kLooks && right; ++look) right = ways.absent_key();
                     }) /
                     kLooks);
    if (right) run.push_back(Seconds([&] { right = ways.run(); }));
  }
  if (!right) return absl::UnavailableError(absl::StrCat(ways.name, ": a wrong answer, or none"));
  const double call = Median(empty);
  PrintFigure(absl::StrCat(ways.name, ".absent_key"), 1e6 * Median(absent), "us",
              Median(absent) / call, "empty_grpc_call");
  PrintFigure(absl::StrCat(ways.name, ".run_1000"), 1e6 * Median(run), "us", Median(run) / call,
              "empty_grpc_call");
  return absl::OkStatus();
}

absl::Status InCpp(const std::string& socket_dir, EmptyCall* empty_call) {
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<Client> client,
                       Client::Open({.socket_dir = socket_dir}));
  KVT_ASSIGN_OR_RETURN(const SpaceHandle space,
                       client->RegisterSpace(PlainSpace("residency", kBlockBytes)));
  std::vector<EngineKey> keys;
  for (uint64_t i = 0; i <= kRun; ++i) {
    const KeyBytes key = KeyOf(i);
    keys.push_back(*EngineKey::FromBytes({key.data(), key.size()}));
  }
  const std::span<const EngineKey> present = std::span(keys).first(kRun);
  const std::span<const EngineKey> absent = std::span(keys).last(1);
  KVT_ASSIGN_OR_RETURN(ReservedBlocks reserved, client->Reserve(space, present));
  for (size_t i = 0; i < reserved.size(); ++i) {
    if (!reserved.slot(i).empty()) std::memset(reserved.slot(i).data(), 1, kBlockBytes);
  }
  reserved.Commit();
  return PrintFigures(empty_call,
                      {.name = "node.residency",
                       .absent_key =
                           [&] {
                             Residence said{};
                             return client->Residences(space, absent, {&said, 1}).ok() &&
                                    said == Residence::kAbsent;
                           },
                       .run =
                           [&] {
                             const auto run = client->ResidentRun(space, present);
                             return run.ok() && *run == kRun;
                           }});
}

absl::Status InC(const std::string& socket_dir, EmptyCall* empty_call) {
  const kvtier_options options{.struct_size = sizeof(options), .socket_dir = socket_dir.c_str()};
  kvtier_client* client = nullptr;
  if (kvtier_open(&options, &client) != KVTIER_OK) {
    return absl::UnavailableError(kvtier_last_error());
  }
  const std::unique_ptr<kvtier_client, void (*)(kvtier_client*)> closed(client, &kvtier_close);
  const SpaceSpec spec = PlainSpace("residency", kBlockBytes);
  const kvtier_space_spec named{.struct_size = sizeof(named),
                                .model = spec.model.c_str(),
                                .weights_digest = spec.weights_digest.c_str(),
                                .dtype = spec.dtype.c_str(),
                                .layout = spec.layout.c_str(),
                                .layers = spec.layers,
                                .kv_heads = spec.kv_heads,
                                .head_dim = spec.head_dim,
                                .tokens_per_block = spec.tokens_per_block,
                                .tensor_size = 1,
                                .pipeline_size = 1,
                                .block_bytes = spec.block_bytes};
  kvtier_space space = 0;
  if (kvtier_register_space(client, &named, &space) != KVTIER_OK) {
    return absl::UnavailableError(kvtier_last_error());
  }
  std::vector<KeyBytes> bytes(kRun + 1);
  std::vector<kvtier_bytes> keys(kRun + 1);
  for (size_t i = 0; i <= kRun; ++i) {
    bytes[i] = KeyOf(i);
    keys[i] = {.data = bytes[i].data(), .size = bytes[i].size()};
  }
  return PrintFigures(empty_call,
                      {.name = "node.residency.c",
                       .absent_key =
                           [&] {
                             uint8_t said = 0;
                             return kvtier_residences(client, space, &keys[kRun], 1, &said) ==
                                        KVTIER_OK &&
                                    said == KVTIER_NOT_HERE;
                           },
                       .run =
                           [&] {
                             return kvtier_resident_run(client, space, keys.data(), kRun) ==
                                    static_cast<int64_t>(kRun);
                           }});
}

}  // namespace

absl::Status PrintResidencyFigures(const std::string& socket_dir) {
  KVT_ASSIGN_OR_RETURN(const std::unique_ptr<EmptyCall> empty_call, EmptyCall::Open());
  KVT_RETURN_IF_ERROR(InCpp(socket_dir, empty_call.get()));
  return InC(socket_dir, empty_call.get());
}

}  // namespace kvtier::bench
