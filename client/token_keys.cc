#include "client/token_keys.h"

#include <array>
#include <concepts>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/byte_order.h"

namespace kvtier {
namespace {

constexpr absl::string_view kPlainTag = "kvtier.tokens.v1";

constexpr uint64_t kMaxPlainToken = std::numeric_limits<uint32_t>::max();
constexpr uint64_t kMaxVllmToken = std::numeric_limits<int64_t>::max();

// CBOR's major types, in the upper three bits of an item's first byte.
enum class CborType : uint8_t { kInteger = 0, kNegative = 1, kBytes = 2, kText = 3, kArray = 4 };

constexpr char kCborNull = '\xf6';

template <std::unsigned_integral T>
void AppendBig(T value, std::string* out) {
  std::array<uint8_t, sizeof(T)> bytes;
  StoreBig(value, bytes.data());
  out->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Appends an item's type with its value or length in the fewest bytes, which is CBOR's canonical
// form.
void AppendHead(CborType type, uint64_t value, std::string* out) {
  const auto first = [type](uint64_t low) {
    return static_cast<char>(static_cast<uint64_t>(type) << 5 | low);
  };
  if (value < 24) {
    out->push_back(first(value));
  } else if (value <= std::numeric_limits<uint8_t>::max()) {
    out->push_back(first(24));
    out->push_back(static_cast<char>(value));
  } else if (value <= std::numeric_limits<uint16_t>::max()) {
    out->push_back(first(25));
    AppendBig(static_cast<uint16_t>(value), out);
  } else if (value <= std::numeric_limits<uint32_t>::max()) {
    out->push_back(first(26));
    AppendBig(static_cast<uint32_t>(value), out);
  } else {
    out->push_back(first(27));
    AppendBig(value, out);
  }
}

void AppendString(CborType type, absl::string_view bytes, std::string* out) {
  AppendHead(type, bytes.size(), out);
  out->append(bytes.data(), bytes.size());
}

template <std::unsigned_integral T>
void AppendLittle(T value, std::string* out) {
  std::array<uint8_t, sizeof(T)> bytes;
  StoreLittle(value, bytes.data());
  out->append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

absl::string_view ViewOf(const Sha256Digest& digest) {
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

// Appends the bytes that are hashed before a block's first token.
void AppendBefore(TokenHash::Form form, absl::string_view parent, uint32_t tokens,
                  std::string* out) {
  if (form == TokenHash::Form::kPlain) {
    absl::StrAppend(out, kPlainTag, parent);
    AppendLittle(tokens, out);
    return;
  }
  AppendHead(CborType::kArray, 3, out);
  AppendString(CborType::kBytes, parent, out);
  AppendHead(CborType::kArray, tokens, out);
}

void AppendToken(TokenHash::Form form, uint64_t token, std::string* out) {
  if (form == TokenHash::Form::kPlain) return AppendLittle(static_cast<uint32_t>(token), out);
  AppendHead(CborType::kInteger, token, out);
}

uint64_t MaxTokenOf(TokenHash::Form form) {
  return form == TokenHash::Form::kPlain ? kMaxPlainToken : kMaxVllmToken;
}

// Returns the keys of the full blocks. REQUIRES: `hashes` has one entry, or one for each of them.
template <typename T>
absl::StatusOr<std::vector<EngineKey>> KeysOf(std::span<const TokenHash> hashes,
                                              uint32_t tokens_per_block, std::span<const T> tokens,
                                              absl::string_view parent) {
  const size_t blocks = tokens.size() / tokens_per_block;
  std::vector<EngineKey> keys;
  keys.reserve(blocks);
  Sha256 sha;
  std::string hashed;  // Bytes to hash for the current block.
  for (size_t block = 0; block < blocks; ++block) {
    const TokenHash& hash = hashes.size() == 1 ? hashes.front() : hashes[block];
    const uint64_t max_token = MaxTokenOf(hash.form());
    hashed.clear();
    AppendBefore(hash.form(), keys.empty() ? parent : keys.back().bytes(), tokens_per_block,
                 &hashed);
    for (size_t i = block * tokens_per_block; i < (block + 1) * tokens_per_block; ++i) {
      // A negative id wraps to more than any id may be.
      const auto token = static_cast<uint64_t>(tokens[i]);
      if (token > max_token) {
        return absl::InvalidArgumentError(
            absl::StrCat("tokens[", i, "] is ", tokens[i], "; must be 0 to ", max_token));
      }
      AppendToken(hash.form(), token, &hashed);
    }
    hashed += hash.after();
    sha.Restart();
    sha.Update(hashed);
    keys.push_back(*EngineKey::FromBytes(ViewOf(sha.Finish())));
  }
  return keys;
}

Sha256Digest DigestOf(absl::string_view bytes) {
  Sha256 sha;
  sha.Update(bytes);
  return sha.Finish();
}

}  // namespace

VllmExtraKeys& VllmExtraKeys::Text(absl::string_view utf8) {
  ++count_;
  AppendString(CborType::kText, utf8, &items_);
  return *this;
}

VllmExtraKeys& VllmExtraKeys::Bytes(absl::string_view bytes) {
  ++count_;
  AppendString(CborType::kBytes, bytes, &items_);
  return *this;
}

VllmExtraKeys& VllmExtraKeys::Integer(int64_t value) {
  ++count_;
  if (value >= 0) {
    AppendHead(CborType::kInteger, static_cast<uint64_t>(value), &items_);
  } else {
    AppendHead(CborType::kNegative, static_cast<uint64_t>(-1 - value), &items_);
  }
  return *this;
}

VllmExtraKeys& VllmExtraKeys::None() {
  ++count_;
  items_.push_back(kCborNull);
  return *this;
}

VllmExtraKeys& VllmExtraKeys::Tuple(const VllmExtraKeys& items) {
  ++count_;
  items_ += items.Encoded();
  return *this;
}

std::string VllmExtraKeys::Encoded() const {
  std::string encoded;
  AppendHead(CborType::kArray, count_, &encoded);
  return encoded + items_;
}

TokenHash::TokenHash(Form form, const Sha256Digest& root, std::string after)
    : form_(form), root_(root), after_(std::move(after)) {}

TokenHash TokenHash::Plain(absl::string_view extra) {
  return {Form::kPlain, Sha256Digest{}, std::string(extra)};
}

TokenHash TokenHash::Vllm(const VllmExtraKeys& extra_keys, absl::string_view seed) {
  std::string seed_item;
  AppendString(CborType::kText, seed, &seed_item);
  return {Form::kVllm, DigestOf(seed_item),
          extra_keys.empty() ? std::string(1, kCborNull) : extra_keys.Encoded()};
}

absl::StatusOr<std::vector<EngineKey>> HashTokens(std::span<const TokenHash> hashes,
                                                  uint32_t tokens_per_block, TokenIds tokens,
                                                  const std::optional<EngineKey>& parent) {
  if (tokens_per_block == 0) {
    return absl::InvalidArgumentError("tokens_per_block is 0; must be 1 or more");
  }
  if (parent && parent->bytes().size() != kSha256Bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("parent of ", parent->bytes().size(), " bytes; must be ", kSha256Bytes));
  }
  const size_t blocks =
      std::visit([](auto ids) { return ids.size(); }, tokens) / size_t{tokens_per_block};
  if (hashes.size() != 1 && hashes.size() != blocks) {
    return absl::InvalidArgumentError(absl::StrCat(hashes.size(), " hashes for ", blocks,
                                                   " full blocks; must be one, or one each"));
  }
  if (blocks == 0) return std::vector<EngineKey>();
  const absl::string_view before = parent ? parent->bytes() : ViewOf(hashes.front().root());
  return std::visit([&](auto ids) { return KeysOf(hashes, tokens_per_block, ids, before); },
                    tokens);
}

}  // namespace kvtier
