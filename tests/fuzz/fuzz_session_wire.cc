// Feeds any packet that a worker can send on the descriptor socket: it is refused with a reason, or
// means exactly what it says.
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
  KVT_CHECK(std::strlen(hello->group.data()) <= kMaxTenantBytes);
  const Welcome answer = AnswerTo(*hello);
  const bool overlaps = hello->min_version <= hello->version &&
                        hello->min_version <= kSessionVersion &&
                        hello->version >= kMinSessionVersion;
  KVT_CHECK((answer.code == WelcomeCode::kVersionMismatch) == !overlaps);
  if (answer.code == WelcomeCode::kOk) KVT_CHECK(hello->layout == answer.layout);
  if (answer.code != WelcomeCode::kOk) KVT_CHECK(!WhyRefused(*hello).empty());
}

void CheckRequest(std::span<const std::byte> packet) {
  const absl::StatusOr<DescriptorRequest> request = ParseDescriptorRequest(packet);
  if (!request.ok()) {
    KVT_CHECK(absl::IsInvalidArgument(request.status()) && !request.status().message().empty());
    return;
  }
  KVT_CHECK(SameBytes(*request, packet));
  const uint32_t kind = static_cast<uint32_t>(request->kind);
  KVT_CHECK(kind >= 1 && kind <= static_cast<uint32_t>(DescriptorKind::kStaging));
  KVT_CHECK(request->index < (request->kind == DescriptorKind::kGpuPool ? kMaxHandles : 1));
}

}  // namespace
}  // namespace kvtier::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> packet = std::as_bytes(std::span(data, size));
  kvtier::wire::CheckHello(packet);
  kvtier::wire::CheckRequest(packet);
  return 0;
}
