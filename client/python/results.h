// These functions turn results of the C++ client into those that the Python package takes.
#ifndef KVTIER_CLIENT_PYTHON_RESULTS_H_
#define KVTIER_CLIENT_PYTHON_RESULTS_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/client.h"
#include "client/python/blocks_binding.h"

namespace kvtier::python {

// Returns the numbers of blocks and of local blocks, and the tiers, of each kvtier.Match.
std::vector<pybind11::tuple> MatchesFrom(const std::vector<MatchedSequence>& all);
std::vector<std::unique_ptr<Hit>> HitsFrom(std::vector<OnboardedBlocks> all);
// Returns the place of the sequence, and the Hit.
pybind11::tuple PartFrom(OnboardedPart part);
// Returns the number of blocks and the reason of the miss, or None, of each kvtier.Arrived.
std::vector<pybind11::tuple> PartsEndsFrom(const std::vector<OnboardedInParts>& ends);
// Returns "absent", "gpu", "host", "disk" or "perhaps".
const char* ResidenceName(Residence residence);

// Numbers of deleted and held blocks; None: no agent answered.
using Deleted = std::optional<std::pair<size_t, size_t>>;
Deleted DeletedFrom(const DeletedBlocks& blocks);

// Returns the ticket's bytes, or None, and of each sequence the places of the keys whose blocks are
// held.
pybind11::tuple TicketFrom(const PinTicket& ticket);
// Returns the fields of a kvtier.Limits.
pybind11::dict DictOf(const SpaceLimits& limits);

}  // namespace kvtier::python

#endif  // KVTIER_CLIENT_PYTHON_RESULTS_H_
