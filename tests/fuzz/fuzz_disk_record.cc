// Feeds any bytes that a disk or a manifest can hold: they are refused, or mean exactly what they
// say. The first byte chooses the kind of the rest.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/check.h"
#include "tier_disk/cipher/record_cipher.h"
#include "tier_disk/cipher/tenant_salt.h"
#include "tier_disk/log/record.h"
#include "tier_disk/manifest/manifest_value.h"

namespace kvtier {
namespace {

using Page = std::array<std::byte, kRecordHeaderBytes>;

Page PageOf(std::span<const uint8_t> bytes) {
  Page page{};
  std::memcpy(page.data(), bytes.data(), std::min(bytes.size(), page.size()));
  return page;
}

// Checks a raw header page.
void CheckHeader(std::span<const uint8_t> bytes) {
  const Page page = PageOf(bytes);
  const absl::StatusOr<RecordHeader> record = DecodeRecordHeader(page);
  if (!record.ok()) {
    KVT_CHECK(absl::IsDataLoss(record.status()));
    return;
  }
  Page again;
  EncodeRecordHeader(*record, again);
  KVT_CHECK(page == again);
}

// Flips one bit of the record, whatever number is given.
void DamageBit(uint32_t bit, Page* page, std::vector<std::byte>* payload) {
  bit %= static_cast<uint32_t>((page->size() + payload->size()) * 8);
  std::byte& damaged =
      bit / 8 < page->size() ? (*page)[bit / 8] : (*payload)[bit / 8 - page->size()];
  damaged ^= std::byte{1} << (bit % 8);
}

// Checks that a sealed record opens with the payload that was sealed, and that it does not open
// with one bit damaged.
void CheckSealedRecord(DiskEntry entry, uint32_t bit, std::vector<std::byte> payload) {
  OpeningId opening;
  opening.bytes.fill(1);
  const RecordCipher cipher(SecretKey(), KeyId{7}, opening);
  entry.block.key_id = cipher.key_id();
  std::vector<std::byte> slot(SlotBytes(payload.size()));
  std::copy(payload.begin(), payload.end(), slot.begin());
  const PayloadSum sum = SumPayload(payload);
  const absl::StatusOr<RecordHeader> header = SealRecord(entry, cipher, &sum, slot);
  if (!header.ok()) {
    KVT_CHECK(absl::IsFailedPrecondition(header.status()) && !RecordNonce(entry.place));
    return;
  }
  Page page;
  EncodeRecordHeader(*header, page);
  slot.resize(payload.size());
  std::vector<std::byte> opened = slot;
  const absl::StatusOr<PayloadSum> read = OpenRecord(entry, cipher, page, opened);
  KVT_CHECK(read.ok() && *read == sum && opened == payload);
  DamageBit(bit, &page, &slot);
  KVT_CHECK(absl::IsDataLoss(OpenRecord(entry, cipher, page, slot).status()));
}

// Checks a whole record with a good seal (which no fuzzer finds by itself), in the clear or sealed,
// with one damaged bit. The first four bytes say which bit; the others are identity and payload.
void CheckRecord(std::span<const uint8_t> bytes) {
  uint32_t bit = 0;
  std::array<uint8_t, 64> fields{};
  if (bytes.size() < sizeof(bit) + fields.size() + 1) return;
  std::memcpy(&bit, bytes.data(), sizeof(bit));
  std::memcpy(fields.data(), bytes.data() + sizeof(bit), fields.size());
  const std::span<const uint8_t> rest = bytes.subspan(sizeof(bit) + fields.size());
  const auto* first = reinterpret_cast<const std::byte*>(rest.data());
  std::vector<std::byte> payload(first, first + rest.size());

  DiskEntry entry{.block = {.length = payload.size()}};
  std::memcpy(&entry.block.key.hi, fields.data(), 8);
  std::memcpy(&entry.block.key.lo, fields.data() + 8, 8);
  std::memcpy(&entry.place.generation, fields.data() + 16, 8);
  std::memcpy(entry.block.space.bytes.data(), fields.data() + 24, 32);
  std::memcpy(&entry.place.segment, fields.data() + 56, 4);
  std::memcpy(&entry.place.offset, fields.data() + 56, 8);
  Page page;
  if (bit % 2 == 0) return CheckSealedRecord(entry, bit / 2, std::move(payload));
  EncodeRecordHeader(HeaderOf(entry, SumPayload(payload)), page);
  KVT_CHECK(VerifyRecord(entry, page, payload).ok());

  DamageBit(bit / 2, &page, &payload);
  KVT_CHECK(absl::IsDataLoss(VerifyRecord(entry, page, payload).status()));
}

// Checks a manifest row: one byte of key length, the key, the value.
void CheckRow(std::span<const uint8_t> bytes) {
  if (bytes.empty()) return;
  const size_t key_size = std::min<size_t>(bytes[0], bytes.size() - 1);
  const absl::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const absl::string_view key = text.substr(1, key_size);
  const absl::string_view value = text.substr(1 + key_size);
  ManifestImage image;
  if (!DecodeRow(key, value, &image).ok()) {
    KVT_CHECK(image.entries.empty() && image.generations.empty() && image.salts.empty());
    return;
  }
  KVT_CHECK(image.entries.size() + image.generations.size() + image.salts.size() == 1);
  if (!image.salts.empty()) {
    KVT_CHECK(key == TenantSaltRowKey(image.salts[0].tenant));
    KVT_CHECK(value == EncodeTenantSalt(image.salts[0]));
  } else if (!image.entries.empty()) {
    KVT_CHECK(key == BlockRowKey(image.entries[0].block.key));
    KVT_CHECK(value == EncodeEntry(image.entries[0]));
  } else {
    KVT_CHECK(key == GenerationRowKey(image.generations[0].segment));
    KVT_CHECK(value == EncodeGeneration(image.generations[0]));
  }
}

}  // namespace
}  // namespace kvtier

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::span<const uint8_t> rest(data + 1, size - 1);
  switch (data[0] % 3) {
    case 0:
      kvtier::CheckHeader(rest);
      break;
    case 1:
      kvtier::CheckRecord(rest);
      break;
    default:
      kvtier::CheckRow(rest);
      break;
  }
  return 0;
}
