#include "core/copy_sum.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/check.h"
#include "core/stripe_form.h"

namespace kvtier {

namespace {

// XXH3 sums up to this many bytes otherwise: they pass through a buffer.
constexpr size_t kShortBytes = 240;

constexpr size_t kStreamingBytes = size_t{128} << 10;

template <typename Byte>
class PieceCursor {
 public:
  explicit PieceCursor(std::span<const std::span<Byte>> pieces) : pieces_(pieces) { Skip(); }

  // What is left of the current piece; empty only behind the last one.
  std::span<Byte> here() const { return here_; }

  void Advance(size_t bytes) {
    here_ = here_.subspan(bytes);
    Skip();
  }

 private:
  void Skip() {
    while (here_.empty() && !pieces_.empty()) {
      here_ = pieces_.front();
      pieces_ = pieces_.subspan(1);
    }
  }

  std::span<const std::span<Byte>> pieces_;
  std::span<Byte> here_;
};

using Sources = PieceCursor<const std::byte>;
using Destinations = PieceCursor<std::byte>;

void CopyOver(Sources* from, std::span<std::byte> to) {
  while (!to.empty()) {
    const size_t bytes = std::min(from->here().size(), to.size());
    std::memcpy(to.data(), from->here().data(), bytes);
    from->Advance(bytes);
    to = to.subspan(bytes);
  }
}

void CopyOver(std::span<const std::byte> from, Destinations* to) {
  while (!from.empty()) {
    const size_t bytes = std::min(to->here().size(), from.size());
    std::memcpy(to->here().data(), from.data(), bytes);
    to->Advance(bytes);
    from = from.subspan(bytes);
  }
}

template <typename Byte>
bool AddUpTo(std::span<const std::span<Byte>> pieces, size_t bytes) {
  size_t sum = 0;
  for (const std::span<Byte>& piece : pieces) sum += piece.size();
  return sum == bytes;
}

Stores StoresFor(size_t bytes) {
  return bytes >= kStreamingBytes ? Stores::kStreaming : Stores::kCached;
}

// Adds the last stripe, which overlaps the one before it unless the block is of whole stripes:
// `end` are the bytes from the start of the stripe before the last byte's on.
PayloadSum FinishBlock(const StripeForm& form, std::span<const std::byte> end, size_t bytes,
                       StripeSums* sums) {
  std::array<std::byte, kStripeBytes> moved;
  form.move(end.data(), moved.data(), 1, Stores::kCached, sums);
  FinishStores();
  return FinishSum(sums, end.last<kStripeBytes>(), bytes);
}

}  // namespace

PayloadSum GatherAndSum(std::span<const std::span<const std::byte>> pieces,
                        std::span<std::byte> block, const StripeForm& form) {
  KVT_CHECK(AddUpTo(pieces, block.size()));
  Sources from(pieces);
  if (block.size() <= kShortBytes) {
    std::array<std::byte, kShortBytes> bytes;
    const auto all = std::span(bytes).first(block.size());
    CopyOver(&from, all);
    std::copy(all.begin(), all.end(), block.begin());
    return SumPayload(all);
  }
  const Stores stores = StoresFor(block.size());
  StripeSums sums;
  // The last stripe of these goes with the bytes behind it.
  size_t stripes = (block.size() - 1) / kStripeBytes - 1;
  std::span<std::byte> to = block;
  while (stripes > 0) {
    const size_t run = std::min(stripes, from.here().size() / kStripeBytes);
    if (run > 0) {
      form.move(from.here().data(), to.data(), run, stores, &sums);
      from.Advance(run * kStripeBytes);
    } else {  // This stripe is in several pieces.
      std::array<std::byte, kStripeBytes> stripe;
      CopyOver(&from, stripe);
      form.move(stripe.data(), to.data(), 1, stores, &sums);
    }
    const size_t moved = std::max<size_t>(run, 1);
    to = to.subspan(moved * kStripeBytes);
    stripes -= moved;
  }
  std::array<std::byte, 2 * kStripeBytes> buffer;
  const auto end = std::span(buffer).first(to.size());
  CopyOver(&from, end);
  std::copy(end.begin(), end.end(), to.begin());
  return FinishBlock(form, end, block.size(), &sums);
}

PayloadSum ScatterAndSum(std::span<const std::byte> block,
                         std::span<const std::span<std::byte>> pieces, const StripeForm& form) {
  KVT_CHECK(AddUpTo(pieces, block.size()));
  Destinations to(pieces);
  if (block.size() <= kShortBytes) {
    std::array<std::byte, kShortBytes> bytes;
    const auto all = std::span(bytes).first(block.size());
    std::copy(block.begin(), block.end(), all.begin());
    CopyOver(all, &to);
    return SumPayload(all);
  }
  const Stores stores = StoresFor(block.size());
  StripeSums sums;
  size_t stripes = (block.size() - 1) / kStripeBytes - 1;  // As in GatherAndSum().
  std::span<const std::byte> from = block;
  while (stripes > 0) {
    const size_t run = std::min(stripes, to.here().size() / kStripeBytes);
    if (run > 0) {
      form.move(from.data(), to.here().data(), run, stores, &sums);
      to.Advance(run * kStripeBytes);
    } else {
      std::array<std::byte, kStripeBytes> stripe;
      form.move(from.data(), stripe.data(), 1, Stores::kCached, &sums);
      CopyOver(stripe, &to);
    }
    const size_t moved = std::max<size_t>(run, 1);
    from = from.subspan(moved * kStripeBytes);
    stripes -= moved;
  }
  std::array<std::byte, 2 * kStripeBytes> buffer;
  const auto end = std::span(buffer).first(from.size());
  std::copy(from.begin(), from.end(), end.begin());
  CopyOver(end, &to);
  return FinishBlock(form, end, block.size(), &sums);
}

PayloadSum GatherAndSum(std::span<const std::span<const std::byte>> pieces,
                        std::span<std::byte> block) {
  return GatherAndSum(pieces, block, StripeForms().front());
}

PayloadSum ScatterAndSum(std::span<const std::byte> block,
                         std::span<const std::span<std::byte>> pieces) {
  return ScatterAndSum(block, pieces, StripeForms().front());
}

}  // namespace kvtier
