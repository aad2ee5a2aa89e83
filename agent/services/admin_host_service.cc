// AdminService's part about host memory: how large it is, what it is cut into, and its resize.
#include "agent/services/admin_service.h"
#include "core/status_macros.h"

namespace kvtier {
namespace {

void FillSize(Agent* agent, v1::HostMemorySize* wire) {
  const HostResizer::Size size = agent->host_resizer().size();
  wire->set_bytes(size.bytes);
  wire->set_target_bytes(size.target_bytes);
  wire->set_min_bytes(size.min_bytes);
  wire->set_max_bytes(size.max_bytes);
  wire->set_slab_bytes(agent->host().slab_bytes());
  wire->set_failure(std::string(size.ended.message()));
}

}  // namespace

void AdminService::FillHostMemory(v1::HostMemoryReport* report) {
  FillSize(agent_, report->mutable_size());
  report->set_moves(agent_->host_resizer().moves());
  const HostTier::Cut cut = agent_->host().cut();
  report->set_free_slab_bytes(cut.free_slab_bytes);
  report->set_padding_bytes(agent_->index().padding_bytes());
  report->set_split_bytes(cut.split_bytes);
  for (const auto& [slot_bytes, use] : cut.sizes) {
    v1::SlotSizeReport* const size = report->add_sizes();
    size->set_slot_bytes(slot_bytes);
    size->set_slabs(use.slabs);
    size->set_used_slots(use.used);
    size->set_free_slots(use.free);
  }
  const MemoryMover::Figures& moves = agent_->mover().figures();
  report->set_moved_slabs(moves.moved);
  report->set_copied_blocks(moves.copied);
  report->set_held_slabs(moves.timed_out);
}

AdminService::Reactor* AdminService::ResizeHostMemory(Context* context,
                                                      const v1::ResizeHostMemoryRequest* request,
                                                      v1::ResizeHostMemoryResponse* response) {
  return calls_.Run(context, *request, DoResizeHostMemory(request, response));
}

Task<absl::Status> AdminService::DoResizeHostMemory(const v1::ResizeHostMemoryRequest* request,
                                                    v1::ResizeHostMemoryResponse* response) {
  KVT_CO_RETURN_IF_ERROR(agent_->host_resizer().Begin(request->bytes()));
  co_await agent_->host_resizer().AwaitEnd(agent_->executor()->Now() + kHostResizeWait);
  FillSize(agent_, response->mutable_size());
  co_return absl::OkStatus();
}

}  // namespace kvtier
