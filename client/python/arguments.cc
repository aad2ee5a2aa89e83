#include "client/python/arguments.h"

#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "client/conversation.h"

namespace py = pybind11;

namespace kvtier::python {

namespace {

absl::StatusOr<EngineKey> Parse(const py::bytes& key) {
  char* data = nullptr;
  py::ssize_t size = 0;
  if (PyBytes_AsStringAndSize(key.ptr(), &data, &size) != 0) throw py::error_already_set();
  return EngineKey::FromBytes({data, static_cast<size_t>(size)});
}

[[noreturn]] void Refuse(const std::string& name, const absl::Status& status) {
  throw py::value_error(absl::StrCat(name, ": ", status.message()));
}

FinishReason FinishFrom(const std::string& finish, const std::string& owner) {
  if (finish == "stop") return FinishReason::kStop;
  if (finish == "tool_calls") return FinishReason::kToolCalls;
  if (finish == "length") return FinishReason::kLength;
  if (finish == "cancelled") return FinishReason::kCancelled;
  throw py::value_error(
      absl::StrCat(owner, "finish is \"", finish,
                   "\"; must be \"stop\", \"tool_calls\", \"length\" or \"cancelled\""));
}

}  // namespace

std::string Shown(py::handle value) {
  if (value.is_none() || PyBool_Check(value.ptr()) || PyFloat_Check(value.ptr())) {
    return py::str(value);
  }
  // Text and bytes are not shown.
  if (!PyLong_Check(value.ptr())) return absl::StrCat("of type ", Py_TYPE(value.ptr())->tp_name);
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
  return overflow == 0 ? absl::StrCat(number) : "an int of more than 64 bits";
}

ReuseHint HintFrom(const std::optional<PyHint>& theirs, const std::string& owner) {
  if (!theirs) return {};
  const auto& [conversation, turn, priority, will_not_return, finish] = *theirs;
  ReuseHint hint{.turn = turn, .will_not_return = will_not_return};
  if (conversation) {
    const absl::StatusOr<uint64_t> hashed = ConversationOf(std::string(*conversation));
    if (!hashed.ok()) throw py::value_error(absl::StrCat(owner, hashed.status().message()));
    hint.conversation = *hashed;
  }
  if (priority) hint.priority = *priority;
  if (finish) hint.finish = FinishFrom(*finish, owner);
  return hint;
}

EngineKey KeyFrom(const py::bytes& key, const std::string& name) {
  absl::StatusOr<EngineKey> engine_key = Parse(key);
  if (!engine_key.ok()) Refuse(name, engine_key.status());
  return *std::move(engine_key);
}

absl::Duration DurationFrom(double seconds, const std::string& name) {
  if (!std::isfinite(seconds) || seconds < 0) {
    throw py::value_error(
        absl::StrCat(name, " is ", seconds, "; must be a finite number of seconds, 0 or more"));
  }
  return absl::Seconds(seconds);
}

std::optional<absl::Duration> TimeoutFrom(const Seconds& seconds) {
  if (!seconds.value) return std::nullopt;
  return DurationFrom(*seconds.value, "timeout_s");
}

std::vector<EngineKey> KeysFrom(const std::vector<py::bytes>& keys, const std::string& owner) {
  std::vector<EngineKey> engine_keys;
  engine_keys.reserve(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    absl::StatusOr<EngineKey> key = Parse(keys[i]);
    if (!key.ok()) Refuse(absl::StrCat(owner, "keys[", i, "]"), key.status());
    engine_keys.push_back(*std::move(key));
  }
  return engine_keys;
}

TicketId TicketIdFrom(const pybind11::bytes& ticket) {
  const std::string bytes = ticket;
  TicketId id{};
  if (bytes.size() != id.size()) {
    throw pybind11::value_error(
        absl::StrCat("ticket has ", bytes.size(), " bytes; must be ", id.size()));
  }
  std::copy(bytes.begin(), bytes.end(), id.begin());
  return id;
}

std::vector<SpaceHandle> SpacesFrom(const std::vector<uint32_t>& spaces) {
  std::vector<SpaceHandle> handles;
  handles.reserve(spaces.size());
  for (const uint32_t space : spaces) handles.push_back(SpaceHandle{space});
  return handles;
}

OnboardTarget TargetFrom(const std::string& target) {
  if (target == "host") return OnboardTarget::kHost;
  if (target == "gpu") return OnboardTarget::kGpu;
  throw py::value_error("target is \"" + target + "\"; must be \"host\" or \"gpu\"");
}

TicketOptions TicketOptionsFrom(const Seconds& timeout_s, bool local_only, uint32_t redemptions,
                                double lifetime_s) {
  return {.timeout = TimeoutFrom(timeout_s),
          .local_only = local_only,
          .redemptions = redemptions,
          .lifetime = DurationFrom(lifetime_s, "lifetime_s")};
}

Sequences::Sequences(const std::vector<PySequence>& sequences) {
  keys_.reserve(sequences.size());
  lengths_.reserve(sequences.size());
  for (size_t i = 0; i < sequences.size(); ++i) {
    const auto& [space, keys, parent, is_set, max_tokens, no_store, lengths, hint] = sequences[i];
    const std::string owner =
        sequences.size() == 1 ? std::string() : absl::StrCat("sequences[", i, "].");
    keys_.push_back(KeysFrom(keys, owner));
    KeySequence& sequence = sequences_.emplace_back();
    sequence.space = SpaceHandle{space};
    sequence.keys = keys_.back();
    if (parent) sequence.parent = KeyFrom(*parent, owner + "parent");
    sequence.is_set = is_set;
    sequence.max_tokens = max_tokens;
    sequence.no_store = no_store;
    lengths_.push_back(lengths);
    sequence.lengths = lengths_.back();
    sequence.hint = HintFrom(hint, owner);
  }
}

}  // namespace kvtier::python
