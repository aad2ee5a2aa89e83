#include "cli/table.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "core/check.h"

namespace kvtier::cli {
namespace {

constexpr size_t kGap = 2;  // Spaces between columns.

void AppendLine(const std::vector<std::string>& cells, const std::vector<Table::Column>& columns,
                const std::vector<size_t>& widths, int indent, std::string* out) {
  std::string line(static_cast<size_t>(indent), ' ');
  for (size_t i = 0; i < cells.size(); ++i) {
    const std::string pad(widths[i] - cells[i].size(), ' ');
    if (i > 0) line.append(kGap, ' ');
    line += columns[i].align == Align::kRight ? pad + cells[i] : cells[i] + pad;
  }
  absl::StripTrailingAsciiWhitespace(&line);
  *out += line + "\n";
}

}  // namespace

Table::Table(std::vector<Column> columns, int indent)
    : columns_(std::move(columns)), indent_(indent) {}

void Table::AddRow(std::vector<std::string> cells) {
  KVT_CHECK(cells.size() == columns_.size());
  for (std::string& cell : cells) cell = Printable(std::move(cell));
  rows_.push_back(std::move(cells));
}

std::string Table::ToString() const {
  std::vector<std::string> titles;
  std::vector<size_t> widths;
  for (const Column& column : columns_) {
    titles.push_back(column.title);
    widths.push_back(column.title.size());
  }
  for (const std::vector<std::string>& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string out;
  const bool titled = std::any_of(titles.begin(), titles.end(),
                                  [](const std::string& title) { return !title.empty(); });
  if (titled) AppendLine(titles, columns_, widths, indent_, &out);
  for (const std::vector<std::string>& row : rows_) {
    AppendLine(row, columns_, widths, indent_, &out);
  }
  return out;
}

std::string Printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](char c) { return absl::ascii_iscntrl(static_cast<unsigned char>(c)); }, '?');
  return text;
}

}  // namespace kvtier::cli
