#include "core/sha256.h"

#include <openssl/evp.h>

#include "core/check.h"

namespace kvtier {
namespace {

EVP_MD_CTX* ContextOf(void* context) { return static_cast<EVP_MD_CTX*>(context); }

}  // namespace

void Sha256::FreeContext::operator()(void* context) const { EVP_MD_CTX_free(ContextOf(context)); }

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  KVT_CHECK(context_ != nullptr);
  KVT_CHECK(EVP_DigestInit_ex(ContextOf(context_.get()), EVP_sha256(), nullptr) == 1);
}

Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(const void* data, size_t size) {
  KVT_CHECK(EVP_DigestUpdate(ContextOf(context_.get()), data, size) == 1);
}

Sha256Digest Sha256::Finish() {
  Sha256Digest digest;
  unsigned int size = 0;
  KVT_CHECK(EVP_DigestFinal_ex(ContextOf(context_.get()), digest.data(), &size) == 1);
  KVT_CHECK(size == kSha256Bytes);
  return digest;
}

// Does not name the algorithm again, because the library would look it up again.
void Sha256::Restart() {
  KVT_CHECK(EVP_DigestInit_ex(ContextOf(context_.get()), nullptr, nullptr) == 1);
}

void Sha256::CopyFrom(const Sha256& other) {
  KVT_CHECK(EVP_MD_CTX_copy_ex(ContextOf(context_.get()), ContextOf(other.context_.get())) == 1);
}

}  // namespace kvtier
