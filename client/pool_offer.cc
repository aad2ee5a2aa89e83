#include "client/pool_offer.h"

#include <cstdint>
#include <span>

#include "absl/strings/str_cat.h"
#include "client/handshake.h"
#include "core/check.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

absl::StatusOr<wire::PoolAnswerCode> ReceiveAnswer(PacketSocket* socket, absl::Time deadline) {
  KVT_ASSIGN_OR_RETURN(const Received<wire::PoolAnswer> answer,
                       ReceivePacket<wire::PoolAnswer>(socket, deadline));
  return answer.packet.code;
}

absl::Status AnswerStatus(wire::PoolAnswerCode code) {
  switch (code) {
    case wire::PoolAnswerCode::kTaken:
      return absl::OkStatus();
    case wire::PoolAnswerCode::kOtherPool:
      return absl::FailedPreconditionError("the agent's pool is another one");
    case wire::PoolAnswerCode::kMalformed:
      return absl::FailedPreconditionError("the agent could not read our offer");
    case wire::PoolAnswerCode::kNoDescriptor:
      return absl::FailedPreconditionError("the agent could not map what we offered");
    case wire::PoolAnswerCode::kSendHandles:
      break;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the agent answered our offer with code ", static_cast<uint32_t>(code)));
}

absl::Status Offer(const SessionOptions& options, const PoolPage& page,
                   std::span<const FileDescriptor> handles, absl::Time deadline) {
  KVT_ASSIGN_OR_RETURN(PacketSocket socket, PacketSocket::Connect(absl::StrCat(
                                                options.socket_dir, "/", wire::kPoolSocketName)));
  KVT_RETURN_IF_ERROR(ShakeHands(&socket, options, deadline).status());
  const wire::PoolOffer offer{.incarnation = page.incarnation,
                              .handle_bytes = page.handle_bytes,
                              .handles = static_cast<uint32_t>(handles.size()),
                              .max_handles = static_cast<uint32_t>(page.max_handles)};
  KVT_RETURN_IF_ERROR(SendPacket(&socket, offer, deadline, page.steps->descriptor()));
  KVT_ASSIGN_OR_RETURN(const wire::PoolAnswerCode wanted, ReceiveAnswer(&socket, deadline));
  if (wanted != wire::PoolAnswerCode::kSendHandles) return AnswerStatus(wanted);
  for (uint32_t i = 0; i < offer.handles; ++i) {
    const wire::PoolHandle handle{.index = i};
    KVT_RETURN_IF_ERROR(SendPacket(&socket, handle, deadline, handles[i].get()));
  }
  KVT_ASSIGN_OR_RETURN(const wire::PoolAnswerCode taken, ReceiveAnswer(&socket, deadline));
  return AnswerStatus(taken);
}

}  // namespace

absl::Status OfferPool(const SessionOptions& options, const GpuMemory& pool, absl::Time deadline) {
  KVT_CHECK(CanOffer(pool));
  return Offer(options, PageOf(pool), pool.handles, deadline);
}

absl::Status OfferPage(const SessionOptions& options, const PoolPage& page, absl::Time deadline) {
  return Offer(options, page, {}, deadline);
}

}  // namespace kvtier
