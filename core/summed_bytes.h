// SummedWriter packs integers and strings one after the other and ends them with a sum;
// SummedReader takes them out again, after it has proven that sum. It is the format of small data
// in files: data that is damaged, cut off or of another program is refused as a whole.
//
//   fields, integers in little-endian order | PayloadSum of all of them: hi:8 lo:8
#ifndef KVTIER_CORE_SUMMED_BYTES_H_
#define KVTIER_CORE_SUMMED_BYTES_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "core/byte_order.h"

namespace kvtier {

class SummedWriter {
 public:
  template <std::unsigned_integral T>
  void Put(T value) {
    uint8_t bytes[sizeof(T)];
    StoreLittle(value, bytes);
    bytes_.append(reinterpret_cast<const char*>(bytes), sizeof(bytes));
  }
  void PutBytes(absl::string_view bytes) { bytes_.append(bytes.data(), bytes.size()); }
  // Returns all that was put, followed by its sum.
  std::string End() &&;

 private:
  std::string bytes_;
};

// Does not own the bytes.
class SummedReader {
 public:
  // Returns nullopt when these are not the bytes that a SummedWriter ended.
  static std::optional<SummedReader> Open(absl::string_view bytes);

  // Takes the next field; nullopt: fewer bytes are left.
  template <std::unsigned_integral T>
  std::optional<T> Take() {
    const std::optional<absl::string_view> bytes = TakeBytes(sizeof(T));
    if (!bytes.has_value()) return std::nullopt;
    return LoadLittle<T>(reinterpret_cast<const uint8_t*>(bytes->data()));
  }
  std::optional<absl::string_view> TakeBytes(size_t count) {
    if (left_.size() < count) return std::nullopt;
    const absl::string_view bytes = left_.substr(0, count);
    left_.remove_prefix(count);
    return bytes;
  }
  bool at_end() const { return left_.empty(); }

 private:
  explicit SummedReader(absl::string_view left) : left_(left) {}

  absl::string_view left_;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_SUMMED_BYTES_H_
