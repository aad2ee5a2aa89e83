#include "client/python/kept_binding.h"

#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "client/client.h"
#include "client/python/arguments.h"
#include "client/python/raise.h"
#include "core/keep_limit.h"

namespace py = pybind11;

namespace kvtier::python {
namespace {

// PyKept has the id, the places of the keys whose blocks are kept of each sequence, the limit and
// the seconds left. None: no agent answered.
using PyKept = std::optional<std::tuple<std::optional<uint64_t>, std::vector<std::vector<size_t>>,
                                        std::optional<std::string>, double>>;
// PyList has the id, blocks, bytes and the seconds left of each prefix; and the prefixes, blocks
// and bytes that are used, and those of the quota. None: no agent answered.
using PyUse = std::tuple<uint64_t, uint64_t, uint64_t>;
using PyList = std::optional<
    std::tuple<std::vector<std::tuple<uint64_t, uint64_t, uint64_t, double>>, PyUse, PyUse>>;
// PyDropped has the numbers of deleted and of held blocks, and whether there are more.
using PyDropped = std::optional<std::tuple<size_t, size_t, bool>>;

PyKept Keep(const KeptCalls& calls, const Asked& asked, Named<"ttl_s", double> ttl_s,
            const Seconds& timeout_s) {
  const Sequences sequences(asked);
  const KeepOptions options{.ttl = DurationFrom(ttl_s, "ttl_s"), .timeout = TimeoutFrom(timeout_s)};
  const KeptPrefix kept = ValueOrRaise(Unlocked(
      calls.open(), [&](OpenClient& open) { return open.client->Keep(sequences.all(), options); }));
  if (!kept.answered) return std::nullopt;
  std::vector<std::vector<size_t>> places;
  for (const KeptPrefix::Sequence& sequence : kept.sequences) {
    places.push_back(sequence.key_indices);
  }
  const std::optional<uint64_t> id = kept.id == 0 ? std::nullopt : std::optional(kept.id);
  std::optional<std::string> limit;
  if (kept.limit != KeepLimit::kNone) limit = KeepLimitName(kept.limit);
  return std::tuple(id, std::move(places), std::move(limit), absl::ToDoubleSeconds(kept.ttl_left));
}

PyUse UseOf(const KeptUse& use) { return {use.prefixes, use.blocks, use.bytes}; }

PyList List(const KeptCalls& calls, const Seconds& timeout_s) {
  const std::optional<absl::Duration> timeout = TimeoutFrom(timeout_s);
  const KeptList list = ValueOrRaise(
      Unlocked(calls.open(), [&](OpenClient& open) { return open.client->ListKept(timeout); }));
  if (!list.answered) return std::nullopt;
  std::vector<std::tuple<uint64_t, uint64_t, uint64_t, double>> prefixes;
  for (const KeptList::Prefix& prefix : list.prefixes) {
    prefixes.emplace_back(prefix.id, prefix.blocks, prefix.bytes,
                          absl::ToDoubleSeconds(prefix.ttl_left));
  }
  return std::tuple(std::move(prefixes), UseOf(list.used), UseOf(list.quota));
}

std::optional<size_t> End(const KeptCalls& calls, Named<"kept_id", uint64_t> id,
                          const Seconds& timeout_s) {
  const std::optional<absl::Duration> timeout = TimeoutFrom(timeout_s);
  return ValueOrRaise(
      Unlocked(calls.open(), [&](OpenClient& open) { return open.client->EndKept(id, timeout); }));
}

PyDropped Drop(const KeptCalls& calls, const Asked& asked, const Seconds& timeout_s) {
  const Sequences sequences(asked);
  const std::optional<absl::Duration> timeout = TimeoutFrom(timeout_s);
  const DeletedBlocks blocks = ValueOrRaise(Unlocked(calls.open(), [&](OpenClient& open) {
    return open.client->DropPrefix(sequences.all(), timeout);
  }));
  if (!blocks.answered) return std::nullopt;
  return std::tuple(blocks.deleted, blocks.held, blocks.more);
}

}  // namespace

void BindKept(py::module_& module) {
  py::class_<KeptCalls>(module, "KeptCalls")
      .def("keep", &Keep)
      .def("list_kept", &List)
      .def("end", &End)
      .def("drop", &Drop);
}

}  // namespace kvtier::python
