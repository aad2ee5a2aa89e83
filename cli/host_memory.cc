#include "cli/host_memory.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/admin_client.h"
#include "cli/answers.h"
#include "cli/resize.h"
#include "cli/table.h"
#include "cli/units.h"
#include "core/check.h"

namespace kvtier::cli {
namespace {

// Returns a remark about the memory beside its size; empty: there is none.
std::string SizeText(const v1::HostMemorySize& size) {
  if (!size.failure().empty()) return size.failure();
  if (size.bytes() == size.target_bytes()) return "";
  return size.bytes() < size.target_bytes()
             ? "growing"
             : absl::StrCat("shrinking by ", BytesText(size.bytes() - size.target_bytes()));
}

void WriteSize(const v1::HostMemorySize& size, JsonWriter* json) {
  json->Count("bytes", size.bytes());
  json->Count("target_bytes", size.target_bytes());
  json->Count("min_bytes", size.min_bytes());
  json->Count("max_bytes", size.max_bytes());
  json->Count("slab_bytes", size.slab_bytes());
  json->Text("failure", size.failure());
}

uint64_t SlabBytesOf(const v1::HostMemoryReport& memory, const v1::SlotSizeReport& size) {
  return size.slabs() * memory.size().slab_bytes();
}

}  // namespace

std::string HostMemoryText(const v1::HostMemoryReport& memory) {
  const v1::HostMemorySize& size = memory.size();
  const auto part = [&](uint64_t bytes) {
    return absl::StrCat(BytesText(bytes), " (", ShareText(bytes, size.bytes()), ")");
  };
  std::string text = BytesText(size.bytes());
  if (const std::string said = SizeText(size); !said.empty()) {
    absl::StrAppend(&text, " (", Printable(said), ")");
  }
  absl::StrAppend(&text, memory.moves()
                             ? absl::StrCat(", moves, at most ", BytesText(size.max_bytes()))
                             : ", fixed");
  absl::StrAppend(&text, "; free slabs ", part(memory.free_slab_bytes()), ", inside slots ",
                  part(memory.padding_bytes()), ", split by size ", part(memory.split_bytes()));
  if (memory.moved_slabs() > 0 || memory.held_slabs() > 0) {
    absl::StrAppend(&text, "; moved ", CountText(memory.moved_slabs()), " slabs, copied ",
                    CountText(memory.copied_blocks()), " blocks out, ",
                    CountText(memory.held_slabs()), " slabs were held");
  }
  return text;
}

std::string SlotSizeLines(const v1::HostMemoryReport& memory) {
  if (memory.sizes().empty()) return "";
  std::vector<const v1::SlotSizeReport*> sizes;
  for (const v1::SlotSizeReport& size : memory.sizes()) sizes.push_back(&size);
  std::ranges::stable_sort(sizes, [&](const auto* a, const auto* b) {
    return SlabBytesOf(memory, *a) > SlabBytesOf(memory, *b);
  });
  const size_t shown = std::min<size_t>(sizes.size(), kMaxSlotSizeRows);
  Table table({{"SLOTS OF", Align::kRight},
               {"SLABS", Align::kRight},
               {"MEMORY", Align::kRight},
               {"USED", Align::kRight},
               {"FREE", Align::kRight},
               {"FULL", Align::kRight}},
              /*indent=*/2);
  for (size_t i = 0; i < shown; ++i) {
    const v1::SlotSizeReport& size = *sizes[i];
    table.AddRow({BytesText(size.slot_bytes()), CountText(size.slabs()),
                  BytesText(SlabBytesOf(memory, size)), CountText(size.used_slots()),
                  CountText(size.free_slots()),
                  ShareText(size.used_slots(), size.used_slots() + size.free_slots())});
  }
  std::string lines = table.ToString();
  if (shown < sizes.size()) {
    absl::StrAppend(&lines, "  and slots of ", sizes.size() - shown, " more sizes\n");
  }
  return lines;
}

std::string HostScrubText(const v1::HostScrubReport& scrub) {
  if (scrub.bytes_per_second() == 0) return "off";
  std::string text =
      absl::StrCat(BytesText(scrub.bytes_per_second()), "/s; proved ", CountText(scrub.blocks()),
                   " blocks, ", CountText(scrub.altered()), " were altered");
  if (scrub.passes() > 0) {
    absl::StrAppend(&text, "; pass ", scrub.passes(), " took ",
                    SecondsText(scrub.last_pass_seconds()));
  }
  return text;
}

void WriteHostMemory(const v1::HostMemoryReport& memory, JsonWriter* json) {
  json->OpenObject("host_memory");
  WriteSize(memory.size(), json);
  json->Flag("moves", memory.moves());
  json->Count("free_slab_bytes", memory.free_slab_bytes());
  json->Count("padding_bytes", memory.padding_bytes());
  json->Count("split_bytes", memory.split_bytes());
  json->Count("moved_slabs", memory.moved_slabs());
  json->Count("copied_blocks", memory.copied_blocks());
  json->Count("held_slabs", memory.held_slabs());
  json->OpenArray("slot_sizes");
  for (const v1::SlotSizeReport& size : memory.sizes()) {
    json->OpenElement();
    json->Count("slot_bytes", size.slot_bytes());
    json->Count("slabs", size.slabs());
    json->Count("used_slots", size.used_slots());
    json->Count("free_slots", size.free_slots());
    json->Close();
  }
  json->Close();
  json->Close();
}

void WriteHostScrub(const v1::HostScrubReport& scrub, JsonWriter* json) {
  json->OpenObject("host_scrub");
  json->Count("bytes_per_second", scrub.bytes_per_second());
  json->Count("passes", scrub.passes());
  json->Seconds("last_pass_seconds", scrub.last_pass_seconds());
  json->Count("blocks", scrub.blocks());
  json->Count("bytes", scrub.bytes());
  json->Count("altered", scrub.altered());
  json->Close();
}

Outcome RunHostResize(const Arguments& arguments) {
  KVT_CHECK(arguments.resize_bytes > 0);
  v1::ResizeHostMemoryRequest request;
  request.set_bytes(arguments.resize_bytes);
  const auto answers =
      AskAll<v1::ResizeHostMemoryResponse>(arguments.agents, [&](const std::string& address) {
        return AgentAdmin(address, arguments.timeout).ResizeHostMemory(request);
      });
  const auto read = [](const v1::HostMemorySize& size) {
    return ResizedMemory{.bytes = size.bytes(),
                         .target_bytes = size.target_bytes(),
                         .max_bytes = size.max_bytes(),
                         .unit_bytes = size.slab_bytes(),
                         .note = SizeText(size),
                         .failure = size.failure()};
  };
  return ResizeOutcome(arguments, answers, "slabs", read, WriteSize);
}

}  // namespace kvtier::cli
