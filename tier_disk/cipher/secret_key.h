// SecretKey is 256 bits that must stay secret: its destructor wipes it, and it is never logged and
// never compared with ==. This header also wipes bytes and draws random bytes.
#ifndef KVTIER_TIER_DISK_CIPHER_SECRET_KEY_H_
#define KVTIER_TIER_DISK_CIPHER_SECRET_KEY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace kvtier {

// Overwrites with zeroes in a way that no compiler removes.
void Wipe(std::span<uint8_t> bytes);

// Fills with bytes of the operating system's generator, fit for keys. Aborts if there is none: to
// continue with guessable keys would be worse. Any thread.
void FillRandom(std::span<uint8_t> bytes);

// SecretKey is a value type: copies may be handed to other threads, and each is wiped on its own. A
// moved-from key keeps its bytes until it is destroyed, like a copied one.
class SecretKey {
 public:
  static constexpr size_t kBytes = 32;

  SecretKey() = default;  // Makes a key of zeroes, to be filled through bytes().
  explicit SecretKey(std::span<const uint8_t, kBytes> bytes);
  ~SecretKey();
  SecretKey(const SecretKey&) = default;
  SecretKey& operator=(const SecretKey&) = default;

  std::span<const uint8_t, kBytes> bytes() const { return bytes_; }
  std::span<uint8_t, kBytes> bytes() { return bytes_; }

 private:
  std::array<uint8_t, kBytes> bytes_{};
};

}  // namespace kvtier

#endif  // KVTIER_TIER_DISK_CIPHER_SECRET_KEY_H_
