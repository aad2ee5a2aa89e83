#include "client/step_page.h"

#include "core/status_macros.h"

namespace kvtier {

absl::StatusOr<std::shared_ptr<const StepPage>> StepPage::Map(int fd) {
  KVT_ASSIGN_OR_RETURN(std::shared_ptr<const Mapping> memory,
                       Mapping::Map(fd, wire::kSignalPageBytes, Mapping::Access::kReadWrite));
  return std::shared_ptr<const StepPage>(new StepPage(std::move(memory)));
}

StepPage::StepPage(std::shared_ptr<const Mapping> memory)
    : memory_(std::move(memory)),
      begun_(WordAt(wire::kBegunWord)),
      retired_(WordAt(wire::kRetiredWord)) {}

StepPage::Word* StepPage::WordAt(size_t index) const {
  return reinterpret_cast<Word*>(memory_->Write(index * wire::kSignalStride, sizeof(Word))->data());
}

}  // namespace kvtier
