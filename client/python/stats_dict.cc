#include "client/python/stats_dict.h"

#include <cstddef>

#include "client/block_source.h"
#include "core/miss_reason.h"

namespace py = pybind11;

namespace kvtier::python {

py::dict DictOf(const ClientStats& stats) {
  py::dict out;
  out["connected"] = stats.connected;
  out["breaker"] = stats.breaker;
  out["last_error"] = stats.last_error;
  out["sessions"] = stats.sessions;
  out["breaker_opened"] = stats.breaker_opened;
  out["calls"] = stats.calls;
  out["calls_failed"] = stats.calls_failed;
  out["calls_refused"] = stats.calls_refused;
  out["calls_skipped"] = stats.calls_skipped;
  out["onboarded_blocks"] = stats.onboarded_blocks;
  out["missed_blocks"] = stats.missed_blocks;
  out["damaged_blocks"] = stats.damaged_blocks;
  out["reserved_blocks"] = stats.reserved_blocks;
  out["committed_blocks"] = stats.committed_blocks;
  out["unwritten_blocks"] = stats.unwritten_blocks;
  out["releases_dropped"] = stats.releases_dropped;
  out["onboarded_bytes"] = stats.onboarded_bytes;
  out["committed_bytes"] = stats.committed_bytes;
  py::dict from;
  for (size_t i = 0; i < kBlockSourceCount; ++i) {
    from[BlockSourceName(static_cast<BlockSource>(i))] = stats.onboarded_from[i];
  }
  out["onboarded_from"] = from;
  py::dict because;
  for (size_t i = 1; i < kMissReasonCount; ++i) {
    because[MissReasonName(static_cast<MissReason>(i))] = stats.missed_because[i];
  }
  out["missed_because"] = because;
  py::dict latencies;
  for (const auto& [name, latency] : stats.latencies) {
    py::dict times;
    times["calls"] = latency.calls;
    times["p50_s"] = absl::ToDoubleSeconds(latency.p50);
    times["p99_s"] = absl::ToDoubleSeconds(latency.p99);
    latencies[name.c_str()] = times;
  }
  out["latencies"] = latencies;
  return out;
}

}  // namespace kvtier::python
