#include "core/copy_sum.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/check.h"

namespace kvtier {

namespace {

// XXH3 sums up to this many bytes with other formulas, which need all of them at once.
constexpr size_t kShortBytes = 240;

// Blocks of this size or more are stored past the caches. Measured: see
// docs/results/2026-11-23-copy.md.
constexpr size_t kStreamingBytes = size_t{128} << 10;

// Walks through the bytes of a list of pieces.
template <typename Byte>
class PieceCursor {
 public:
  explicit PieceCursor(std::span<const std::span<Byte>> pieces) : pieces_(pieces) { SkipEmpty(); }

  // Returns what is left of the current piece; empty only after the last piece.
  std::span<Byte> here() const { return here_; }

  // REQUIRES: bytes <= here().size().
  void Advance(size_t bytes) {
    here_ = here_.subspan(bytes);
    SkipEmpty();
  }

 private:
  void SkipEmpty() {
    while (here_.empty() && !pieces_.empty()) {
      here_ = pieces_.front();
      pieces_ = pieces_.subspan(1);
    }
  }

  std::span<const std::span<Byte>> pieces_;  // Pieces after the current one.
  std::span<Byte> here_;
};

using Sources = PieceCursor<const std::byte>;
using Destinations = PieceCursor<std::byte>;

void Fill(std::span<std::byte> to, Sources* from) {
  while (!to.empty()) {
    const size_t bytes = std::min(from->here().size(), to.size());
    std::memcpy(to.data(), from->here().data(), bytes);
    from->Advance(bytes);
    to = to.subspan(bytes);
  }
}

void Drain(std::span<const std::byte> from, Destinations* to) {
  while (!from.empty()) {
    const size_t bytes = std::min(to->here().size(), from.size());
    std::memcpy(to->here().data(), from.data(), bytes);
    to->Advance(bytes);
    from = from.subspan(bytes);
  }
}

template <typename Byte>
size_t Total(std::span<const std::span<Byte>> pieces) {
  size_t bytes = 0;
  for (const std::span<Byte>& piece : pieces) bytes += piece.size();
  return bytes;
}

// Moves `stripes` stripes. A stripe that lies in several pieces on either side passes through a
// buffer.
void MoveStripes(size_t stripes, Stores stores, const StripeForm& form, Destinations* to,
                 Sources* from, StripeSums* sums) {
  while (stripes > 0) {
    const size_t whole =
        std::min({stripes, from->here().size() / kStripeBytes, to->here().size() / kStripeBytes});
    if (whole > 0) {
      form.move(from->here().data(), to->here().data(), whole, stores, sums);
      from->Advance(whole * kStripeBytes);
      to->Advance(whole * kStripeBytes);
      stripes -= whole;
      continue;
    }
    alignas(kStripeBytes) std::array<std::byte, kStripeBytes> stripe;
    alignas(kStripeBytes) std::array<std::byte, kStripeBytes> moved;
    Fill(stripe, from);
    form.move(stripe.data(), moved.data(), 1, Stores::kCached, sums);
    Drain(moved, to);
    --stripes;
  }
}

}  // namespace

size_t TotalBytes(std::span<const Piece> pieces) { return Total(pieces); }
size_t TotalBytes(std::span<const ConstPiece> pieces) { return Total(pieces); }

PayloadSum CopyAndSumPieces(std::span<const Piece> to, std::span<const ConstPiece> from,
                            const StripeForm& form) {
  const size_t bytes = Total(from);
  KVT_CHECK(Total(to) == bytes);
  Sources sources(from);
  Destinations destinations(to);
  std::array<std::byte, kShortBytes> buffer;
  if (bytes <= kShortBytes) {
    const auto all = std::span(buffer).first(bytes);
    Fill(all, &sources);
    Drain(all, &destinations);
    return SumPayload(all);
  }
  // XXH3 takes the last 64 bytes as a stripe of their own, which overlaps the one before it unless
  // the block is of whole stripes. Those two are in `end`: 65 to 128 bytes.
  const size_t stripes = (bytes - 1) / kStripeBytes - 1;
  const Stores stores = bytes >= kStreamingBytes ? Stores::kStreaming : Stores::kCached;
  StripeSums sums;
  MoveStripes(stripes, stores, form, &destinations, &sources, &sums);
  if (stores == Stores::kStreaming) FinishStores();
  const auto end = std::span(buffer).first(bytes - stripes * kStripeBytes);
  Fill(end, &sources);
  Drain(end, &destinations);
  std::array<std::byte, kStripeBytes> unused;
  form.move(end.data(), unused.data(), 1, Stores::kCached, &sums);
  return FinishSum(&sums, end.last<kStripeBytes>(), bytes);
}

PayloadSum CopyAndSum(Piece to, ConstPiece from) {
  return CopyAndSumPieces({&to, 1}, {&from, 1}, StripeForms().front());
}

PayloadSum GatherAndSum(Piece to, std::span<const ConstPiece> from) {
  return CopyAndSumPieces({&to, 1}, from, StripeForms().front());
}

PayloadSum ScatterAndSum(std::span<const Piece> to, ConstPiece from) {
  return CopyAndSumPieces(to, {&from, 1}, StripeForms().front());
}

}  // namespace kvtier
