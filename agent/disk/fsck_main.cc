// kvtier-fsck: looks at the disk of an agent that does not run.
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "agent/disk/fsck_report.h"
#include "tier_disk/fsck.h"

namespace kvtier {
namespace {

constexpr char kBuild[] = "kvtier-fsck 0.1.0";
constexpr char kUsage[] = R"(kvtier-fsck: looks at the disk of an agent that does not run.

  kvtier-fsck DIR              reads everything in DIR (--disk_dir), writes nothing
  kvtier-fsck --repair DIR     and makes the manifest forget what is damaged

  --disk_secret_dir DIR  of an encrypted disk's agent; without it payloads are not checked
  -o, --output FORMAT    table or json
  --version, --help

Exit codes: 0 clean, 1 damage found (repaired or not), 2 could not check all, 64 wrong usage.
)";

// Part of the contract with scripts: numbers never change their meaning.
enum Exit : int { kClean = 0, kDamaged = 1, kCouldNotCheck = 2, kWrongUsage = 64 };

struct CommandLine {
  std::string directory;
  std::string secret_directory;
  bool repair = false;
  bool json = false;
};

// Parses the command line by hand, because absl's flags exit with 1 for an unknown flag, which
// would mean that the disk is damaged. Returns nullopt for wrong usage, which it reports on stderr.
std::optional<CommandLine> Parse(int argc, char** argv) {
  CommandLine line;
  const auto wrong = [](const std::string& text) {
    std::fprintf(stderr, "kvtier-fsck: %s\n", text.c_str());
    return std::nullopt;
  };
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (word == "--repair") {
      line.repair = true;
    } else if (word == "--disk_secret_dir" || absl::StartsWith(word, "--disk_secret_dir=")) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos && ++i == argc) return wrong(word + " needs a value");
      line.secret_directory = equals == std::string::npos ? argv[i] : word.substr(equals + 1);
    } else if (word == "-o" || word == "--output" || absl::StartsWith(word, "--output=")) {
      const size_t equals = word.find('=');
      if (equals == std::string::npos && ++i == argc) return wrong(word + " needs a value");
      const std::string format = equals == std::string::npos ? argv[i] : word.substr(equals + 1);
      if (format != "table" && format != "json") {
        return wrong(absl::StrCat("--output must be table or json, not '", format, "'"));
      }
      line.json = format == "json";
    } else if (absl::StartsWith(word, "-") || word.empty()) {
      return wrong(absl::StrCat("unknown option '", word, "'; see kvtier-fsck --help"));
    } else if (!line.directory.empty()) {
      return wrong(absl::StrCat("one directory at a time, not also ", word));
    } else {
      line.directory = std::move(word);
    }
  }
  if (line.directory.empty()) return wrong("a directory is missing; see kvtier-fsck --help");
  return line;
}

// Progress shows on stderr how much was read: each second on a terminal, each 10 s in a log.
class Progress {
 public:
  void Show(uint64_t done, uint64_t total) {
    const absl::Time now = absl::Now();
    if (now - shown_ < (terminal_ ? absl::Seconds(1) : absl::Seconds(10))) return;
    shown_ = now;
    std::fprintf(stderr, "%s%.1f of %.1f GiB read (%.0f %%)%s", terminal_ ? "\r" : "", Gib(done),
                 Gib(total), 100.0 * static_cast<double>(done) / static_cast<double>(total),
                 terminal_ ? "\033[K" : "\n");
    std::fflush(stderr);
  }
  void End() {
    if (terminal_) std::fprintf(stderr, "\r\033[K");
  }

 private:
  static double Gib(uint64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }
  const bool terminal_ = isatty(STDERR_FILENO) != 0;
  absl::Time shown_ = absl::Now();
};

int Run(const CommandLine& line) {
  std::shared_ptr<const MasterSecret> secret;
  if (!line.secret_directory.empty()) {
    absl::StatusOr<MasterSecret> read = MasterSecret::Read(line.secret_directory);
    if (!read.ok()) {
      std::fprintf(stderr, "kvtier-fsck: --disk_secret_dir: %s\n",
                   std::string(read.status().message()).c_str());
      return kCouldNotCheck;
    }
    secret = std::make_shared<const MasterSecret>(*std::move(read));
  }
  Progress progress;
  const absl::StatusOr<FsckReport> report =
      Fsck({.directory = line.directory,
            .repair = line.repair,
            .secret = std::move(secret),
            .on_progress = [&](auto done, auto total) { progress.Show(done, total); }});
  progress.End();
  if (!report.ok()) {
    std::fprintf(stderr, "kvtier-fsck: %s\n", std::string(report.status().message()).c_str());
    return kCouldNotCheck;
  }
  const std::string text =
      line.json ? FsckJson(line.directory, *report) : FsckTable(line.directory, *report);
  // A script must not mistake output that was cut off for an answer.
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    std::perror("kvtier-fsck: standard output");
    return kCouldNotCheck;
  }
  if (!report->clean()) return kDamaged;
  return report->payloads_unchecked == 0 ? kClean : kCouldNotCheck;
}

}  // namespace
}  // namespace kvtier

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word != "--help" && word != "-h" && word != "--version") continue;
    std::fputs(word == "--version" ? absl::StrCat(kvtier::kBuild, "\n").c_str() : kvtier::kUsage,
               stdout);
    return 0;
  }
  const std::optional<kvtier::CommandLine> line = kvtier::Parse(argc, argv);
  return line ? kvtier::Run(*line) : kvtier::kWrongUsage;
}
