// Implements kvtier_memory.h.
#include <memory>

#include "client/c/handles.h"
#include "client/c/kvtier_memory.h"
#include "client/host_memory.h"

struct kvtier_mapping {
  kvtier::HostMemory memory;
};

namespace kvtier::c {
namespace {

int GetHostMemory(kvtier_client* client, kvtier_host_memory* memory, kvtier_mapping** mapping) {
  if (client == nullptr || memory == nullptr || mapping == nullptr) {
    return Fail(KVTIER_INVALID, "client, memory or mapping is NULL");
  }
  *mapping = nullptr;
  if (memory->struct_size < sizeof(kvtier_host_memory)) {
    return Fail(KVTIER_INVALID, "memory.struct_size is too small; must be the size of the struct");
  }
  auto made = std::make_unique<kvtier_mapping>(kvtier_mapping{client->client->host_memory()});
  const HostMemory& ours = made->memory;
  if (ours.read == nullptr) {
    return Fail(KVTIER_ABSENT, "there is no connection to the agent; try again later");
  }
  const bool writable = ours.write != nullptr;
  *memory = {.struct_size = memory->struct_size,
             .is_staged = ours.is_staged ? 1U : 0U,
             .reserved = 0,
             .read = ours.read->Read(0, ours.read->size())->data(),
             .read_bytes = ours.read->size(),
             .write = writable ? ours.write->Write(0, ours.write->size())->data() : nullptr,
             .write_bytes = writable ? ours.write->size() : 0};
  *mapping = made.release();
  return KVTIER_OK;
}

}  // namespace
}  // namespace kvtier::c

extern "C" {

int kvtier_get_host_memory(kvtier_client* client, kvtier_host_memory* memory,
                           kvtier_mapping** mapping) {
  return kvtier::c::Guarded([&] { return kvtier::c::GetHostMemory(client, memory, mapping); });
}

void kvtier_release_mapping(kvtier_mapping* mapping) { delete mapping; }

}  // extern "C"
