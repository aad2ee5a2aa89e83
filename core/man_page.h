// ManPage writes a manual page: the CLI's pages are made from its tables of verbs and options, and
// the daemons' pages from their flags.
#ifndef KVTIER_CORE_MAN_PAGE_H_
#define KVTIER_CORE_MAN_PAGE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace kvtier {

// ManPage collects the parts of one page, in the order of the calls, in the language of man(7). All
// texts that it takes are plain, without line feeds: it escapes what troff would read as a request
// or an escape. Not thread-safe.
class ManPage {
 public:
  struct Name {
    absl::string_view page;  // "kvtier-agent".
    int section = 1;         // Section of the manual: 1 for commands, 8 for daemons.
  };
  struct Head {
    Name name;
    absl::string_view build;    // Program and its version, for the foot: "kvtier 0.1.0".
    absl::string_view summary;  // One line, which begins with its verb and has no period.
  };
  // An entry of a list.
  struct Entry {
    absl::string_view term;  // Printed in bold.
    absl::string_view text;  // Text that explains the term, in sentences.
  };

  // Begins the page with its name and its summary.
  explicit ManPage(const Head& head);

  void AddSection(absl::string_view title);  // The title is in capitals.
  void AddBold(absl::string_view line);      // Adds the use of a command, as it is typed.
  void AddText(absl::string_view text);      // Adds a paragraph.
  void AddExample(absl::string_view line);   // Adds a line that is not filled.
  void AddEntry(const Entry& entry);
  // Adds the section that names other pages, which are one at least.
  void AddSeeAlso(const std::vector<Name>& pages);

  const std::string& text() const { return text_; }

 private:
  std::string text_;
  bool begins_section_ = false;  // Whether nothing was added since the title of the section.
};

}  // namespace kvtier

#endif  // KVTIER_CORE_MAN_PAGE_H_
