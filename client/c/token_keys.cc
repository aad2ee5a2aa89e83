// Implements keys from tokens, of kvtier.h.
#include "client/token_keys.h"

#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/c/handles.h"
#include "client/c/spec.h"

namespace kvtier::c {
namespace {

constexpr size_t kTokenHashV1 = sizeof(kvtier_token_hash);

absl::StatusOr<absl::string_view> ViewOf(const kvtier_bytes& bytes, absl::string_view name) {
  if (bytes.data == nullptr && bytes.size > 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, ".data is NULL"));
  }
  return absl::string_view(static_cast<const char*>(bytes.data), bytes.size);
}

// Returns the entries [first, last) as one tuple.
absl::StatusOr<VllmExtraKeys> ExtraKeysFrom(const kvtier_extra_key* entries, size_t first,
                                            size_t last, bool in_tuple) {
  VllmExtraKeys keys;
  for (size_t i = first; i < last; ++i) {
    const kvtier_extra_key& entry = entries[i];
    const std::string name = absl::StrCat("extra_keys[", i, "]");
    const auto bytes = ViewOf(entry.bytes, name);
    switch (entry.kind) {
      case KVTIER_EXTRA_TEXT:
      case KVTIER_EXTRA_BYTES:
        if (!bytes.ok()) return bytes.status();
        entry.kind == KVTIER_EXTRA_TEXT ? keys.Text(*bytes) : keys.Bytes(*bytes);
        break;
      case KVTIER_EXTRA_INTEGER:
        keys.Integer(entry.integer);
        break;
      case KVTIER_EXTRA_NONE:
        keys.None();
        break;
      case KVTIER_EXTRA_TUPLE: {
        if (in_tuple) {
          return absl::InvalidArgumentError(
              absl::StrCat(name, " is a tuple in a tuple; must be a value of another kind"));
        }
        const size_t behind = last - i - 1;
        if (entry.integer < 0 || static_cast<uint64_t>(entry.integer) > behind) {
          return absl::InvalidArgumentError(absl::StrCat(name, ".integer is ", entry.integer,
                                                         "; must be 0 to ", behind,
                                                         ", the entries behind it"));
        }
        const size_t end = i + 1 + static_cast<size_t>(entry.integer);
        const auto items = ExtraKeysFrom(entries, i + 1, end, true);
        if (!items.ok()) return items.status();
        keys.Tuple(*items);
        i = end - 1;
        break;
      }
      default:
        return absl::InvalidArgumentError(
            absl::StrCat(name, ".kind is ", entry.kind, "; must be 0 to ", KVTIER_EXTRA_TUPLE));
    }
  }
  return keys;
}

absl::StatusOr<TokenHash> HashFrom(const kvtier_token_hash& given) {
  const auto extra = ViewOf(given.extra, "extra");
  if (!extra.ok()) return extra.status();
  if (given.form == KVTIER_KEYS_PLAIN) {
    if (given.extra_count > 0 || given.seed != nullptr) {
      return absl::InvalidArgumentError(
          "seed and extra_keys are given; must be absent unless form is KVTIER_KEYS_VLLM");
    }
    return TokenHash::Plain(*extra);
  }
  if (given.form != KVTIER_KEYS_VLLM) {
    return absl::InvalidArgumentError(absl::StrCat("form is ", given.form, "; must be 0 or 1"));
  }
  if (!extra->empty()) {
    return absl::InvalidArgumentError(
        "extra is given; must be empty unless form is KVTIER_KEYS_PLAIN");
  }
  if (given.extra_keys == nullptr && given.extra_count > 0) {
    return absl::InvalidArgumentError("extra_keys is NULL");
  }
  const auto keys = ExtraKeysFrom(given.extra_keys, 0, given.extra_count, false);
  if (!keys.ok()) return keys.status();
  return TokenHash::Vllm(*keys, given.seed != nullptr ? given.seed : kVllmDefaultSeed);
}

absl::StatusOr<TokenIds> IdsFrom(const void* tokens, size_t count, size_t token_bytes) {
  if (tokens == nullptr && count > 0) return absl::InvalidArgumentError("tokens is NULL");
  if (token_bytes == sizeof(int32_t)) {
    return std::span<const int32_t>(static_cast<const int32_t*>(tokens), count);
  }
  if (token_bytes == sizeof(int64_t)) {
    return std::span<const int64_t>(static_cast<const int64_t*>(tokens), count);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("token_bytes is ", token_bytes, "; must be 4 or 8"));
}

absl::StatusOr<std::optional<EngineKey>> ParentOf(const kvtier_token_hash& given) {
  const auto bytes = ViewOf(given.parent, "parent");
  if (!bytes.ok()) return bytes.status();
  if (bytes->empty()) return std::optional<EngineKey>();
  const absl::StatusOr<EngineKey> key = EngineKey::FromBytes(*bytes);
  if (key.ok()) return std::optional<EngineKey>(*key);
  return absl::InvalidArgumentError(absl::StrCat("parent: ", key.status().message()));
}

absl::StatusOr<std::vector<EngineKey>> KeysOf(const kvtier_token_hash* theirs, const void* tokens,
                                              size_t count, size_t token_bytes) {
  const auto given = CopyIn(theirs, kTokenHashV1, "hash");
  if (!given.ok()) return given.status();
  const auto hash = HashFrom(*given);
  if (!hash.ok()) return hash.status();
  const auto parent = ParentOf(*given);
  if (!parent.ok()) return parent.status();
  const auto ids = IdsFrom(tokens, count, token_bytes);
  if (!ids.ok()) return ids.status();
  return HashTokens(*hash, given->tokens_per_block, *ids, *parent);
}

}  // namespace
}  // namespace kvtier::c

using kvtier::c::Fail;

extern "C" {

int64_t kvtier_token_keys(const kvtier_token_hash* hash, const void* tokens, size_t count,
                          size_t token_bytes, void* keys, size_t capacity) {
  return kvtier::c::Guarded([&]() -> int64_t {
    const auto made = kvtier::c::KeysOf(hash, tokens, count, token_bytes);
    if (!made.ok()) return Fail(made.status());
    if (made->size() > capacity || (keys == nullptr && !made->empty())) {
      return Fail(KVTIER_INVALID, absl::StrCat("keys has room for ", keys != nullptr ? capacity : 0,
                                               " keys; must have room for ", made->size()));
    }
    char* out = static_cast<char*>(keys);
    for (const kvtier::EngineKey& key : *made) {
      std::memcpy(out, key.bytes().data(), key.bytes().size());
      out += key.bytes().size();
    }
    return static_cast<int64_t>(made->size());
  });
}

}  // extern "C"
