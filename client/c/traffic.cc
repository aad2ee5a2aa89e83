// Implements kvtier_traffic.h and kvtier_log.h.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/c/handles.h"
#include "client/c/kvtier_log.h"
#include "client/c/kvtier_traffic.h"
#include "client/client_stats.h"
#include "client/logger.h"

namespace kvtier::c {
namespace {

static_assert(KVTIER_SOURCES == kBlockSourceCount);
static_assert(KVTIER_MISS_REASONS == kMissReasonCount);
static_assert(static_cast<int>(LogLevel::kInfo) == KVTIER_LOG_INFO);
static_assert(static_cast<int>(LogLevel::kWarning) == KVTIER_LOG_WARNING);
static_assert(static_cast<int>(LogLevel::kError) == KVTIER_LOG_ERROR);

// Names of the calls, by KVTIER_CALL_*.
constexpr std::array<const char*, KVTIER_CALLS> kCallNames = {"match",   "onboard", "prefetch",
                                                              "reserve", "commit",  "ping"};

int GetTraffic(kvtier_client* client, kvtier_traffic* traffic) {
  if (client == nullptr || traffic == nullptr) {
    return Fail(KVTIER_INVALID, "client or traffic is NULL");
  }
  if (traffic->struct_size < sizeof(kvtier_traffic)) {
    return Fail(KVTIER_INVALID, "traffic.struct_size is too small; must be the size of the struct");
  }
  const ClientStats stats = client->client->Stats();
  kvtier_traffic ours{};
  ours.struct_size = traffic->struct_size;
  ours.onboarded_bytes = stats.onboarded_bytes;
  ours.committed_bytes = stats.committed_bytes;
  std::ranges::copy(stats.onboarded_from, ours.onboarded_from);
  std::ranges::copy(stats.missed_because, ours.missed_because);
  for (size_t i = 0; i < kCallNames.size(); ++i) {
    const auto latency = stats.latencies.find(kCallNames[i]);
    if (latency == stats.latencies.end()) continue;
    ours.latencies[i] = {
        .calls = latency->second.calls,
        .p50_us = static_cast<uint64_t>(absl::ToInt64Microseconds(latency->second.p50)),
        .p99_us = static_cast<uint64_t>(absl::ToInt64Microseconds(latency->second.p99))};
  }
  std::memcpy(traffic, &ours, sizeof(ours));
  return KVTIER_OK;
}

}  // namespace
}  // namespace kvtier::c

extern "C" {

int kvtier_get_traffic(kvtier_client* client, kvtier_traffic* traffic) {
  return kvtier::c::Guarded([&] { return kvtier::c::GetTraffic(client, traffic); });
}

void kvtier_set_logger(kvtier_logger logger, void* context) {
  if (logger == nullptr) {
    kvtier::SetLogger(nullptr);
    return;
  }
  kvtier::SetLogger([logger, context](kvtier::LogLevel level, absl::string_view line) {
    logger(context, static_cast<int>(level), std::string(line).c_str());
  });
}

}  // extern "C"
