// Table lays out rows of text in columns as wide as their widest cell.
#ifndef KVTIER_CLI_TABLE_H_
#define KVTIER_CLI_TABLE_H_

#include <string>
#include <vector>

namespace kvtier::cli {

enum class Align { kLeft, kRight };

// Widths count bytes: cells are ASCII. A control character in a cell, which a remote
// side could have put there, is shown as '?'.
class Table {
 public:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };
  // `indent` spaces come before every row.
  explicit Table(std::vector<Column> columns, int indent = 0);
  // REQUIRES: as many cells as columns.
  void AddRow(std::vector<std::string> cells);
  // Returns the titles (unless all are empty) and the rows, each ending with a line feed and none
  // with spaces.
  std::string ToString() const;

 private:
  const std::vector<Column> columns_;
  const int indent_;
  std::vector<std::vector<std::string>> rows_;
};

// Returns `text` with control characters shown as '?'.
std::string Printable(std::string text);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_TABLE_H_
