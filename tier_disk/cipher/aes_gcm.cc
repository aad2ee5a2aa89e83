#include "tier_disk/cipher/aes_gcm.h"

#include <openssl/evp.h>

#include <memory>

#include "core/check.h"

namespace kvtier {
namespace {

struct FreeContext {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }  // Wipes it.
};
using Context = std::unique_ptr<EVP_CIPHER_CTX, FreeContext>;

// Returns the algorithm. The library looks it up by name under a lock, so it is looked up once.
const EVP_CIPHER* Aes256Gcm() {
  static const EVP_CIPHER* const cipher = EVP_CIPHER_fetch(nullptr, "AES-256-GCM", nullptr);
  KVT_CHECK(cipher != nullptr);
  return cipher;
}

const uint8_t* Octets(std::span<const std::byte> bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

uint8_t* Octets(std::span<std::byte> bytes) { return reinterpret_cast<uint8_t*>(bytes.data()); }

bool SameOrApart(std::span<const std::byte> in, std::span<const std::byte> out) {
  if (in.size() != out.size()) return false;
  const auto* const a = in.data();
  const auto* const b = out.data();
  return a == b || a + in.size() <= b || b + out.size() <= a;
}

// Makes a context for each call, at about a microsecond. A context kept by a thread would keep a
// tenant's key schedule after the tenant was destroyed.
enum class Direction : int { kOpen = 0, kSeal = 1 };  // Values of the library.

Context Start(Direction direction, const GcmInput& input) {
  Context context(EVP_CIPHER_CTX_new());
  KVT_CHECK(context != nullptr);
  KVT_CHECK(input.associated.size() <= kMaxGcmBytes);
  // GCM's default nonce has 96 bits, so no length is set.
  KVT_CHECK(EVP_CipherInit_ex2(context.get(), Aes256Gcm(), input.key.bytes().data(),
                               input.nonce.bytes.data(), static_cast<int>(direction),
                               nullptr) == 1);
  int taken = 0;
  if (!input.associated.empty()) {
    KVT_CHECK(EVP_CipherUpdate(context.get(), nullptr, &taken, input.associated.data(),
                               static_cast<int>(input.associated.size())) == 1);
  }
  return context;
}

void Update(const Context& context, std::span<const std::byte> in, std::span<std::byte> out) {
  KVT_CHECK(in.size() <= kMaxGcmBytes && SameOrApart(in, out));
  if (in.empty()) return;
  int written = 0;
  KVT_CHECK(EVP_CipherUpdate(context.get(), Octets(out), &written, Octets(in),
                             static_cast<int>(in.size())) == 1);
  KVT_CHECK(static_cast<size_t>(written) == in.size());
}

// Returns whether the library reports success. GCM has no more bytes to output, but the library
// requires a pointer.
bool Finish(const Context& context) {
  std::array<uint8_t, 16> rest;
  int written = 0;
  const bool content = EVP_CipherFinal_ex(context.get(), rest.data(), &written) == 1;
  KVT_CHECK(written == 0);
  return content;
}

}  // namespace

GcmTag SealGcm(const GcmInput& input, std::span<const std::byte> plain, std::span<std::byte> out) {
  const Context context = Start(Direction::kSeal, input);
  Update(context, plain, out);
  KVT_CHECK(Finish(context));
  GcmTag tag;
  KVT_CHECK(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_GET_TAG, sizeof(tag.bytes),
                                tag.bytes.data()) == 1);
  return tag;
}

bool OpenGcm(const GcmInput& input, std::span<const std::byte> sealed, const GcmTag& tag,
             std::span<std::byte> out) {
  const Context context = Start(Direction::kOpen, input);
  Update(context, sealed, out);
  GcmTag expected = tag;  // Copied, as the library takes a pointer to non-const.
  KVT_CHECK(EVP_CIPHER_CTX_ctrl(context.get(), EVP_CTRL_AEAD_SET_TAG, sizeof(expected.bytes),
                                expected.bytes.data()) == 1);
  if (Finish(context)) return true;
  Wipe({Octets(out), out.size()});
  return false;
}

}  // namespace kvtier
