#include "cli/gpu_resize.h"

#include "absl/strings/str_cat.h"
#include "cli/admin_client.h"
#include "cli/table.h"
#include "cli/units.h"
#include "core/check.h"

namespace kvtier::cli {
namespace {

// The size that the pool is to have: at once what the person asked for, less what is no
// whole handle.
std::string NoteOf(const v1::GpuPoolSize& size, uint64_t asked) {
  std::string note = GpuSizeText(size);
  if (size.failure().empty() && size.target_bytes() != asked) {
    absl::StrAppend(&note, note.empty() ? "" : "; ", "rounded down to handles of ",
                    BytesText(size.handle_bytes()));
  }
  return note;
}

}  // namespace

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

std::string GpuResizeTable(const GpuResizeAnswers& answers, uint64_t asked) {
  Table table({{"AGENT"},
               {"NOW", Align::kRight},
               {"TARGET", Align::kRight},
               {"MOST", Align::kRight},
               {""}});
  for (const auto& [address, response] : answers) {
    if (!response.ok()) {
      table.AddRow({address, "-", "-", "-", FailureText(response.status())});
      continue;
    }
    const v1::GpuPoolSize& size = response->size();
    table.AddRow({address, BytesText(size.bytes()), BytesText(size.target_bytes()),
                  BytesText(size.max_bytes()), NoteOf(size, asked)});
  }
  return table.ToString();
}

std::string GpuResizeJson(const GpuResizeAnswers& answers) {
  return AgentsJson(answers, [](const v1::ResizeGpuPoolResponse& response, JsonWriter* json) {
    WriteGpuSize(response.size(), json);
  });
}

Outcome RunGpuResize(const Arguments& arguments) {
  KVT_CHECK(arguments.gpu_bytes > 0);
  v1::ResizeGpuPoolRequest request;
  request.set_bytes(arguments.gpu_bytes);
  request.set_device(arguments.gpu_device);
  const GpuResizeAnswers answers =
      AskAll<v1::ResizeGpuPoolResponse>(arguments.agents, [&](const std::string& address) {
        return AgentAdmin(address, arguments.timeout).ResizeGpuPool(request);
      });
  Verdict verdict;
  for (const auto& answer : answers) {
    const bool failed = answer.response.ok() && !answer.response->size().failure().empty();
    verdict.Add(failed ? absl::FailedPreconditionError(answer.response->size().failure())
                       : answer.response.status());
  }
  return {.code = verdict.code(),
          .out = arguments.format == Format::kJson ? GpuResizeJson(answers)
                                                   : GpuResizeTable(answers, arguments.gpu_bytes)};
}

}  // namespace kvtier::cli
