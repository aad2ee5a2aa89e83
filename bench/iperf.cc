#include "bench/iperf.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bench/command_output.h"
#include "bench/node_process.h"
#include "core/status_macros.h"

namespace kvtier::bench {
namespace {

// Server is iperf3's server, which answers one test and ends (--one-off); it is killed if it did
// not.
class Server {
 public:
  explicit Server(const std::string& port) {
    std::vector<std::string> words = {"iperf3",           "--server",       "--one-off",
                                      "--bind=127.0.0.1", "--port=" + port, "--logfile=/dev/null"};
    std::vector<char*> arguments = ArgumentsOf(&words);
    if (posix_spawnp(&pid_, "iperf3", nullptr, nullptr, arguments.data(), environ) != 0) pid_ = -1;
  }
  ~Server() {
    if (pid_ <= 0) return;
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
  }

 private:
  pid_t pid_ = -1;
};

}  // namespace

absl::StatusOr<double> RunIperf(int seconds) {
  const std::string address = FreeAddress();
  const std::string port = address.substr(address.find(':') + 1);
  const Server server(port);
  absl::Status last;
  // The server needs a moment. --connect-timeout does not cover a refused connection, which iperf3
  // reports in JSON.
  for (int attempt = 0; attempt < 20; ++attempt) {
    const absl::StatusOr<std::string> json =
        OutputOf({"iperf3", "--client=127.0.0.1", "--port=" + port,
                  absl::StrCat("--time=", seconds), "--json"},
                 absl::InfiniteDuration());
    if (absl::IsNotFound(json.status())) return json.status();
    last = json.status();
    if (json.ok()) {
      const absl::StatusOr<double> bits = JsonNumber(*json, "sum_received", "bits_per_second");
      if (bits.ok()) return *bits / 8;
      last = bits.status();
    }
    absl::SleepFor(absl::Milliseconds(100));
  }
  return last;
}

}  // namespace kvtier::bench
