#include "cli/resize.h"

#include "absl/strings/str_cat.h"
#include "cli/table.h"
#include "cli/units.h"

namespace kvtier::cli {
namespace {

// Returns the note of a row: what failed, or the answer's own note and whether the size that was
// asked for was rounded down to whole units.
std::string NoteOf(const ResizedMemory& size, uint64_t asked, const char* units) {
  if (!size.failure.empty()) return size.failure;
  std::string note = size.note;
  if (size.target_bytes != asked) {
    absl::StrAppend(&note, note.empty() ? "" : "; ", "rounded down to ", units, " of ",
                    BytesText(size.unit_bytes));
  }
  return note;
}

}  // namespace

std::string ResizeTable(const std::vector<Answer<ResizedMemory>>& answers, uint64_t asked,
                        const char* units) {
  Table table({{"AGENT"},
               {"NOW", Align::kRight},
               {"TARGET", Align::kRight},
               {"MOST", Align::kRight},
               {""}});
  for (const auto& [address, size] : answers) {
    if (!size.ok()) {
      table.AddRow({address, "-", "-", "-", FailureText(size.status())});
      continue;
    }
    table.AddRow({address, BytesText(size->bytes), BytesText(size->target_bytes),
                  BytesText(size->max_bytes), NoteOf(*size, asked, units)});
  }
  return table.ToString();
}

}  // namespace kvtier::cli
