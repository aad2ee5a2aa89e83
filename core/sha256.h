// Sha256 hashes bytes as they come, with OpenSSL's implementation for this processor.
#ifndef KVTIER_CORE_SHA256_H_
#define KVTIER_CORE_SHA256_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"

namespace kvtier {

inline constexpr size_t kSha256Bytes = 32;
using Sha256Digest = std::array<uint8_t, kSha256Bytes>;

// A hash in progress. Thread-compatible. Making one allocates, which costs as much as hashing a
// hundred bytes: code that hashes many short texts keeps one object and calls Restart() or
// CopyFrom().
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(const void* data, size_t size);
  void Update(absl::string_view bytes) { Update(bytes.data(), bytes.size()); }
  // Returns the digest of all that was given. Only Restart(), CopyFrom() and destruction may
  // follow.
  Sha256Digest Finish();
  // Begins a new hash.
  void Restart();
  // Takes over the state of `other`, which does not change.
  void CopyFrom(const Sha256& other);

 private:
  struct FreeContext {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, FreeContext> context_;  // EVP_MD_CTX
};

}  // namespace kvtier

#endif  // KVTIER_CORE_SHA256_H_
