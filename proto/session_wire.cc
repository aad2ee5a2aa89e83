#include "proto/session_wire.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/check.h"
#include "core/status_macros.h"
#include "proto/layout_digest.h"

namespace kvtier::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "packets are read as they lie");

// Ends in NUL, so that no other tag of the project is its beginning.
constexpr char kProofTag[] = "kvtier.session.v1";

template <typename Packet>
absl::StatusOr<Packet> ParsePacket(std::span<const std::byte> bytes, const char* name) {
  if (bytes.size() != sizeof(Packet)) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " of ", bytes.size(), " bytes; must be ", sizeof(Packet)));
  }
  Packet packet;
  std::memcpy(&packet, bytes.data(), sizeof(packet));
  if (packet.magic != kMagic) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " magic is 0x", absl::Hex(packet.magic, absl::kZeroPad8), "; must be 0x",
                     absl::Hex(kMagic, absl::kZeroPad8)));
  }
  return packet;
}

// Checks a name. Errors: kInvalidArgument, the name of `field` has no end, or bytes after its end.
absl::Status CheckName(const std::array<char, 64>& name, const char* field) {
  const auto end = std::find(name.begin(), name.end(), '\0');
  if (end == name.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Hello ", field, " has no end; must be at most ", kMaxTenantBytes, " bytes"));
  }
  // One name has one spelling: what follows the NUL would otherwise be carried unseen.
  const auto stray = std::find_if(end, name.end(), [](char c) { return c != '\0'; });
  if (stray == name.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "Hello ", field, " has byte ", static_cast<int>(static_cast<uint8_t>(*stray)), " at ",
      stray - name.begin(), " after its end at ", end - name.begin(), "; must be NUL-padded"));
}

}  // namespace

std::array<uint8_t, 32> SessionProof(const SessionKey& tenant, std::span<const uint8_t, 32> nonce) {
  std::array<uint8_t, sizeof(kProofTag) + 32> message;
  std::copy(nonce.begin(), nonce.end(),
            std::copy(std::begin(kProofTag), std::end(kProofTag), message.begin()));
  std::array<uint8_t, 32> proof;
  unsigned int size = 0;
  KVT_CHECK(HMAC(EVP_sha256(), tenant.bytes.data(), static_cast<int>(tenant.bytes.size()),
                 message.data(), message.size(), proof.data(), &size) != nullptr);
  KVT_CHECK(size == proof.size());
  return proof;
}

absl::StatusOr<Hello> ParseHello(std::span<const std::byte> packet) {
  KVT_ASSIGN_OR_RETURN(const Hello hello, ParsePacket<Hello>(packet, "Hello"));
  KVT_RETURN_IF_ERROR(CheckName(hello.tenant, "tenant"));
  KVT_RETURN_IF_ERROR(CheckName(hello.group, "group"));
  return hello;
}

absl::StatusOr<DescriptorRequest> ParseDescriptorRequest(std::span<const std::byte> packet) {
  KVT_ASSIGN_OR_RETURN(const DescriptorRequest request,
                       ParsePacket<DescriptorRequest>(packet, "DescriptorRequest"));
  const auto kind = static_cast<uint32_t>(request.kind);
  const auto last = static_cast<uint32_t>(DescriptorKind::kStaging);
  if (kind < 1 || kind > last) {
    return absl::InvalidArgumentError(
        absl::StrCat("DescriptorRequest kind is ", kind, "; must be 1 to ", last));
  }
  const uint32_t handles = request.kind == DescriptorKind::kGpuPool ? kMaxHandles : 1;
  if (request.index >= handles) {
    return absl::InvalidArgumentError(absl::StrCat("DescriptorRequest index is ", request.index,
                                                   "; of kind ", kind, " must be below ", handles));
  }
  if (request.reserved != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("DescriptorRequest reserved is ", request.reserved, "; must be 0"));
  }
  const bool names_device = request.device != std::array<uint8_t, 16>();
  if (names_device && request.kind != DescriptorKind::kGpuPool) {
    return absl::InvalidArgumentError(
        absl::StrCat("DescriptorRequest device is set; of kind ", kind, " it must be 0"));
  }
  return request;
}

uint16_t SpokenVersion(uint16_t their_newest, uint16_t their_oldest) {
  if (their_oldest > their_newest) return 0;
  if (their_newest < kMinSessionVersion || their_oldest > kSessionVersion) return 0;
  return std::min(their_newest, kSessionVersion);
}

Welcome AnswerTo(const Hello& hello) {
  const uint16_t spoken = SpokenVersion(hello.version, hello.min_version);
  if (spoken == 0) return {.code = WelcomeCode::kVersionMismatch};
  const uint64_t layout = LayoutDigest(spoken);
  return {.code = hello.layout == layout ? WelcomeCode::kOk : WelcomeCode::kLayoutMismatch,
          .layout = layout};
}

std::string WhyRefused(const Hello& hello) {
  const Welcome answer = AnswerTo(hello);
  if (answer.code == WelcomeCode::kVersionMismatch) {
    return absl::StrCat("the worker speaks session versions ", hello.min_version, " to ",
                        hello.version, ", this agent ", kMinSessionVersion, " to ", kSessionVersion,
                        "; upgrade the older of the two");
  }
  return absl::StrCat("the worker lays out session version ",
                      SpokenVersion(hello.version, hello.min_version), " as ",
                      LayoutText(hello.layout), ", this agent as ", LayoutText(answer.layout),
                      "; build both from the same sources");
}

}  // namespace kvtier::wire
