// These functions turn arguments of Python calls into those of the client. An argument that is not
// valid raises a ValueError that names it and its value.
#ifndef KVTIER_CLIENT_PYTHON_ARGUMENTS_H_
#define KVTIER_CLIENT_PYTHON_ARGUMENTS_H_

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "absl/time/time.h"
#include "client/client.h"
#include "client/key_sequence.h"
#include "client/python/named.h"
#include "core/block_key.h"

namespace kvtier::python {

// Arguments that several calls have.
using Keys = Named<"keys", std::vector<pybind11::bytes>>;
using LocalOnly = Named<"local_only", bool>;
using Parent = Named<"parent", std::optional<pybind11::bytes>>;
using Seconds = Named<"timeout_s", std::optional<double>>;  // Absent: the client's default.
using Target = Named<"target", std::string>;
using Ticket = Named<"ticket", pybind11::bytes>;
using WaitSeconds = Named<"timeout_s", double>;

// Returns the time of the argument `name`. ValueError: it is negative, infinite or no number.
absl::Duration DurationFrom(double seconds, const std::string& name);
// Returns the time of an argument `timeout_s`. ValueError as DurationFrom().
std::optional<absl::Duration> TimeoutFrom(const Seconds& seconds);

// Returns one key, of the argument `name`.
EngineKey KeyFrom(const pybind11::bytes& key, const std::string& name);
// Returns the keys of an argument whose name begins with `owner`: "keys[3]", or "a.keys[3]".
std::vector<EngineKey> KeysFrom(const std::vector<pybind11::bytes>& keys,
                                const std::string& owner = "");

// Returns the ticket's id. ValueError: it has not 16 bytes.
TicketId TicketIdFrom(const pybind11::bytes& ticket);

OnboardTarget TargetFrom(const std::string& target);
TicketOptions TicketOptionsFrom(const Seconds& timeout_s, bool local_only, uint32_t redemptions,
                                double lifetime_s);

// Conversation, turn, priority, will_not_return and finish of a kvtier.ReuseHint.
using PyHint = std::tuple<std::optional<pybind11::bytes>, std::optional<uint32_t>,
                          std::optional<uint8_t>, bool, std::optional<std::string>>;
// Space, keys, parent, is_set, max_tokens, no_store, lengths and hint of a kvtier.Sequence.
using PySequence =
    std::tuple<uint32_t, std::vector<pybind11::bytes>, std::optional<pybind11::bytes>, bool,
               std::optional<uint64_t>, bool, std::vector<uint64_t>, std::optional<PyHint>>;
template <>
inline constexpr std::array<const char*, 8> kPartNames<PySequence>{
    "space", "keys", "parent", "is_set", "max_tokens", "no_store", "lengths", "hint"};
using Asked = Named<"sequences", std::vector<PySequence>>;
// Returns the hint; if absent, a hint that says nothing. ValueError names the field behind `owner`.
ReuseHint HintFrom(const std::optional<PyHint>& theirs, const std::string& owner = "");
// Returns the handles of kvtier.Space objects.
std::vector<SpaceHandle> SpacesFrom(const std::vector<uint32_t>& spaces);

// Sequences are those of one call, with their keys. Errors name `sequences[i]` of several.
class Sequences {
 public:
  explicit Sequences(const std::vector<PySequence>& sequences);
  Sequences(const Sequences&) = delete;
  Sequences& operator=(const Sequences&) = delete;

  std::span<const KeySequence> all() const { return sequences_; }

 private:
  std::vector<std::vector<EngineKey>> keys_;
  std::vector<std::vector<uint64_t>> lengths_;
  std::vector<KeySequence> sequences_;  // Spans of `keys_` and `lengths_`.
};

}  // namespace kvtier::python

#endif  // KVTIER_CLIENT_PYTHON_ARGUMENTS_H_
