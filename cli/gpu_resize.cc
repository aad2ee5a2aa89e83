#include "cli/gpu_resize.h"

#include "absl/strings/str_cat.h"
#include "cli/admin_client.h"
#include "cli/answers.h"
#include "cli/resize.h"
#include "cli/units.h"
#include "core/check.h"

namespace kvtier::cli {

std::string GpuSizeText(const v1::GpuPoolSize& size) {
  if (!size.failure().empty()) return size.failure();
  if (size.bytes() < size.target_bytes()) return "growing";
  if (size.bytes() == size.target_bytes()) return "";
  return absl::StrCat("shrinking: waits for ", CountText(size.slots_in_use()), " slots of ",
                      CountText(size.workers()), " workers");
}

void WriteGpuSize(const v1::GpuPoolSize& size, JsonWriter* json) {
  json->Count("bytes", size.bytes());
  json->Count("target_bytes", size.target_bytes());
  json->Count("max_bytes", size.max_bytes());
  json->Count("handle_bytes", size.handle_bytes());
  json->Count("slots_in_use", size.slots_in_use());
  json->Count("workers", size.workers());
  json->Text("failure", size.failure());
}

Outcome RunGpuResize(const Arguments& arguments) {
  KVT_CHECK(arguments.resize_bytes > 0);
  v1::ResizeGpuPoolRequest request;
  request.set_bytes(arguments.resize_bytes);
  request.set_device(arguments.gpu_device);
  const auto answers =
      AskAll<v1::ResizeGpuPoolResponse>(arguments.agents, [&](const std::string& address) {
        return AgentAdmin(address, arguments.timeout).ResizeGpuPool(request);
      });
  const auto read = [](const v1::GpuPoolSize& size) {
    return ResizedMemory{.bytes = size.bytes(),
                         .target_bytes = size.target_bytes(),
                         .max_bytes = size.max_bytes(),
                         .unit_bytes = size.handle_bytes(),
                         .note = GpuSizeText(size),
                         .failure = size.failure()};
  };
  return ResizeOutcome(arguments, answers, "handles", read, WriteGpuSize);
}

}  // namespace kvtier::cli
