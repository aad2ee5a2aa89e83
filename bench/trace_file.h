// Reads public request traces: JSON lines, zstd-compressed or plain, in one of two schemas, which
// differ in their fields.
//
// Requests, one a line (Mooncake):
//   {timestamp: ms, input_length: tokens, hash_ids: [one a block of 512 tokens]}
// Sessions, one a line (WEKA):
//   {id, block_size, requests: [{t: s, model, in: tokens, hash_ids}, or
//                               {t: s, type: "subagent", requests}]}
// The last id of a request of the first schema may be of a partial block. Sessions have no common
// clock: they begin at random times of one day, drawn with a fixed seed. Their blocks are small: as
// many as make 512 tokens become one block, and a remainder is left out. Models and sessions do not
// share blocks. The requests of sessions have a hint.
#ifndef KVTIER_BENCH_TRACE_FILE_H_
#define KVTIER_BENCH_TRACE_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "bench/trace.h"

namespace kvtier::bench {

// Whether the partial last blocks of the first schema belong to the trace. kvtier does not store
// partial blocks, but published results count them.
enum class PartialBlocks : uint8_t { kLeaveOut, kKeep };

// Reads a trace, which is named after the file, up to its first dot. Errors: kNotFound, no such
// file; kDataLoss, it begins as zstd but is damaged; kInvalidArgument, a line of neither schema
// (named by its number).
absl::StatusOr<Trace> ReadTrace(const std::string& path, PartialBlocks partial);

}  // namespace kvtier::bench

#endif  // KVTIER_BENCH_TRACE_FILE_H_
