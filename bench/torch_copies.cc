#include "bench/torch_copies.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "bench/command_output.h"

namespace kvtier::bench {
namespace {

// Of all cells: some 40 s where torch is quick to load.
constexpr absl::Duration kTimeout = absl::Seconds(120);

// Prints "speeds ROW_BYTES ROWS IN OUT" for each cell; what it cannot do goes to stdout, too.
constexpr char kScript[] = R"(
import sys, time
try:
    import torch
except ImportError as error:
    sys.exit(print(error) or 1)
if not torch.cuda.is_available():
    sys.exit(print("torch sees no GPU") or 1)
gpu = torch.device("cuda", int(sys.argv[1]))

def seconds(copy):
    times, spent = [], 0.0
    while len(times) < 4 or (spent < 0.1 and len(times) < 26):
        torch.cuda.synchronize(gpu)
        start = time.perf_counter()
        copy()
        torch.cuda.synchronize(gpu)
        times.append(time.perf_counter() - start)
        spent += times[-1]
    return sorted(times[1:])[len(times[1:]) // 2]

for cell in sys.argv[2:]:
    row_bytes, rows = map(int, cell.split("x"))
    pool = torch.zeros((2 * rows, row_bytes), dtype=torch.uint8, device=gpu)
    order = torch.randperm(2 * rows, device=gpu)[:rows]
    sent = torch.randint(0, 256, (rows, row_bytes), dtype=torch.uint8).pin_memory()
    back = torch.zeros((rows, row_bytes), dtype=torch.uint8).pin_memory()
    def onboard():
        pool.index_copy_(0, order, sent.to(gpu, non_blocking=True))
    def offload():
        back.copy_(torch.index_select(pool, 0, order), non_blocking=True)
    onboard()
    offload()
    torch.cuda.synchronize(gpu)
    if not torch.equal(sent, back):
        sys.exit(print("torch: wrong bytes") or 1)
    moved = row_bytes * rows
    print("speeds", row_bytes, rows, moved / seconds(onboard), moved / seconds(offload))
    del pool, order, sent, back
)";

}  // namespace

absl::StatusOr<std::map<TorchCell, TorchSpeeds>> MeasureTorch(int ordinal,
                                                              std::span<const TorchCell> cells) {
  std::vector<std::string> words = {"python3", "-c", kScript, absl::StrCat(ordinal)};
  for (const TorchCell& cell : cells) {
    words.push_back(absl::StrCat(cell.row_bytes, "x", cell.rows));
  }
  const absl::StatusOr<std::string> output = OutputOf(std::move(words), kTimeout);
  if (!output.ok()) return output.status();
  std::map<TorchCell, TorchSpeeds> speeds;
  for (const auto& line : absl::StrSplit(*output, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> fields = absl::StrSplit(line, ' ');
    TorchCell cell;
    TorchSpeeds found;
    if (fields.size() != 5 || fields[0] != "speeds" ||
        !absl::SimpleAtoi(fields[1], &cell.row_bytes) || !absl::SimpleAtoi(fields[2], &cell.rows) ||
        !absl::SimpleAtod(fields[3], &found.in) || !absl::SimpleAtod(fields[4], &found.out)) {
      return absl::UnavailableError(absl::StrCat("torch said: ", std::string(line)));
    }
    speeds[cell] = found;
  }
  return speeds;
}

}  // namespace kvtier::bench
