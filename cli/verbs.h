// The verbs of `kvtier`, in one table: the parser, the help, the man pages and the completion of
// shells read it.
#ifndef KVTIER_CLI_VERBS_H_
#define KVTIER_CLI_VERBS_H_

#include <span>
#include <vector>

#include "absl/strings/string_view.h"
#include "cli/options.h"

namespace kvtier::cli {

enum class Verb {
  kStatus,
  kNodes,
  kTiers,
  kTenants,
  kTenantDescribe,
  kTenantSet,
  kTenantDrop,
  kTenantsExport,
  kTenantsImport,
  kTenantsInit,
  kDiskInfo,
  kDiskVerify,
  kDoctor,
  kLookup,
  kEvict,
  kTenantErase,
  kPinsList,
  kPinsDrop,
  kPrefixDrop,
  kGpuResize,
  kHostResize,
  kSettings,
  kSize,
  kVersion,
  kHelp,
  kMan,
  kCompletion
};

struct VerbEntry {
  absl::string_view words;  // One word or two, such as "tenants set".
  Verb verb{};
  absl::string_view arguments;  // Placeholders of the words that follow: "NAME"; empty: none do.
  absl::string_view summary;    // One line, which begins with its verb and has no period.
  absl::string_view details;    // Sentences for the verb's own help; empty: the summary says all.
  absl::string_view options;    // Separated by spaces; --output is not named.
  absl::string_view example;    // A whole command line without "kvtier".
};

// Returns all verbs, in the order in which help shows them.
std::span<const VerbEntry> AllVerbs();
// Returns the verb of these words; nullptr: there is none.
const VerbEntry* FindVerbEntry(absl::string_view words);
// Returns the second words that the family takes, in the table's order: of "disk" info and verify;
// empty: no verb of two words begins with it.
std::vector<absl::string_view> SecondWordsOf(absl::string_view family);
// Returns the options that the verb takes, in the order of AllOptions().
std::vector<const Option*> OptionsOf(const VerbEntry& verb);

}  // namespace kvtier::cli

#endif  // KVTIER_CLI_VERBS_H_
