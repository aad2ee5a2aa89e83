#include "client/python/results.h"

#include <pybind11/stl.h>

#include <string>
#include <utility>

#include "core/miss_reason.h"

namespace py = pybind11;

namespace kvtier::python {
namespace {

py::tuple MatchFrom(const MatchedSequence& matched) {
  std::vector<std::optional<std::string>> tiers;
  tiers.reserve(matched.tiers.size());
  for (const std::optional<Tier>& tier : matched.tiers) {
    tiers.push_back(tier ? std::optional<std::string>(TierName(*tier)) : std::nullopt);
  }
  return py::make_tuple(matched.blocks, matched.local_blocks, std::move(tiers));
}

}  // namespace

std::vector<py::tuple> MatchesFrom(const std::vector<MatchedSequence>& all) {
  std::vector<py::tuple> matches;
  matches.reserve(all.size());
  for (const MatchedSequence& matched : all) matches.push_back(MatchFrom(matched));
  return matches;
}

std::vector<std::unique_ptr<Hit>> HitsFrom(std::vector<OnboardedBlocks> all) {
  std::vector<std::unique_ptr<Hit>> hits;
  hits.reserve(all.size());
  for (OnboardedBlocks& blocks : all) {
    hits.push_back(std::make_unique<Hit>(Hit{std::move(blocks)}));
  }
  return hits;
}

py::tuple PartFrom(OnboardedPart part) {
  return py::make_tuple(part.sequence, std::make_unique<Hit>(Hit{std::move(part.blocks)}));
}

std::vector<py::tuple> PartsEndsFrom(const std::vector<OnboardedInParts>& ends) {
  std::vector<py::tuple> all;
  all.reserve(ends.size());
  for (const OnboardedInParts& end : ends) {
    std::optional<std::string> missed;
    if (end.missed != MissReason::kNone) missed = MissReasonName(end.missed);
    all.push_back(py::make_tuple(end.blocks, std::move(missed)));
  }
  return all;
}

const char* ResidenceName(Residence residence) {
  switch (residence) {
    case Residence::kAbsent:
      return "absent";
    case Residence::kGpu:
      return TierName(Tier::kGpu);
    case Residence::kHost:
      return TierName(Tier::kHost);
    case Residence::kDisk:
      return TierName(Tier::kDisk);
    case Residence::kPerhaps:
      break;
  }
  return "perhaps";
}

Deleted DeletedFrom(const DeletedBlocks& blocks) {
  if (!blocks.answered) return std::nullopt;
  return std::pair(blocks.deleted, blocks.held);
}

py::tuple TicketFrom(const PinTicket& ticket) {
  py::object id = py::none();
  if (ticket.id) {
    id = py::bytes(reinterpret_cast<const char*>(ticket.id->data()), ticket.id->size());
  }
  py::list held;
  for (const PinTicket::Sequence& sequence : ticket.sequences) held.append(sequence.key_indices);
  return py::make_tuple(id, held);
}

py::dict DictOf(const SpaceLimits& limits) {
  py::dict out;
  out["usable"] = limits.usable;
  out["why_not"] = limits.why_not;
  out["slab_bytes"] = limits.slab_bytes;
  out["slot_bytes"] = limits.slot_bytes;
  out["host_slots"] = limits.host_slots;
  out["staging_slots"] = limits.staging_slots;
  return out;
}

}  // namespace kvtier::python
