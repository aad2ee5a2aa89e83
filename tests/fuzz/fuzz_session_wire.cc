// Any packet a worker can send on the descriptor socket: refused with a reason, or
// exactly what it says.
#include <cstdint>
#include <cstring>
#include <span>

#include "core/check.h"
#include "proto/session_wire.h"

namespace kvtier::wire {
namespace {

template <typename Packet>
bool SameBytes(const Packet& packet, std::span<const std::byte> bytes) {
  return bytes.size() == sizeof(packet) && std::memcmp(&packet, bytes.data(), sizeof(packet)) == 0;
}

void CheckHello(std::span<const std::byte> packet) {
  const absl::StatusOr<Hello> hello = ParseHello(packet);
  if (!hello.ok()) {
    KVT_CHECK(absl::IsInvalidArgument(hello.status()) && !hello.status().message().empty());
    return;
  }
  KVT_CHECK(SameBytes(*hello, packet) && hello->magic == kMagic);
  KVT_CHECK(std::strlen(hello->tenant.data()) <= kMaxTenantBytes);
  if (VersionsOverlap(hello->version, hello->min_version)) {
    KVT_CHECK(hello->min_version <= kSessionVersion && hello->version >= kMinSessionVersion);
  }
}

void CheckRequest(std::span<const std::byte> packet, uint16_t version) {
  const absl::StatusOr<DescriptorRequest> request = ParseDescriptorRequest(packet, version);
  if (!request.ok()) {
    KVT_CHECK(absl::IsInvalidArgument(request.status()) && !request.status().message().empty());
    return;
  }
  const DescriptorRequestV1 old{.magic = request->magic, .kind = request->kind};
  KVT_CHECK(version == 1 ? SameBytes(old, packet) : SameBytes(*request, packet));
  const uint32_t kind = static_cast<uint32_t>(request->kind);
  KVT_CHECK(kind >= 1 && kind <= (version == 1 ? 3 : version < 4 ? 4 : 5));
  KVT_CHECK(request->index < (request->kind == DescriptorKind::kGpuPool ? kMaxHandles : 1));
}

void CheckOffer(std::span<const std::byte> packet) {
  const absl::StatusOr<PoolOffer> offer = ParsePoolOffer(packet);
  if (!offer.ok()) {
    KVT_CHECK(absl::IsInvalidArgument(offer.status()) && !offer.status().message().empty());
    return;
  }
  KVT_CHECK(SameBytes(*offer, packet) && offer->incarnation != 0);
  KVT_CHECK(offer->handles <= offer->max_handles && offer->max_handles <= kMaxHandles);
}

void CheckHandle(std::span<const std::byte> packet) {
  const PoolHandle due{.index = 1};
  KVT_CHECK(CheckPoolHandle(packet, due.index).ok() == SameBytes(due, packet));
}

}  // namespace
}  // namespace kvtier::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> packet = std::as_bytes(std::span(data, size));
  kvtier::wire::CheckHello(packet);
  for (const uint16_t version : {1, 2, 4}) kvtier::wire::CheckRequest(packet, version);
  kvtier::wire::CheckOffer(packet);
  kvtier::wire::CheckHandle(packet);
  return 0;
}
