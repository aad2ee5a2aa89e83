// SteadyVector is a vector that grows without moving what it holds: elements lie in chunks, so an
// addition costs the same at any size and no memory is kept for growth but the rest of one chunk.
//
// SteadyVector is not thread-safe. References to elements stay valid as long as the vector lives.
#ifndef KVTIER_CORE_STEADY_VECTOR_H_
#define KVTIER_CORE_STEADY_VECTOR_H_

#include <bit>
#include <cstddef>
#include <memory>
#include <vector>

namespace kvtier {

template <typename T>
class SteadyVector {
 public:
  size_t size() const { return size_; }
  T& operator[](size_t i) { return chunks_[i / kChunk][i % kChunk]; }
  const T& operator[](size_t i) const { return chunks_[i / kChunk][i % kChunk]; }
  // Adds a T{} at the end.
  void Grow() {
    if (size_ % kChunk == 0) chunks_.push_back(std::make_unique<T[]>(kChunk));
    ++size_;
  }
  size_t memory_bytes() const {
    return chunks_.size() * kChunk * sizeof(T) + chunks_.capacity() * sizeof(chunks_[0]);
  }

 private:
  // A chunk of 64 KiB at most is filled with zeros in some microseconds.
  static constexpr size_t kChunk = std::bit_floor(size_t{65'536} / sizeof(T));

  size_t size_ = 0;
  std::vector<std::unique_ptr<T[]>> chunks_;
};

}  // namespace kvtier

#endif  // KVTIER_CORE_STEADY_VECTOR_H_
