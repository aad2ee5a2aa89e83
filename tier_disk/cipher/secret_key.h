// SecretKey is 256 bits that nobody else may learn: wiped when it dies, never logged,
// never compared with ==. With it, how bytes are wiped and how they are drawn.
#ifndef KVTIER_TIER_DISK_CIPHER_SECRET_KEY_H_
#define KVTIER_TIER_DISK_CIPHER_SECRET_KEY_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace kvtier {

// Overwrites with zeroes in a way that no compiler leaves out.
void Wipe(std::span<uint8_t> bytes);

// Fills with bytes of the operating system's generator, fit for keys. Aborts where
// there is none: going on with guessable keys would be worse. Any thread.
void FillRandom(std::span<uint8_t> bytes);

// A value type: copies may be handed to other threads and are wiped one by one. A
// moved-from key keeps its bytes until it dies, as a copied one does.
class SecretKey {
 public:
  static constexpr size_t kBytes = 32;

  SecretKey() = default;  // Zeroes, to be filled through bytes().
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
