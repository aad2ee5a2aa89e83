// Implements the client itself, its spaces and its state, of kvtier.h.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "client/c/handles.h"
#include "client/c/spec.h"
#include "client/device_lanes/lane_device.h"

namespace kvtier::c {
namespace {

// Sizes of version 1 of each struct: the least that a caller passes.
constexpr size_t kOptionsV1 = offsetof(kvtier_options, group);
constexpr size_t kStatsV1 = sizeof(kvtier_stats);

int Open(const kvtier_options* theirs, kvtier_client** client) {
  if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
  *client = nullptr;
  const auto given = CopyIn(theirs, kOptionsV1, "options");
  if (!given.ok()) return Fail(given.status());
  if (given->tenant_secret.data == nullptr && given->tenant_secret.size > 0) {
    return Fail(KVTIER_INVALID, "options.tenant_secret.data is NULL");
  }
  ClientOptions options;
  options.socket_dir = TextOr(given->socket_dir, "");
  options.tenant = TextOr(given->tenant, "default");
  options.group = TextOr(given->group, "");
  if (given->tenant_secret.size > 0) {
    options.tenant_secret.assign(static_cast<const char*>(given->tenant_secret.data),
                                 given->tenant_secret.size);
  }
  if (given->default_timeout_ms > 0) {
    options.default_timeout = absl::Milliseconds(given->default_timeout_ms);
  }
  if (given->connect_timeout_ms > 0) {
    options.connect_timeout = absl::Milliseconds(given->connect_timeout_ms);
  }
  absl::StatusOr<std::unique_ptr<Client>> opened = Client::Open(options);
  if (!opened.ok()) return Fail(opened.status());
  auto handle = std::make_unique<kvtier_client>();
  handle->client = *std::move(opened);
  handle->devices = std::make_shared<LaneDevices>();
  *client = handle.release();
  return KVTIER_OK;
}

int RegisterSpace(kvtier_client* client, const kvtier_space_spec* theirs, kvtier_space* space) {
  if (client == nullptr || space == nullptr) return Fail(KVTIER_INVALID, "client or space is NULL");
  const absl::StatusOr<SpaceSpec> spec = SpecFrom(theirs);
  if (!spec.ok()) return Fail(spec.status());
  const absl::StatusOr<SpaceHandle> handle = client->client->RegisterSpace(*spec);
  if (!handle.ok()) return Fail(handle.status());
  *space = static_cast<kvtier_space>(*handle);
  return KVTIER_OK;
}

int GetStats(kvtier_client* client, kvtier_stats* stats) {
  if (client == nullptr || stats == nullptr) return Fail(KVTIER_INVALID, "client or stats is NULL");
  if (stats->struct_size < kStatsV1) {
    return Fail(KVTIER_INVALID, "stats.struct_size is too small; must be the size of the struct");
  }
  const ClientStats now = client->client->Stats();
  const kvtier_stats ours{.struct_size = stats->struct_size,
                          .connected = now.connected ? 1U : 0U,
                          .breaker = now.breaker == "open"        ? 1U
                                     : now.breaker == "half-open" ? 2U
                                                                  : 0U,
                          .sessions = now.sessions,
                          .calls = now.calls,
                          .calls_failed = now.calls_failed,
                          .calls_skipped = now.calls_skipped,
                          .onboarded_blocks = now.onboarded_blocks,
                          .missed_blocks = now.missed_blocks,
                          .committed_blocks = now.committed_blocks,
                          .unwritten_blocks = now.unwritten_blocks,
                          .damaged_blocks = now.damaged_blocks};
  std::memcpy(stats, &ours, std::min(stats->struct_size, sizeof(ours)));
  return KVTIER_OK;
}

}  // namespace
}  // namespace kvtier::c

using kvtier::c::Fail;
using kvtier::c::Guarded;

extern "C" {

uint32_t kvtier_abi_version(void) { return KVTIER_ABI_VERSION; }

int kvtier_open(const kvtier_options* options, kvtier_client** client) {
  return Guarded([&] { return kvtier::c::Open(options, client); });
}

void kvtier_close(kvtier_client* client) {
  if (client == nullptr) return;
  client->client.reset();  // Joins the threads: afterwards nothing is pushed.
  delete client;
}

int kvtier_connected(kvtier_client* client) {
  return client != nullptr && client->client->connected() ? 1 : 0;
}

int kvtier_ping(kvtier_client* client, int32_t timeout_ms) {
  return Guarded([&]() -> int {
    if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const auto timeout = kvtier::c::TimeoutFrom(timeout_ms);
    if (!timeout.ok()) return Fail(timeout.status());
    const absl::Status status = client->client->Ping(timeout->value_or(absl::Seconds(2)));
    if (status.code() == absl::StatusCode::kInvalidArgument) return Fail(status);
    return status.ok() ? static_cast<int>(KVTIER_OK)
                       : Fail(KVTIER_ABSENT, std::string(status.message()));
  });
}

size_t kvtier_agent_error(kvtier_client* client, char* text, size_t size) {
  return kvtier::c::CopyText(
      [client] { return client == nullptr ? "" : client->client->Stats().last_error; }, text, size);
}

int kvtier_get_stats(kvtier_client* client, kvtier_stats* stats) {
  return Guarded([&] { return kvtier::c::GetStats(client, stats); });
}

int kvtier_register_space(kvtier_client* client, const kvtier_space_spec* spec,
                          kvtier_space* space) {
  return Guarded([&] { return kvtier::c::RegisterSpace(client, spec, space); });
}

int kvtier_unregister_space(kvtier_client* client, kvtier_space space) {
  return Guarded([&]() -> int {
    if (client == nullptr) return Fail(KVTIER_INVALID, "client is NULL");
    const absl::Status status = client->client->UnregisterSpace(kvtier::SpaceHandle{space});
    return status.ok() ? KVTIER_OK : Fail(status);
  });
}

}  // extern "C"
