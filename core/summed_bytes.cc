#include "core/summed_bytes.h"

#include <span>
#include <utility>

#include "core/checksum.h"

namespace kvtier {
namespace {

constexpr size_t kSumBytes = 16;

PayloadSum SumOf(absl::string_view bytes) {
  return SumPayload(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

}  // namespace

std::string SummedWriter::End() && {
  const PayloadSum sum = SumOf(bytes_);
  Put(sum.hi);
  Put(sum.lo);
  return std::move(bytes_);
}

std::optional<SummedReader> SummedReader::Open(absl::string_view bytes) {
  if (bytes.size() < kSumBytes) return std::nullopt;
  const size_t fields = bytes.size() - kSumBytes;
  SummedReader sum(bytes.substr(fields));
  const PayloadSum told{.hi = *sum.Take<uint64_t>(), .lo = *sum.Take<uint64_t>()};
  if (SumOf(bytes.substr(0, fields)) != told) return std::nullopt;
  return SummedReader(bytes.substr(0, fields));
}

}  // namespace kvtier
