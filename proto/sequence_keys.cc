#include "proto/sequence_keys.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/status_macros.h"
#include "proto/convert.h"

namespace kvtier::convert {
namespace {

bool AreAlikeInSize(std::span<const EngineKey> keys) {
  return std::ranges::all_of(keys, [&](const EngineKey& key) {
    return key.bytes().size() == keys.front().bytes().size();
  });
}

}  // namespace

void SetEngineKeys(std::span<const EngineKey> keys, v1::Sequence* sequence) {
  sequence->clear_key_bytes();
  std::string& bytes = *sequence->mutable_engine_keys();
  bytes.clear();
  if (keys.empty()) return;
  bytes.reserve(keys.size() * keys.front().bytes().size());
  for (const EngineKey& key : keys) bytes.append(key.bytes().data(), key.bytes().size());
  const size_t sizes = AreAlikeInSize(keys) ? 1 : keys.size();
  for (const EngineKey& key : keys.first(sizes)) {
    sequence->add_key_bytes(static_cast<uint32_t>(key.bytes().size()));
  }
}

size_t CountEngineKeys(const v1::Sequence& sequence) {
  if (sequence.key_bytes_size() != 1) return static_cast<size_t>(sequence.key_bytes_size());
  return sequence.engine_keys().size() / std::max(sequence.key_bytes(0), uint32_t{1});
}

absl::StatusOr<std::vector<EngineKey>> EngineKeysFrom(const v1::Sequence& sequence) {
  const size_t count = CountEngineKeys(sequence);
  if (count > kMaxKeysPerRequest) {
    return absl::InvalidArgumentError(
        absl::StrCat("engine_keys has ", count, " entries; must be at most ", kMaxKeysPerRequest));
  }
  const bool alike = sequence.key_bytes_size() == 1;
  absl::string_view left = sequence.engine_keys();
  std::vector<EngineKey> keys;
  keys.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t size = sequence.key_bytes(alike ? 0 : static_cast<int>(i));
    if (size > left.size()) break;
    const absl::string_view key = left.substr(0, size);
    if (!EngineKey::IsSize(size)) {
      return absl::InvalidArgumentError(
          absl::StrCat("engine_keys[", i, "]: ", EngineKey::FromBytes(key).status().message()));
    }
    keys.emplace_back(key);
    left.remove_prefix(size);
  }
  if (keys.size() < count || !left.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "key_bytes: ", sequence.key_bytes_size(), " sizes; must be one for all keys or one for ",
        "each, and add up to the ", sequence.engine_keys().size(), " bytes of engine_keys"));
  }
  return keys;
}

absl::StatusOr<std::optional<EngineKey>> OptionalEngineKeyFrom(const std::string& key,
                                                               const char* field) {
  if (key.empty()) return std::optional<EngineKey>();
  absl::StatusOr<EngineKey> parsed = EngineKey::FromBytes(key);
  if (!parsed.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": ", parsed.status().message()));
  }
  return std::optional<EngineKey>(*std::move(parsed));
}

}  // namespace kvtier::convert
