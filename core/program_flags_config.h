// Command line of a daemon: the texts of its flags make its --help and its manual page, too.
#ifndef KVTIER_CORE_PROGRAM_FLAGS_CONFIG_H_
#define KVTIER_CORE_PROGRAM_FLAGS_CONFIG_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "core/man_page.h"

namespace kvtier {

// ProgramText holds the texts of a daemon that are not in its flags.
struct ProgramText {
  absl::string_view name;        // "kvtier-agent".
  absl::string_view build;       // Name and version, as --version prints them.
  absl::string_view summary;     // One line, which begins with its verb and has no period.
  absl::string_view details;     // Sentences for the manual page, after the summary.
  absl::string_view flags_file;  // Part of the path of the source file that defines its flags.
  std::vector<ManPage::Entry> files = {};    // Files and sockets that operators meet.
  std::vector<ManPage::Name> see_also = {};  // Other pages; one at least.
};

// Parses the command line, with its files of flags (core/flag_files.h), into the flags. Returns the
// exit status with which the program is to end at once: 0 after --man, which prints the manual
// page; 1 for a word that is no flag, which it names. nullopt: the program is to run. --help,
// --version and a flag that does not exist end the process here. Call once.
std::optional<int> ParseProgramFlags(const ProgramText& program, int argc, char** argv);

// Returns the manual page: its options are the flags that flags_file defines, and --man.
std::string ProgramManPage(const ProgramText& program);

}  // namespace kvtier

#endif  // KVTIER_CORE_PROGRAM_FLAGS_CONFIG_H_
